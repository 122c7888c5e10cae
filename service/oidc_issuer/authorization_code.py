"""Authorization code with PKCE (RFC 6749 4.1, RFC 7636, RFC 8252): the person at the socket, a loopback redirect."""

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
# BASE64URL(SHA-256): 43 characters, never more.
CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
NONCE_LIMIT = 200


class S256Required(CodeChallenge):
    """PKCE without a way around it.

    Authlib lets an authorization request without any challenge pass, and takes a missing method for `plain`; both
    are refused here, before a code exists.
    """

    SUPPORTED_CODE_CHALLENGE_METHOD = ("S256",)

    def validate_code_challenge(self, grant: "CodeGrant", redirect_uri: str | None) -> None:
        parameters = grant.request.form
        if parameters.get("code_challenge_method") != "S256":
            raise InvalidRequestError("code_challenge_method must be S256.")
        if not CHALLENGE.fullmatch(parameters.get("code_challenge", "")):
            raise InvalidRequestError("code_challenge must be 43 base64url characters.")


class Code:
    """A row of `authorization_codes` as Authlib asks it."""

    code_challenge_method = "S256"

    def __init__(self, row: Row[Any]) -> None:
        self.row = row
        self.code_challenge = str(row.code_challenge)

    def get_redirect_uri(self) -> str:
        return str(self.row.redirect_uri)

    def get_scope(self) -> str:
        return str(self.row.scope)


class CodeGrant(AuthorizationCodeGrant):
    """Codes are good for a minute and once; a second use ends the session of the first."""

    TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
    request: IssuerRequest

    def create_authorization_response(self, redirect_uri: str, grant_user: Person | None) -> Any:
        if grant_user is None:
            tokens.note_refused(self.request, self.request.form.get("login_hint"))
            raise AccessDeniedError(tokens.UNKNOWN, redirect_uri=redirect_uri)
        nonce = self.request.form.get("nonce", "")
        if len(nonce) > NONCE_LIMIT or not nonce.isprintable():
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

    def query_authorization_code(self, code: str, client: object) -> Code | None:
        digest = queries.digest(self.request.issuer.secret, "code", code)
        row = queries.authorization_code(self.request.connection, digest)
        if row is None:
            return None
        if row.used_at is not None:
            self._replayed(row.session_id)
        return Code(row) if self.request.at < row.expires_at else None

    def _replayed(self, session_id: str | None) -> None:
        request = self.request
        tokens.end_for_replay(request.connection, request.caller, session_id, what="authorization_code", at=request.at)
        raise InvalidGrantError("The code was used before; the session it started has been ended.")

    def authenticate_user(self, authorization_code: Code) -> Person | None:
        return queries.person(self.request.connection, authorization_code.row.user_id)

    def generate_token(self, user: Person, scope: str, **_: Any) -> dict[str, Any]:
        request, row = self.request, self.request.authorization_code.row
        session_id = tokens.new_session_id()
        if not queries.take_authorization_code(request.connection, row.code_hash, session_id=session_id, at=request.at):
            first = queries.authorization_code(request.connection, row.code_hash)
            self._replayed(first.session_id if first else None)
        return tokens.sign_in(
            request,
            user,
            session_id=session_id,
            scope=scope,
            device=row.device,
            auth_time=row.auth_time,
            nonce=row.nonce,
        )

    def delete_authorization_code(self, authorization_code: Code) -> None:
        """A used code stays, so that its replay is seen."""


def respond(server: Server, request: IssuerRequest) -> Response:
    """The authorization endpoint: 302 to the redirect URI with a code or an error; 400 when that URI is not ours."""
    try:
        grant = server.get_authorization_grant(request)
    except OAuth2Error as error:
        error.state = request.payload.state
        refused: Response = server.handle_error_response(request, error)
        return refused
    person = tokens.asked_for(request.connection, request.form.get("login_hint"))
    answer: Response = server.create_authorization_response(request, grant_user=person, grant=grant)
    return answer
