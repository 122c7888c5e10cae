"""Routes for operators: the owner of the unix socket. They are not served over TCP."""

import os

from fastapi import Depends
from sqlalchemy import func, select
from sqlalchemy.engine import make_url
from starlette.responses import JSONResponse

from service.api.protected_route import protected_router
from service.audit import entries
from service.authz.authorize import AuthorizationContext, get_context
from service.clock import wire_time
from service.context import Platform, platform_of
from service.db import migrate
from service.db.tables import platform_state, resources, tenants
from service.jobs import queries as operations
from service.settings import VERSION

router = protected_router("platform")


@router.get("/api/v1/platform/status")
def platform_status(
    platform: Platform = Depends(platform_of), access: AuthorizationContext = Depends(get_context)
) -> JSONResponse:
    """Return version, process, seed and database of the platform, and the number of rows in it."""
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


@router.post("/api/v1/platform/stop", status_code=202)
def stop_platform(
    platform: Platform = Depends(platform_of), access: AuthorizationContext = Depends(get_context)
) -> JSONResponse:
    """Stop the process after the current requests, as SIGTERM does."""
    with platform.database.write() as connection:
        entries.record(connection, access.caller, operation="platform.stop", target="platform", at=platform.clock.now())
    platform.request_stop()
    return JSONResponse({"status": "stopping"}, 202)
