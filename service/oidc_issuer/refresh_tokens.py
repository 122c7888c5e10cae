"""Refresh tokens: good for one use each; a second use ends the session they belong to. checklist N08; attack C07

Revocation (RFC 7009): whoever hands a token back ends the session it belongs to.
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
    """A row of `refresh_tokens`, with its session, as Authlib asks it."""

    def __init__(self, row: Row[Any]) -> None:
        self.row = row

    def check_client(self, client: object) -> bool:
        return bool(self.row.client_id == CLIENT.get_client_id())

    def get_scope(self) -> str:
        return str(self.row.scope)


class RefreshGrant(RefreshTokenGrant):
    """Rotation, with the order turned around: the old token is used up *before* a new one is made.

    Authlib revokes the old token after it has saved the new one, which two requests at once would both survive. Here
    one UPDATE decides, and the loser is treated as what it may be: the holder of a stolen copy.
    """

    TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
    request: IssuerRequest

    def authenticate_refresh_token(self, refresh_token: str) -> RefreshToken | None:
        digest = queries.digest(self.request.issuer.secret, "refresh", refresh_token)
        row = queries.refresh_token(self.request.connection, digest)
        if row is None:
            return None
        if row.used_at is not None:
            self._reused(row)
        if row.ended_at is not None or self.request.at >= row.session_expires_at:
            raise InvalidGrantError("The session has ended.")
        return RefreshToken(row)

    def authenticate_user(self, refresh_token: RefreshToken) -> Person:
        person = queries.person(self.request.connection, refresh_token.row.user_id)
        if person is None:
            raise InvalidGrantError("The session has ended.")
        return person

    def issue_token(self, user: Person, refresh_token: RefreshToken) -> dict[str, Any]:
        request, row = self.request, refresh_token.row
        if not queries.take_refresh_token(request.connection, row.token_hash, at=request.at):
            self._reused(row)
        return tokens.tokens(
            request,
            user,
            session_id=row.session_id,
            scope=CLIENT.get_allowed_scope(request.payload.scope or row.scope),
            kept_scope=row.scope,
            ends_at=row.session_expires_at,
        )

    def _reused(self, row: Row[Any]) -> None:
        request = self.request
        tokens.end_for_replay(request.connection, request.caller, row.session_id, what="refresh_token", at=request.at)
        raise InvalidGrantError("The refresh token was used before; its session has been ended.")

    def revoke_old_credential(self, refresh_token: RefreshToken) -> None:
        """Done already, see above."""


class Revocation(RevocationEndpoint):
    """Always 200: a token that is unknown, used or expired is as revoked as can be.

    An access token alone cannot be taken back from its session, so it ends the session too.
    """

    CLIENT_AUTH_METHODS = ("none",)

    def authenticate_token(self, request: IssuerRequest, client: object) -> str | None:
        """The id of the session the token belongs to. The hint is not needed: the two kinds look different."""
        token = request.form.get("token")
        if not token:
            raise InvalidRequestError("Missing 'token' in request.")
        digest = queries.digest(request.issuer.secret, "refresh", token)
        if row := queries.refresh_token(request.connection, digest):
            return str(row.session_id)
        verified = bearer_tokens.verify(token, request.issuer)
        return str(verified.claims.get("sid")) if verified else None

    def revoke_token(self, token: str, request: IssuerRequest) -> None:
        session = sessions.get(request.connection, token)
        if session:
            actor = replace(
                request.caller, kind="session", user_id=session.user_id, email=session.email, session_id=session.id
            )
            sessions.sign_out(request.connection, actor, session.id, at=request.at)
