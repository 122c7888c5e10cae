"""What a granted request receives: a session, an access token, a refresh token, an id token.

The tokens of a session never outlive it: each expiry is the earlier of its own term and the session's end (C10), and
the session's end is fixed when it starts.

Who signs in: the person of the machine, or another person of the world asked for by address (`--as EMAIL`).
"""

import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from service.audit import entries
from service.audit.events import AuditEvent
from service.authn import sessions
from service.db.platform_state import get_value
from service.oidc_issuer import queries
from service.oidc_issuer.issuer import LocalIssuer
from service.oidc_issuer.queries import Person
from service.oidc_issuer.server import IssuerRequest
from service.principal import Principal
from service.settings import AUDIENCE, CLIENT_ID

ACCESS_TOKEN_LIFETIME = timedelta(minutes=30)
DEVICE_NAME_LIMIT = 200


def device_name(given: str | None) -> str:
    """The name a session's device is shown under: printable, at most 200 characters."""
    return "".join(letter for letter in given or "" if letter.isprintable()).strip()[:DEVICE_NAME_LIMIT]


def new_session_id() -> str:
    return str(uuid.uuid4())


def sign_in(
    request: IssuerRequest,
    person: Person,
    *,
    session_id: str,
    scope: str,
    device: str,
    auth_time: datetime,
    nonce: str | None = None,
) -> dict[str, Any]:
    """Start a session and answer with its first tokens, in the shape of the token endpoint."""
    issuer, connection, at = request.issuer, request.connection, request.at
    sessions.start(
        connection,
        issuer=issuer.issuer,
        user_id=person.id,
        device=device,
        place="this machine",
        at=at,
        session_id=session_id,
    )
    queries.forget_expired(connection, at=at)
    actor = replace(request.caller, kind="session", user_id=person.id, email=person.email, session_id=session_id)
    entries.record(
        connection,
        actor,
        event=AuditEvent.SESSION_START,
        target=f"session:{session_id}",
        details={"grant": request.payload.grant_type, "device": device},
        at=at,
    )
    ends_at = at + sessions.LIFETIME
    token = tokens(request, person, session_id=session_id, scope=scope, kept_scope=scope, ends_at=ends_at)
    if "openid" in scope.split():
        token["id_token"] = _id_token(issuer, person, session_id, at, ends_at, auth_time, nonce)
    return token


def tokens(
    request: IssuerRequest, person: Person, *, session_id: str, scope: str, kept_scope: str, ends_at: datetime
) -> dict[str, Any]:
    """An access token for `scope`, and a new refresh token that is good for `kept_scope`, both until `ends_at` at most.

    The answer's members: access_token, token_type, expires_in (seconds), scope, refresh_token.
    """
    at = request.at
    issued, expires = int(at.timestamp()), int(min(at + ACCESS_TOKEN_LIFETIME, ends_at).timestamp())
    claims = {
        "iss": request.issuer.issuer,
        "sub": person.id,
        "aud": AUDIENCE,
        "exp": expires,
        "nbf": issued,
        "iat": issued,
        "jti": str(uuid.uuid4()),
        "sid": session_id,
        "email": person.email,
        "name": person.name,
        "client_id": CLIENT_ID,
        "scope": scope,
    }
    refresh_token = queries.mint()
    queries.add_refresh_token(
        request.connection,
        token_hash=queries.digest(request.issuer.secret, "refresh", refresh_token),
        session_id=session_id,
        client_id=CLIENT_ID,
        scope=kept_scope,
        issued_at=at,
        expires_at=ends_at,
    )
    return {
        "access_token": request.issuer.sign(claims),
        "token_type": "Bearer",
        "expires_in": expires - issued,
        "scope": scope,
        "refresh_token": refresh_token,
    }


def _id_token(
    issuer: LocalIssuer,
    person: Person,
    session_id: str,
    at: datetime,
    ends_at: datetime,
    auth_time: datetime,
    nonce: str | None,
) -> str:
    """Made by hand: Authlib's OpenIDCode takes its times from the machine's clock, not the platform's."""
    claims = {
        "iss": issuer.issuer,
        "sub": person.id,
        "aud": CLIENT_ID,
        "exp": int(min(at + ACCESS_TOKEN_LIFETIME, ends_at).timestamp()),
        "iat": int(at.timestamp()),
        "auth_time": int(auth_time.timestamp()),
        "sid": session_id,
        "email": person.email,
        "name": person.name,
    }
    return issuer.sign(claims | ({"nonce": nonce} if nonce else {}), "JWT")


def end_for_replay(
    connection: Connection, caller: Principal, session_id: str | None, *, what: str, at: datetime
) -> None:
    """End the session a used code or refresh token belongs to: one of its two holders is a thief (C07).

    Args:
        what: `refresh_token` or `authorization_code`. Written to the audit log once, when it ends the session.
    """
    if session_id and sessions.end(connection, session_id, reason=f"{what}_reuse", at=at):
        entries.record(
            connection,
            caller,
            event=AuditEvent.SESSION_END,
            target=f"session:{session_id}",
            details={"reason": f"{what}_reuse"},
            at=at,
        )


UNKNOWN = "There is no such person on this platform."


def asked_for(connection: Connection, email: str | None) -> Person | None:
    """The person of that address, else who the first sign-in of this world is; None when unknown or deleted."""
    address = email or get_value(connection, "first_person")
    return queries.person_by_email(connection, address) if address else None


def note_refused(request: IssuerRequest, email: str | None) -> None:
    """Write down that somebody at the socket asked to be a person who does not exist."""
    shown = "".join(letter for letter in email or "" if letter.isprintable())
    entries.record(
        request.connection,
        request.caller,
        event=AuditEvent.SESSION_START,
        target=f"user:{shown}",
        outcome="refused",
        details={"reason": "unknown_person"},
        at=request.at,
    )
