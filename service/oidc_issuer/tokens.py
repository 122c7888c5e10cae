"""Access, refresh and ID tokens of sessions, with which they expire at the latest.

Refresh tokens are single-use (rotation). Reuse or revocation (RFC 7009) of a token ends its session.
"""

import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from authlib.oauth2.rfc6749.errors import InvalidGrantError, InvalidRequestError
from authlib.oauth2.rfc6749.grants import RefreshTokenGrant
from authlib.oauth2.rfc7009 import RevocationEndpoint
from sqlalchemy import Connection, Row

from service.audit import entries
from service.audit.entries import AuditEvent
from service.authn import bearer_tokens, sessions
from service.db.statements import get_value
from service.oidc_issuer import queries
from service.oidc_issuer.issuer import LocalIssuer
from service.oidc_issuer.queries import Person
from service.oidc_issuer.server import CLIENT, IssuerRequest
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


class RefreshToken:
    def __init__(self, row: Row[Any]) -> None:
        self.row = row

    def check_client(self, client: object) -> bool:
        return bool(self.row.client_id == CLIENT.get_client_id())

    def get_scope(self) -> str:
        return str(self.row.scope)


class RefreshGrant(RefreshTokenGrant):
    """Consumes the old token before it issues a new one.

    Authlib revokes the old token last, so that two concurrent requests would succeed. Here the second fails as reuse.
    """

    TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
    request: IssuerRequest

    def authenticate_refresh_token(self, refresh_token: str) -> RefreshToken | None:
        token_hash = queries.digest(self.request.issuer.secret, "refresh", refresh_token)
        row = queries.get_refresh_token(self.request.connection, token_hash)
        if row is None:
            return None
        if row.used_at is not None:
            self._end_session_for_reuse(row)
        if row.ended_at is not None or self.request.at >= row.session_expires_at:
            raise InvalidGrantError("The session has ended.")
        return RefreshToken(row)

    def authenticate_user(self, refresh_token: RefreshToken) -> Person:
        person = queries.get_person(self.request.connection, refresh_token.row.user_id)
        if person is None:
            raise InvalidGrantError("The session has ended.")
        return person

    def issue_token(self, user: Person, refresh_token: RefreshToken) -> dict[str, Any]:
        request, row = self.request, refresh_token.row
        if not queries.consume_refresh_token(request.connection, row.token_hash, at=request.at):
            self._end_session_for_reuse(row)
        return issue_tokens(
            request,
            user,
            session_id=row.session_id,
            scope=CLIENT.get_allowed_scope(request.payload.scope or row.scope),
            refresh_scope=row.scope,
            ends_at=row.session_expires_at,
        )

    def _end_session_for_reuse(self, row: Row[Any]) -> None:
        end_session_for_replay(self.request, row.user_id, row.session_id, "refresh_token")
        raise InvalidGrantError("The refresh token was used before; its session has been ended.")

    def revoke_old_credential(self, refresh_token: RefreshToken) -> None:
        """Do nothing: `issue_token` has marked the token as used."""


class Revocation(RevocationEndpoint):
    """Ends the session of a refresh or access token. The response is 200 also for invalid tokens (RFC 7009 2.2)."""

    CLIENT_AUTH_METHODS = ("none",)

    def authenticate_token(self, request: IssuerRequest, client: object) -> str | None:
        """Return the id of the token's session, without `token_type_hint`."""
        token = request.form.get("token")
        if not token:
            raise InvalidRequestError("Missing 'token' in request.")
        token_hash = queries.digest(request.issuer.secret, "refresh", token)
        if row := queries.get_refresh_token(request.connection, token_hash):
            return str(row.session_id)
        verified = bearer_tokens.verify(token, request.issuer)
        return str(verified.claims.get("sid")) if verified else None

    def revoke_token(self, token: str, request: IssuerRequest) -> None:
        session = sessions.get(request.connection, token)
        if session:
            actor = replace(
                request.principal, kind="session", user_id=session.user_id, email=session.email, session_id=session.id
            )
            sessions.sign_out(request.connection, actor, session.id, at=request.at)
