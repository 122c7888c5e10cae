"""Routes of the sessions of the caller."""

from fastapi import Depends
from starlette.responses import JSONResponse, Response

from service.api.changes import change
from service.api.protected_route import protected_router
from service.audit import entries
from service.authn import sessions
from service.authz.authorize import AuthorizationContext, get_context
from service.clock import wire_time
from service.context import Platform, platform_of
from service.errors import session_required

router = protected_router("sessions")


@router.get("/api/v1/sessions")
def list_sessions(
    platform: Platform = Depends(platform_of), access: AuthorizationContext = Depends(get_context)
) -> JSONResponse:
    """List the caller's active sessions on every device, last used first."""
    with platform.database.read() as connection:
        rows = sessions.active(connection, str(access.caller.user_id), platform.clock.now())
    return JSONResponse(
        {
            "sessions": [
                {
                    "id": row.id,
                    "device": row.device,
                    "place": row.place,
                    "startedAt": wire_time(row.started_at),
                    "lastSeenAt": wire_time(row.last_seen_at),
                    "expiresAt": wire_time(row.expires_at),
                    "current": row.id == access.caller.session_id,
                }
                for row in rows
            ]
        }
    )


@router.post("/api/v1/sessions/revoke-all")
def revoke_all_sessions(
    platform: Platform = Depends(platform_of), access: AuthorizationContext = Depends(get_context)
) -> JSONResponse:
    """End every session on every device, of every issuer, including this one. API keys stay valid."""
    user_id, now = str(access.caller.user_id), platform.clock.now()
    with change(platform, access) as (connection, access):
        ended = sessions.end_all(connection, user_id, reason="revoked_all", at=now)
        entries.record(
            connection,
            access.caller,
            operation="session.revoke_all",
            target=f"user:{user_id}",
            details={"sessions": ended},
            at=now,
        )
    return JSONResponse({"ended": ended})


@router.post("/api/v1/sessions/current/end", status_code=204)
def end_current_session(
    platform: Platform = Depends(platform_of), access: AuthorizationContext = Depends(get_context)
) -> Response:
    """Sign out: the session, its access tokens and its refresh tokens end at once."""
    session_id = access.caller.session_id
    if session_id is None:
        raise session_required()
    with change(platform, access) as (connection, access):
        sessions.sign_out(connection, access.caller, session_id, at=platform.clock.now())
    return Response(status_code=204)
