"""Liveness and readiness checks, without a credential and outside `/api`."""

import logging
import os
from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from service.api.dependencies import PlatformDep
from service.api.protected_route import protected_router
from service.audit import chain
from service.audit.seals import ChainBroken
from service.clock import SystemClock
from service.context import Platform
from service.db import migrate
from service.db.errors import Busy
from service.jobs import queries
from service.json_response import JSONResponse

logger = logging.getLogger(__name__)
router = protected_router("health")

NO_ANSWER = {"database": "no_answer"}
"""The result if the checks do not end."""
MAX_CLOCK_LAG = timedelta(seconds=5)
MIN_FREE_BYTES = 16 * 1024 * 1024
"""For the log and the SQLite database in the data folder."""


@router.get("/healthz", operation_id="alive")
async def alive() -> JSONResponse:
    """Answer 200 while the process answers requests."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", operation_id="ready")
async def ready(platform: PlatformDep) -> JSONResponse:
    """Answer 200 if requests can be served, otherwise 503 with the status `stopping` or `degraded`.

    Each check is `ok` or another word. Results are about a second old, and up to ten while the database is slow.
    """
    results = with_draining(platform, await platform.readiness.get_soon(lambda: _run_checks(platform)) or NO_ANSWER)
    healthy = all(is_good(result) for result in results.values())
    status = "stopping" if platform.draining.is_set() else "ok" if healthy else "degraded"
    return JSONResponse({"status": status, "checks": results}, 200 if status == "ok" else 503)


def checks(platform: Platform) -> Mapping[str, str]:
    """Return the readiness checks, at most a second old."""
    return with_draining(platform, platform.readiness.get(lambda: _run_checks(platform)))


def start_checks(platform: Platform) -> None:
    """Start the checks before the first request."""
    platform.readiness.refresh(lambda: _run_checks(platform))


def repeat_checks(platform: Platform, *, is_in_use: bool) -> None:
    """Start the checks again if their result is old; see `ReadinessCache.repeat`."""
    platform.readiness.repeat(lambda: _run_checks(platform), is_in_use=is_in_use)


def is_good(result: str) -> bool:
    """Return whether requests can be served; `busy` only means concurrent writes."""
    return result in ("ok", "busy")


def with_draining(platform: Platform, results: Mapping[str, str]) -> Mapping[str, str]:
    return {**results, "operations": "stopping"} if platform.draining.is_set() else results


def _run_checks(platform: Platform) -> dict[str, str]:
    results = {
        "database": database_check(platform),
        "migrations": "unknown",
        "operations": "unknown",
        "audit": "unknown",
        "disk": disk_check(platform),
        "clock": clock_check(platform),
    }
    if results["database"] != "unreachable":
        try:
            # A revision ahead is fine: a newer replica has migrated the database.
            results["migrations"] = "behind" if migrate.is_behind(migrate.stored_revision(platform.database)) else "ok"
            with platform.database.read() as connection:
                queries.open_count(connection)
            results["operations"] = "stopping" if platform.stopping.is_set() else "ok"
            results["audit"] = audit_check(platform)
        except SQLAlchemyError:
            logger.exception("a readiness check failed")
    return results


def database_check(platform: Platform) -> str:
    """Return `ok`, `unreachable`, `read_only` or `full` (a recent change failed)."""
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
    """Return `ok`, `busy` (concurrent writes), `broken` (the chain's head is invalid) or `unwritable`.

    With the last two, every change fails.
    """
    try:
        return "ok" if chain.can_append(platform.database, platform.secret) else "unwritable"
    except Busy:
        return "busy"
    except ChainBroken as error:
        logger.error("%s", error)
        return "broken"


def clock_check(platform: Platform) -> str:
    """Return `ok`, or `went_back` if the system clock was set back, which the platform ignores until it restarts."""
    clock = platform.clock
    return "went_back" if isinstance(clock, SystemClock) and clock.lag() > MAX_CLOCK_LAG else "ok"


def disk_check(platform: Platform) -> str:
    disk = os.statvfs(platform.settings.data_dir)
    return "ok" if disk.f_bavail * disk.f_frsize >= MIN_FREE_BYTES else "full"
