"""The session a request came with."""

from fastapi import Depends
from starlette.responses import Response

from service.access import sessions
from service.access.authority import Access, authorize
from service.access.guard import area
from service.errors import session_required
from service.platform import Platform, platform_of

router = area("sessions")


@router.post("/api/v1/sessions/current/end", status_code=204)
def end_current_session(platform: Platform = Depends(platform_of), access: Access = Depends(authorize)) -> Response:
    """Sign out: the session, its access tokens and its refresh tokens are dead from the next request on."""
    session_id = access.caller.session_id
    if session_id is None:
        raise session_required()
    with platform.database.write() as connection:
        sessions.sign_out(connection, access.caller, session_id, at=platform.clock.now())
    return Response(status_code=204)
