"""The grant types of the local issuer with a person's consent: authorization code and device authorization.

The authorization code needs PKCE and a loopback redirect (RFC 6749 4.1, RFC 7636, RFC 8252). The device authorization
grant has codes, approval and polling (RFC 8628).
"""

import re
from datetime import timedelta
from typing import Any

from authlib.oauth2.rfc6749.errors import AccessDeniedError, InvalidGrantError, InvalidRequestError, OAuth2Error
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc8628 import (
    AuthorizationPendingError,
    DeviceAuthorizationEndpoint,
    DeviceCodeGrant,
    DeviceCredentialMixin,
    ExpiredTokenError,
    SlowDownError,
)
from sqlalchemy import Row
from starlette.responses import Response

from service.audit import entries
from service.audit.entries import AuditEvent
from service.oidc_issuer import queries, tokens
from service.oidc_issuer.queries import Person
from service.oidc_issuer.server import CLIENT, IssuerRequest, Server

AUTHORIZATION_CODE_LIFETIME = timedelta(seconds=60)
# BASE64URL(SHA-256) has 43 characters.
CODE_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
MAX_NONCE_LENGTH = 200
DEVICE_CODE_LIFETIME = timedelta(minutes=10)
# Short, because the platform is on the same machine.
POLL_INTERVAL_SECONDS = 2
SLOW_DOWN_SECONDS = 5
# A client that waits exactly the interval may arrive early.
POLL_TOLERANCE = timedelta(milliseconds=250)
EndpointResponse = tuple[int, dict[str, Any], list[tuple[str, str]]]


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
            expires_at=request.at + AUTHORIZATION_CODE_LIFETIME,
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


class DeviceAuthorization(DeviceAuthorizationEndpoint):
    """Issues a device code and a user code.

    Replaces Authlib's response, because its hooks have neither the request nor its transaction.
    """

    CLIENT_AUTH_METHODS = ("none",)

    def create_endpoint_response(self, request: IssuerRequest) -> EndpointResponse:
        self.authenticate_client(request)
        self.server.validate_requested_scope(request.payload.scope)
        secret = request.issuer.secret
        device_code, user_code = queries.mint(), queries.mint_user_code()
        queries.add_device_code(
            request.connection,
            device_code_hash=queries.digest(secret, "device", device_code),
            user_code=queries.user_code_digest(secret, user_code),
            client_id=CLIENT.get_client_id(),
            scope=CLIENT.get_allowed_scope(request.payload.scope),
            device=tokens.device_name(request.form.get("device")),
            created_at=request.at,
            expires_at=request.at + DEVICE_CODE_LIFETIME,
            interval=POLL_INTERVAL_SECONDS,
        )
        verification_uri = f"{request.issuer.issuer}/device"
        body = {
            "device_code": device_code,
            "user_code": user_code,
            "verification_uri": verification_uri,
            "verification_uri_complete": f"{verification_uri}?user_code={user_code}",
            "expires_in": int(DEVICE_CODE_LIFETIME.total_seconds()),
            "interval": POLL_INTERVAL_SECONDS,
        }
        return 200, body, []


class DeviceCode(DeviceCredentialMixin):
    def __init__(self, row: Row[Any]) -> None:
        self.row = row

    def get_client_id(self) -> str:
        return str(self.row.client_id)

    def get_scope(self) -> str:
        return str(self.row.scope)


class DeviceGrant(DeviceCodeGrant):
    """Handles polls: pending, slow down, expired, denied, or (once) the tokens."""

    TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
    request: IssuerRequest

    def query_device_credential(self, device_code: str) -> DeviceCode:
        code_hash = queries.digest(self.request.issuer.secret, "device", device_code)
        row = queries.get_device_code(self.request.connection, code_hash)
        if row is None:
            raise InvalidGrantError("The device code is unknown.")
        return DeviceCode(row)

    def validate_device_credential(self, credential: DeviceCode) -> Person:
        row, connection = credential.row, self.request.connection
        if self.request.at >= row.expires_at:
            raise ExpiredTokenError("The device code has expired; start again.")
        if row.status == "pending":
            raise self._record_poll(row)
        person = queries.get_person(connection, row.user_id)
        if row.status == "denied" or person is None:
            raise AccessDeniedError(tokens.UNKNOWN_PERSON)
        if not queries.consume_device_code(connection, row.device_code_hash):
            raise InvalidGrantError("The device code was used before.")
        return person

    def _record_poll(self, row: Row[Any]) -> AuthorizationPendingError | SlowDownError:
        min_wait = timedelta(seconds=row.interval) - POLL_TOLERANCE
        early = row.last_polled_at and self.request.at - row.last_polled_at < min_wait
        interval = row.interval + SLOW_DOWN_SECONDS if early else row.interval
        queries.record_poll(self.request.connection, row.device_code_hash, at=self.request.at, interval=interval)
        if early:
            return SlowDownError(f"Wait {interval} seconds between polls.")
        return AuthorizationPendingError("The person has not approved yet.")

    def generate_token(self, user: Person, scope: str, **_: Any) -> dict[str, Any]:
        return tokens.sign_in(
            self.request,
            user,
            session_id=tokens.new_session_id(),
            scope=scope,
            device=self.request.credential.row.device,
            auth_time=self.request.at,
        )


def approve(request: IssuerRequest) -> dict[str, Any]:
    """Approve a user code for the person `email`, by default the first person of the platform.

    Raises:
        OAuth2Error: the code cannot be approved, or the person is unknown. The latter denies the code, to end polling.
    """
    if not request.form.get("user_code"):
        raise InvalidRequestError("Missing 'user_code' in request.")
    user_code = queries.normalize_user_code(request.form["user_code"])
    connection = request.connection
    row = queries.get_device_code_by_user_code(connection, queries.user_code_digest(request.issuer.secret, user_code))
    if row is None:
        raise InvalidGrantError("The user code is unknown.")
    if request.at >= row.expires_at:
        raise ExpiredTokenError("The user code has expired; start again.")
    person = tokens.find_person(connection, request.form.get("email"))
    if not queries.decide_device_code(connection, row.device_code_hash, user_id=person.id if person else None):
        raise InvalidGrantError("The user code was used before.")
    if person is None:
        tokens.record_refused_sign_in(request, request.form.get("email"))
        raise AccessDeniedError(tokens.UNKNOWN_PERSON)
    entries.record(
        connection,
        request.principal,
        event=AuditEvent.DEVICE_APPROVE,
        target=f"user:{person.id}",
        details={"device": row.device},
        at=request.at,
    )
    return {"status": "approved", "email": person.email, "device": row.device}


def record_refused_approval(request: IssuerRequest, error: OAuth2Error) -> None:
    """Audit a refused approval. `AccessDeniedError` is already audited as a refused sign-in."""
    if not isinstance(error, AccessDeniedError):
        entries.record(
            request.connection,
            request.principal,
            event=AuditEvent.DEVICE_APPROVE,
            target="user_code",
            outcome="refused",
            details={"code": error.error, "reason": error.description},
            at=request.at,
        )
