"""Verification of the audit log for operators."""

from starlette.responses import JSONResponse

from service.api.dependencies import PlatformDep
from service.api.protected_route import protected_router
from service.audit import chain
from service.audit.chain import verify
from service.clock import wire_time

router = protected_router("audit")


@router.get("/api/v1/platform/audit/verify", operation_id="verifyAuditLog")
def verify_audit_log(platform: PlatformDep) -> JSONResponse:
    """Verify the chain of the whole audit log; `firstBad` is null if it is intact."""
    with platform.database.read() as connection:
        verification = verify(connection, chain.key_of(platform.secret))
    fault = verification.fault
    return JSONResponse(
        {
            "entries": verification.entries,
            "unchained": verification.unchained,
            "ok": fault is None,
            "firstBad": fault and {"id": fault.id, "at": fault.at and wire_time(fault.at), "why": fault.reason},
            "head": verification.head,
            "chainedSince": verification.began_at and wire_time(verification.began_at),
        }
    )
