"""Refresh token rotation, and token revocation (RFC 7009).

Refresh tokens are single-use. Reuse or revocation of a token ends its session.
"""

from dataclasses import replace
from typing import Any

from authlib.oauth2.rfc6749.errors import InvalidGrantError, InvalidRequestError
from authlib.oauth2.rfc6749.grants import RefreshTokenGrant
from authlib.oauth2.rfc7009 import RevocationEndpoint
from sqlalchemy import Row

from service.authn import bearer_tokens, sessions
from service.oidc_issuer import queries, tokens
from service.oidc_issuer.queries import Person
from service.oidc_issuer.server import CLIENT, IssuerRequest


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
        return tokens.issue_tokens(
            request,
            user,
            session_id=row.session_id,
            scope=CLIENT.get_allowed_scope(request.payload.scope or row.scope),
            refresh_scope=row.scope,
            ends_at=row.session_expires_at,
        )

    def _end_session_for_reuse(self, row: Row[Any]) -> None:
        tokens.end_session_for_replay(self.request, row.user_id, row.session_id, "refresh_token")
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
