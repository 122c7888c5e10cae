"""The authorization code grant with PKCE and a loopback redirect (RFC 6749 4.1, RFC 7636, RFC 8252)."""

import re
from datetime import timedelta
from typing import Any

from authlib.oauth2.rfc6749.errors import AccessDeniedError, InvalidGrantError, InvalidRequestError, OAuth2Error
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc7636 import CodeChallenge
from sqlalchemy import Row
from starlette.responses import Response

from service.oidc_issuer import queries, tokens
from service.oidc_issuer.queries import Person
from service.oidc_issuer.server import IssuerRequest, Server

CODE_LIFETIME = timedelta(seconds=60)
# BASE64URL(SHA-256) has 43 characters.
CODE_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
MAX_NONCE_LENGTH = 200


class S256Required(CodeChallenge):
    """Requires PKCE with S256. Authlib accepts requests without a challenge, and a missing method as `plain`."""

    SUPPORTED_CODE_CHALLENGE_METHOD = ("S256",)

    def validate_code_challenge(self, grant: "CodeGrant", redirect_uri: str | None) -> None:
        parameters = grant.request.form
        if parameters.get("code_challenge_method") != "S256":
            raise InvalidRequestError("code_challenge_method must be S256.")
        if not CODE_CHALLENGE.fullmatch(parameters.get("code_challenge", "")):
            raise InvalidRequestError("code_challenge must be 43 base64url characters.")


class AuthorizationCode:
    code_challenge_method = "S256"

    def __init__(self, row: Row[Any]) -> None:
        self.row = row
        self.code_challenge = str(row.code_challenge)

    def get_redirect_uri(self) -> str:
        return str(self.row.redirect_uri)

    def get_scope(self) -> str:
        return str(self.row.scope)


class CodeGrant(AuthorizationCodeGrant):
    """Codes are single-use and expire after a minute; reuse ends the session (RFC 6749 4.1.2)."""

    TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
    request: IssuerRequest

    def create_authorization_response(self, redirect_uri: str, grant_user: Person | None) -> Any:
        if grant_user is None:
            tokens.record_refused_sign_in(self.request, self.request.form.get("login_hint"))
            raise AccessDeniedError(tokens.UNKNOWN_PERSON, redirect_uri=redirect_uri)
        nonce = self.request.form.get("nonce", "")
        if len(nonce) > MAX_NONCE_LENGTH or not nonce.isprintable():
            raise InvalidRequestError("nonce is too long or not printable.", redirect_uri=redirect_uri)
        return super().create_authorization_response(redirect_uri, grant_user)

    def generate_authorization_code(self) -> str:
        return queries.mint()

    def save_authorization_code(self, code: str, request: IssuerRequest) -> None:
        queries.add_authorization_code(
            request.connection,
            code_hash=queries.digest(request.issuer.secret, "code", code),
            client_id=request.client.get_client_id(),
            user_id=request.user.id,
            redirect_uri=request.payload.redirect_uri,
            scope=request.scope,
            nonce=request.form.get("nonce") or None,
            code_challenge=request.form["code_challenge"],
            device=tokens.device_name(request.form.get("device")),
            auth_time=request.at,
            expires_at=request.at + CODE_LIFETIME,
        )

    def query_authorization_code(self, code: str, client: object) -> AuthorizationCode | None:
        code_hash = queries.digest(self.request.issuer.secret, "code", code)
        row = queries.get_authorization_code(self.request.connection, code_hash)
        if row is None:
            return None
        if row.used_at is not None:
            self._end_session_for_replay(row)
        return AuthorizationCode(row) if self.request.at < row.expires_at else None

    def _end_session_for_replay(self, row: Row[Any]) -> None:
        tokens.end_session_for_replay(self.request, row.user_id, row.session_id, "authorization_code")
        raise InvalidGrantError("The code was used before; the session it started has been ended.")

    def authenticate_user(self, authorization_code: AuthorizationCode) -> Person | None:
        return queries.get_person(self.request.connection, authorization_code.row.user_id)

    def generate_token(self, user: Person, scope: str, **_: Any) -> dict[str, Any]:
        request, row = self.request, self.request.authorization_code.row
        session_id = tokens.new_session_id()
        if not queries.consume_authorization_code(
            request.connection, row.code_hash, session_id=session_id, at=request.at
        ):
            first = queries.get_authorization_code(request.connection, row.code_hash)
            self._end_session_for_replay(first or row)
        return tokens.sign_in(
            request,
            user,
            session_id=session_id,
            scope=scope,
            device=row.device,
            auth_time=row.auth_time,
            nonce=row.nonce,
        )

    def delete_authorization_code(self, authorization_code: AuthorizationCode) -> None:
        """Keep a used code, to detect its reuse."""


def authorize(server: Server, request: IssuerRequest) -> Response:
    """Return 302 to the redirect URI with a code or an error, or 400 for an invalid redirect URI."""
    try:
        grant = server.get_authorization_grant(request)
    except OAuth2Error as error:
        error.state = request.payload.state
        rejection: Response = server.handle_error_response(request, error)
        return rejection
    person = tokens.find_person(request.connection, request.form.get("login_hint"))
    response: Response = server.create_authorization_response(request, grant_user=person, grant=grant)
    return response
