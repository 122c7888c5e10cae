"""Is the process alive, and can it work: for supervisors, without a credential and outside `/api`."""

import logging

from fastapi import Depends
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import JSONResponse

from service.access.guard import area
from service.db import migrate
from service.platform import Platform, platform_of

logger = logging.getLogger(__name__)
router = area("health")


@router.get("/healthz")
def alive() -> JSONResponse:
    """200 while the process answers at all."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz")
def ready(platform: Platform = Depends(platform_of)) -> JSONResponse:
    """200 when requests can be served, else 503 `degraded`; each check is `ok` or one word for what is wrong."""
    checks = {"database": database_check(platform), "migrations": "unknown", "operations": "unknown"}
    if checks["database"] != "unreachable":
        try:
            checks["migrations"] = "ok" if migrate.stored_revision(platform.database) == migrate.HEAD else "behind"
            platform.operations.open_count()
            checks["operations"] = "stopping" if platform.stopping.is_set() else "ok"
        except SQLAlchemyError:
            logger.exception("a readiness check failed")
    good = all(state == "ok" for state in checks.values())
    return JSONResponse({"status": "ok" if good else "degraded", "checks": checks}, 200 if good else 503)


def database_check(platform: Platform) -> str:
    """`ok`, `read_only` (reads go on, every change would be refused: hostile I01), or `unreachable`."""
    try:
        with platform.database.read() as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        logger.exception("the database cannot be reached")
        return "unreachable"
    return "ok" if platform.database.writable() else "read_only"
