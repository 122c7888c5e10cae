"""Refresh tokens: good for one use each; a second use ends the session they belong to. checklist N08; attack C07"""

from typing import Any

from authlib.oauth2.rfc6749.errors import InvalidGrantError
from authlib.oauth2.rfc6749.grants import RefreshTokenGrant
from sqlalchemy import Row

from service.issuer import codes, grants, store
from service.issuer.protocol import CLIENT, IssuerRequest
from service.issuer.store import Person


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
        digest = codes.digest(self.request.issuer.secret, "refresh", refresh_token)
        row = store.refresh_token(self.request.connection, digest)
        if row is None:
            return None
        if row.used_at is not None:
            self._reused(row)
        if row.ended_at is not None or self.request.at >= row.session_expires_at:
            raise InvalidGrantError("The session has ended.")
        return RefreshToken(row)

    def authenticate_user(self, refresh_token: RefreshToken) -> Person:
        person = store.person(self.request.connection, refresh_token.row.user_id)
        if person is None:
            raise InvalidGrantError("The session has ended.")
        return person

    def issue_token(self, user: Person, refresh_token: RefreshToken) -> dict[str, Any]:
        request, row = self.request, refresh_token.row
        if not store.take_refresh_token(request.connection, row.token_hash, at=request.at):
            self._reused(row)
        return grants.tokens(
            request,
            user,
            session_id=row.session_id,
            scope=CLIENT.get_allowed_scope(request.payload.scope or row.scope),
            kept_scope=row.scope,
            ends_at=row.session_expires_at,
        )

    def _reused(self, row: Row[Any]) -> None:
        request = self.request
        grants.end_for_replay(request.connection, request.caller, row.session_id, what="refresh_token", at=request.at)
        raise InvalidGrantError("The refresh token was used before; its session has been ended.")

    def revoke_old_credential(self, refresh_token: RefreshToken) -> None:
        """Done already, see above."""
