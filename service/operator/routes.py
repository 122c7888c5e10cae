"""Routes for operators, served only on the unix socket."""

import os

from sqlalchemy import func, select
from sqlalchemy.engine import make_url

from service.api.dependencies import ContextDep, PlatformDep
from service.api.protected_route import protected_router
from service.audit import entries
from service.audit.entries import AuditEvent
from service.clock import wire_time
from service.db import migrate
from service.db.tables import platform_state, resources, tenants
from service.jobs import queries as operations
from service.json_response import JSONResponse
from service.settings import VERSION

router = protected_router("platform")


@router.get("/api/v1/platform/status", operation_id="platformStatus")
def platform_status(platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """Return the platform's version, process, seed, database and numbers of rows."""
    with platform.database.read() as connection:
        stalled = operations.stalled_count(connection, platform.clock.now())
        open_count = operations.open_count(connection)
        seed = select(platform_state.c.value).where(platform_state.c.name == "world").scalar_subquery()
        counts = connection.execute(
            select(
                seed.label("world"),
                select(func.count()).select_from(tenants).scalar_subquery().label("tenants"),
                select(func.count()).select_from(resources).scalar_subquery().label("resources"),
            )
        ).one()
    return JSONResponse(
        {
            "version": VERSION,
            "pid": os.getpid(),
            "startedAt": wire_time(platform.started_at),
            "world": counts.world,
            "database": make_url(platform.settings.database_url).render_as_string(hide_password=True),
            "socket": str(platform.settings.socket),
            "schemaRevision": migrate.HEAD,
            "openOperations": open_count,
            "stalledOperations": stalled,
            "tenants": counts.tenants,
            "resources": counts.resources,
        }
    )


@router.post("/api/v1/platform/stop", operation_id="stopPlatform", status_code=202)
def stop_platform(platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """Stop the process after the current requests, as SIGTERM does."""
    with platform.database.write() as connection:
        entries.record(
            connection, context.principal, event=AuditEvent.PLATFORM_STOP, target="platform", at=platform.clock.now()
        )
    platform.request_stop()
    return JSONResponse({"status": "stopping"}, 202)
