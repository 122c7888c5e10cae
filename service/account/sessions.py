"""Routes of the sessions of the principal."""

from starlette.responses import Response

from service.api.changes import change
from service.api.dependencies import ContextDep, PlatformDep
from service.api.protected_route import protected_router
from service.audit import entries
from service.audit.entries import AuditEvent
from service.authn import sessions
from service.clock import wire_time
from service.errors import session_required
from service.json_bodies import JSONResponse

router = protected_router("sessions")


@router.get("/api/v1/sessions", operation_id="listSessions")
def list_sessions(platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """List the principal's active sessions, last used first."""
    with platform.database.read() as connection:
        rows = sessions.list_active(connection, str(context.principal.user_id), platform.clock.now())
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
                    "current": row.id == context.principal.session_id,
                }
                for row in rows
            ]
        }
    )


@router.post("/api/v1/sessions/revoke-all", operation_id="revokeAllSessions")
def revoke_all_sessions(platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """End all sessions of the principal, including this session. API keys remain valid."""
    user_id, now = str(context.principal.user_id), platform.clock.now()
    with change(platform, context) as (connection, context):
        ended = sessions.end_all(connection, user_id, reason="revoked_all", at=now)
        entries.record(
            connection,
            context.principal,
            event=AuditEvent.SESSION_REVOKE_ALL,
            target=f"user:{user_id}",
            details={"sessions": ended},
            at=now,
        )
    return JSONResponse({"ended": ended})


@router.post("/api/v1/sessions/current/end", operation_id="endCurrentSession", status_code=204)
def end_current_session(platform: PlatformDep, context: ContextDep) -> Response:
    """End the session with its access and refresh tokens immediately."""
    session_id = context.principal.session_id
    if session_id is None:
        raise session_required()
    with change(platform, context) as (connection, context):
        sessions.sign_out(connection, context.principal, session_id, at=platform.clock.now())
    return Response(status_code=204)
