"""Starts sessions and issues their access, refresh and ID tokens, which expire with the session at the latest."""

import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from service.audit import entries
from service.audit.entries import AuditEvent
from service.authn import sessions
from service.db.platform_state import get_value
from service.oidc_issuer import queries
from service.oidc_issuer.issuer import LocalIssuer
from service.oidc_issuer.queries import Person
from service.oidc_issuer.server import IssuerRequest
from service.settings import AUDIENCE, CLIENT_ID

ACCESS_TOKEN_LIFETIME = timedelta(minutes=30)
MAX_DEVICE_NAME_LENGTH = 200


def device_name(text: str | None) -> str:
    """Return at most 200 printable characters."""
    return "".join(letter for letter in text or "" if letter.isprintable()).strip()[:MAX_DEVICE_NAME_LENGTH]


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
    """Start a session; return the response of the token endpoint."""
    issuer, connection, at = request.issuer, request.connection, request.at
    sessions.start(
        connection,
        issuer=issuer.issuer,
        user_id=person.id,
        device=device,
        location="this machine",
        at=at,
        session_id=session_id,
    )
    actor = replace(request.principal, kind="session", user_id=person.id, email=person.email, session_id=session_id)
    entries.record(
        connection,
        actor,
        event=AuditEvent.SESSION_START,
        target=f"session:{session_id}",
        details={"grant": request.payload.grant_type, "device": device},
        at=at,
    )
    ends_at = at + sessions.LIFETIME
    token = issue_tokens(request, person, session_id=session_id, scope=scope, refresh_scope=scope, ends_at=ends_at)
    if "openid" in scope.split():
        token["id_token"] = _id_token(issuer, person, session_id, at, ends_at, auth_time, nonce)
    return token


def issue_tokens(
    request: IssuerRequest, person: Person, *, session_id: str, scope: str, refresh_scope: str, ends_at: datetime
) -> dict[str, Any]:
    """Issue an access token for `scope` and a refresh token for `refresh_scope`. The session expires at `ends_at`."""
    at = request.at
    issued_at, expires_at = int(at.timestamp()), int(min(at + ACCESS_TOKEN_LIFETIME, ends_at).timestamp())
    claims = {
        "iss": request.issuer.issuer,
        "sub": person.id,
        "aud": AUDIENCE,
        "exp": expires_at,
        "nbf": issued_at,
        "iat": issued_at,
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
        scope=refresh_scope,
        issued_at=at,
        expires_at=ends_at,
    )
    return {
        "access_token": request.issuer.sign(claims),
        "token_type": "Bearer",
        "expires_in": expires_at - issued_at,
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
    """Sign an ID token. Authlib's OpenIDCode uses the system clock instead of the platform's."""
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


def end_session_for_replay(request: IssuerRequest, user_id: str, session_id: str | None, credential: str) -> None:
    """End the session of a code or refresh token that was used twice, which indicates theft.

    Args:
        credential: `refresh_token` or `authorization_code`.
    """
    reason = f"{credential}_reuse"
    if session_id and sessions.end(request.connection, user_id, session_id, reason=reason, at=request.at):
        entries.record(
            request.connection,
            request.principal,
            event=AuditEvent.SESSION_END,
            target=f"session:{session_id}",
            details={"reason": reason},
            at=request.at,
        )


UNKNOWN_PERSON = "The account does not exist on this platform."


def find_person(connection: Connection, email: str | None) -> Person | None:
    """Return a person by address, by default the first person of the platform; None if unknown or deleted."""
    address = email or get_value(connection, "first_person")
    return queries.get_person_by_email(connection, address) if address else None


def record_refused_sign_in(request: IssuerRequest, email: str | None) -> None:
    printable = "".join(letter for letter in email or "" if letter.isprintable())
    entries.record(
        request.connection,
        request.principal,
        event=AuditEvent.SESSION_START,
        target=f"user:{printable}",
        outcome="refused",
        details={"reason": "unknown_person"},
        at=request.at,
    )
