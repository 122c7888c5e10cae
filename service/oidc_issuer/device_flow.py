"""The device authorization grant (RFC 8628): codes, approval and polling."""

from datetime import timedelta
from typing import Any

from authlib.oauth2.rfc6749.errors import AccessDeniedError, InvalidGrantError, InvalidRequestError, OAuth2Error
from authlib.oauth2.rfc8628 import (
    AuthorizationPendingError,
    DeviceAuthorizationEndpoint,
    DeviceCodeGrant,
    DeviceCredentialMixin,
    ExpiredTokenError,
    SlowDownError,
)
from sqlalchemy import Row

from service.audit import entries
from service.audit.entries import AuditEvent
from service.oidc_issuer import queries, tokens
from service.oidc_issuer.queries import Person
from service.oidc_issuer.server import CLIENT, IssuerRequest

CODE_LIFETIME = timedelta(minutes=10)
# Short, because the platform is on the same machine.
POLL_INTERVAL_SECONDS = 2
SLOW_DOWN_SECONDS = 5
# A client that waits exactly the interval may arrive early.
POLL_TOLERANCE = timedelta(milliseconds=250)
EndpointResponse = tuple[int, dict[str, Any], list[tuple[str, str]]]


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
            expires_at=request.at + CODE_LIFETIME,
            interval=POLL_INTERVAL_SECONDS,
        )
        verification_uri = f"{request.issuer.issuer}/device"
        body = {
            "device_code": device_code,
            "user_code": user_code,
            "verification_uri": verification_uri,
            "verification_uri_complete": f"{verification_uri}?user_code={user_code}",
            "expires_in": int(CODE_LIFETIME.total_seconds()),
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
