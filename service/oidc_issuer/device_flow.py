"""The device flow (RFC 8628): codes, the approval by the person at the socket, and the poll that waits for it."""

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
from service.audit.events import AuditEvent
from service.oidc_issuer import queries, tokens
from service.oidc_issuer.queries import Person
from service.oidc_issuer.server import CLIENT, IssuerRequest

CODE_LIFETIME = timedelta(minutes=10)
# Seconds between polls. Short, because the platform is on the same machine; each poll that comes early adds five.
INTERVAL = 2
SLOWER_BY = 5
# A client that waits exactly the interval may arrive a little early by our clock.
EARLY = timedelta(milliseconds=250)
Answer = tuple[int, dict[str, Any], list[tuple[str, str]]]


class DeviceAuthorization(DeviceAuthorizationEndpoint):
    """Hands out a device code and the user code that goes with it.

    The answer is put together here, not by Authlib's endpoint: that one shows its own address as the verification
    page and gives `save_device_credential` neither the request nor its transaction.
    """

    CLIENT_AUTH_METHODS = ("none",)

    def create_endpoint_response(self, request: IssuerRequest) -> Answer:
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
            interval=INTERVAL,
        )
        page = f"{request.issuer.issuer}/device"
        answer = {
            "device_code": device_code,
            "user_code": user_code,
            "verification_uri": page,
            "verification_uri_complete": f"{page}?user_code={user_code}",
            "expires_in": int(CODE_LIFETIME.total_seconds()),
            "interval": INTERVAL,
        }
        return 200, answer, []


class Credential(DeviceCredentialMixin):
    """A row of `device_codes` as Authlib asks it."""

    def __init__(self, row: Row[Any]) -> None:
        self.row = row

    def get_client_id(self) -> str:
        return str(self.row.client_id)

    def get_scope(self) -> str:
        return str(self.row.scope)


class DeviceGrant(DeviceCodeGrant):
    """The poll: pending, too fast, expired, denied, or the tokens, once."""

    TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
    request: IssuerRequest

    def query_device_credential(self, device_code: str) -> Credential:
        digest = queries.digest(self.request.issuer.secret, "device", device_code)
        row = queries.device_code(self.request.connection, digest)
        if row is None:
            raise InvalidGrantError("The device code is unknown.")
        return Credential(row)

    def validate_device_credential(self, credential: Credential) -> Person:
        row, connection = credential.row, self.request.connection
        if self.request.at >= row.expires_at:
            raise ExpiredTokenError("The device code has expired; start again.")
        if row.status == "pending":
            raise self._waiting(row)
        person = queries.person(connection, row.user_id)
        if row.status == "denied" or person is None:
            raise AccessDeniedError(tokens.UNKNOWN)
        if not queries.take_device_code(connection, row.device_code_hash):
            raise InvalidGrantError("The device code was used before.")
        return person

    def _waiting(self, row: Row[Any]) -> AuthorizationPendingError | SlowDownError:
        early = row.last_polled_at and self.request.at - row.last_polled_at < timedelta(seconds=row.interval) - EARLY
        interval = row.interval + SLOWER_BY if early else row.interval
        queries.note_poll(self.request.connection, row.device_code_hash, at=self.request.at, interval=interval)
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
    """Approve a user code for the person at the socket, or for `email` of this world.

    A person who does not exist denies the code for good, so that the poll ends too.

    Raises:
        OAuth2Error: the code is missing, unknown, expired or answered before; the person is unknown.
    """
    if not request.form.get("user_code"):
        raise InvalidRequestError("Missing 'user_code' in request.")
    user_code = queries.normal_user_code(request.form["user_code"])
    connection = request.connection
    row = queries.device_code_of(connection, queries.user_code_digest(request.issuer.secret, user_code))
    if row is None:
        raise InvalidGrantError("The user code is unknown.")
    if request.at >= row.expires_at:
        raise ExpiredTokenError("The user code has expired; start again.")
    person = tokens.asked_for(connection, request.form.get("email"))
    if not queries.answer_device_code(connection, row.device_code_hash, user_id=person.id if person else None):
        raise InvalidGrantError("The user code was answered before.")
    if person is None:
        tokens.note_refused(request, request.form.get("email"))
        raise AccessDeniedError(tokens.UNKNOWN)
    entries.record(
        connection,
        request.caller,
        event=AuditEvent.DEVICE_APPROVE,
        target=f"user:{person.id}",
        details={"device": row.device},
        at=request.at,
    )
    return {"status": "approved", "email": person.email, "device": row.device}


def note_refused(request: IssuerRequest, error: OAuth2Error) -> None:
    """Write down an approval that was refused: what was wrong with the code, never the code. checklist N12

    The approval of a code for nobody is down already, as the sign-in that was refused.
    """
    if not isinstance(error, AccessDeniedError):
        entries.record(
            request.connection,
            request.caller,
            event=AuditEvent.DEVICE_APPROVE,
            target="user_code",
            outcome="refused",
            details={"code": error.error, "reason": error.description},
            at=request.at,
        )
