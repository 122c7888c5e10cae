"""The audit log for the platform's staff: is its chain whole. hostile I04"""

from starlette.responses import JSONResponse

from service.api.dependencies import PlatformDep
from service.api.protected_route import protected_router
from service.audit import chain
from service.audit.chain import verify
from service.clock import wire_time

router = protected_router("audit")


@router.get("/api/v1/platform/audit/verify", operation_id="verifyAuditLog")
def verify_audit_log(platform: PlatformDep) -> JSONResponse:
    """Read the whole audit log and check its chain; `firstBad` is null when it is whole."""
    with platform.database.read() as connection:
        found = verify(connection, chain.key_of(platform.secret))
    fault = found.fault
    return JSONResponse(
        {
            "entries": found.entries,
            "unchained": found.unchained,
            "ok": fault is None,
            "firstBad": fault and {"id": fault.id, "at": fault.at and wire_time(fault.at), "why": fault.reason},
            "head": found.head,
            "chainedSince": found.began_at and wire_time(found.began_at),
        }
    )
