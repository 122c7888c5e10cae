"""Is the process alive, and can it work: for supervisors, without a credential and outside `/api`."""

import logging
import os
from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import JSONResponse

from service.api.dependencies import PlatformDep
from service.api.protected_route import protected_router
from service.audit import chain
from service.clock import SystemClock
from service.context import Platform
from service.db import migrate
from service.db.errors import Busy
from service.jobs import queries

logger = logging.getLogger(__name__)
router = protected_router("health")

NO_ANSWER = {"database": "no_answer"}
"""The checks while the database has not answered them for a while."""
WENT_BACK = timedelta(seconds=5)
LEAST_FREE = 16 * 1024 * 1024
"""Bytes that must be free where the data folder is: the log, and SQLite's database, grow there."""


@router.get("/healthz", operation_id="alive")
async def alive() -> JSONResponse:
    """200 while the process answers at all."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", operation_id="ready")
async def ready(platform: PlatformDep) -> JSONResponse:
    """200 when requests can be served, else 503: `stopping` once the process was asked to end, or `degraded`.

    Each check is `ok` or one word. It does not wait for a busy database: then the checks are up to ten seconds old.
    """
    found = with_draining(platform, await platform.readiness.get_soon(lambda: _run_checks(platform)) or NO_ANSWER)
    good = all(is_good(state) for state in found.values())
    status = "stopping" if platform.draining.is_set() else "ok" if good else "degraded"
    return JSONResponse({"status": status, "checks": found}, 200 if status == "ok" else 503)


def checks(platform: Platform) -> Mapping[str, str]:
    """Return the checks of readiness, each `ok` or one word; a second old at most."""
    return with_draining(platform, platform.readiness.get(lambda: _run_checks(platform)))


def start_checks(platform: Platform) -> None:
    """Start the checks of readiness, so that the first caller need not wait for them."""
    platform.readiness.refresh(lambda: _run_checks(platform))


def is_good(state: str) -> bool:
    """Return whether a check lets requests be served. `busy` does: others are writing at this moment."""
    return state in ("ok", "busy")


def with_draining(platform: Platform, found: Mapping[str, str]) -> Mapping[str, str]:
    return {**found, "operations": "stopping"} if platform.draining.is_set() else found


def _run_checks(platform: Platform) -> dict[str, str]:
    found = {
        "database": database_check(platform),
        "migrations": "unknown",
        "operations": "unknown",
        "audit": "unknown",
        "disk": disk_check(platform),
        "clock": clock_check(platform),
    }
    if found["database"] != "unreachable":
        try:
            # A newer replica may have migrated meanwhile: this one goes on beside it.
            found["migrations"] = "behind" if migrate.is_behind(migrate.stored_revision(platform.database)) else "ok"
            with platform.database.read() as connection:
                queries.open_count(connection)
            found["operations"] = "stopping" if platform.stopping.is_set() else "ok"
            found["audit"] = audit_check(platform)
        except SQLAlchemyError:
            logger.exception("a readiness check failed")
    return found


def database_check(platform: Platform) -> str:
    """`ok`, `read_only` (every change would be refused), `full` (a change was refused lately), or `unreachable`."""
    try:
        with platform.database.read() as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        logger.exception("the database cannot be reached")
        return "unreachable"
    if not platform.database.is_writable():
        return "read_only"
    return "ok" if platform.request_metrics.is_writable() else "full"


def audit_check(platform: Platform) -> str:
    """`ok`; `busy` (other changes are being written); `broken` (the end of the log is not the platform's, so nothing
    can be added), or `unwritable`: no entry can be added, and so nothing can be changed.
    """
    try:
        return "ok" if chain.can_append(platform.database, platform.secret) else "unwritable"
    except Busy:
        return "busy"
    except chain.ChainBroken as error:
        logger.error("%s", error)
        return "broken"


def clock_check(platform: Platform) -> str:
    """`ok`, or `went_back` when the machine's clock was set back while the platform ran: it goes by its own until it is
    started again, so that nothing lives longer. hostile J09
    """
    clock = platform.clock
    return "went_back" if isinstance(clock, SystemClock) and clock.lag() > WENT_BACK else "ok"


def disk_check(platform: Platform) -> str:
    """`ok`, or `full` when there is next to no room where the data folder is. hostile J09"""
    disk = os.statvfs(platform.settings.data_dir)
    return "ok" if disk.f_bavail * disk.f_frsize >= LEAST_FREE else "full"
