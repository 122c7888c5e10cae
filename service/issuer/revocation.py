"""Revocation (RFC 7009): whoever hands a token back ends the session it belongs to."""

from dataclasses import replace

from authlib.oauth2.rfc6749.errors import InvalidRequestError
from authlib.oauth2.rfc7009 import RevocationEndpoint

from service.access import sessions, tokens
from service.issuer import codes, store
from service.issuer.protocol import IssuerRequest


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
        digest = codes.digest(request.issuer.secret, "refresh", token)
        if row := store.refresh_token(request.connection, digest):
            return str(row.session_id)
        verified = tokens.verify(token, request.issuer)
        return str(verified.claims.get("sid")) if verified else None

    def revoke_token(self, token: str, request: IssuerRequest) -> None:
        session = sessions.get(request.connection, token)
        if session:
            actor = replace(
                request.caller, kind="session", user_id=session.user_id, email=session.email, session_id=session.id
            )
            sessions.sign_out(request.connection, actor, session.id, at=request.at)
