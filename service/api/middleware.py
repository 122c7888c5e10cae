"""The outermost middleware: request ids, limits, access log and handling of unexpected exceptions.

It applies these limits:

- path: canonical form (404)
- requests without an accepted credential, by network (429)
- body: 1 MiB (413), no content coding (415), time (408) and memory (503)
- running and waiting requests: in total and per address (503)
- running and waiting requests by class of work and credential (503): `work_queues`

The body is read before the request takes a slot and before authentication. So a slow client occupies no slot, and
cannot use a credential that was revoked while its body arrived.
"""

import asyncio
import logging
import os
import re
import time
from collections.abc import Callable, Hashable
from urllib.parse import unquote_to_bytes

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import errors, logs
from service.audit.seals import ChainBroken
from service.authn import secret_format
from service.authz.context import AuthorizationContext
from service.db.dialect import is_read_only_or_full, is_transient
from service.db.storage import is_storage_failure
from service.errors import ApiError
from service.http_server.admission import HEALTH_PATHS, READINESS_PATH, Admission
from service.http_server.bodies import IncomingBody
from service.http_server.client import CONTENT, client_of
from service.http_server.request_metrics import route_of
from service.http_server.turns import Kind, Lane, Turn
from service.principal import Principal
from service.settings import VERSION

logger = logging.getLogger("service.requests")

MAX_BODY_BYTES = 1024 * 1024
MAX_LOGGED_PATH_LENGTH = 512
DEFAULT_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_REQUEST_ID = re.compile(rb"[A-Za-z0-9-]{8,64}")
_PLAIN_PATH = re.compile(rb"(/[\w~:-][\w.~:-]*)+")
"""Most canonical paths: without escapes and without a segment that begins with a dot."""
_UNCLEAN_BYTES = re.compile(rb"[\x00-\x1f\x7f/\\]")


class IdleTracker:
    """Measures how long the server has been idle."""

    def __init__(self) -> None:
        self._running = 0
        self._last_end = time.monotonic()

    def begin(self) -> None:
        self._running += 1

    def end(self) -> None:
        self._running -= 1
        self._last_end = time.monotonic()

    def idle_seconds(self) -> float:
        """Return the seconds since the last request ended; 0 during a request."""
        return 0.0 if self._running else time.monotonic() - self._last_end


def _release_nothing() -> None:
    """Release no slot, before one is acquired."""


class RequestMiddleware:
    def __init__(self, app: ASGIApp, idle_tracker: IdleTracker, admission: Admission) -> None:
        self.app = app
        self.idle_tracker = idle_tracker
        self.admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.monotonic()
        scope["frost.request_id"] = request_id_of(scope)
        response_id = echoed_request_id(scope) or scope["frost.request_id"]
        status = 0
        release_slot: Callable[[], None] = _release_nothing
        turn: Turn | None = scope.get("frost.turn")

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                add_headers(message.setdefault("headers", []), response_id)
                # An open event stream occupies no slot.
                release_slot()
                if turn is not None:
                    turn.end()
                self.record_caller(scope, status)
            await send(message)

        self.idle_tracker.begin()
        try:
            if (refusal := scope.get("frost.refusal")) is not None:
                raise refusal
            if not is_canonical_path(scope["raw_path"]):
                raise errors.not_routed(scope["path"])
            if has_body(scope):
                require_plain_body(scope)
                receive = limit_body(await buffer_body(receive, scope), scope)
            if scope["path"] not in HEALTH_PATHS:
                release_slot = self.acquire_slot(scope)
            with client_of(self.client_key(scope), scope):
                await self.app(scope, receive, send_with_headers)
        except ApiError as error:
            # The application handles its own errors.
            await self.refuse(error, scope, receive, send_with_headers)
        except ClientDisconnect:
            pass  # The client disconnected before the end of the body.
        except Exception as error:
            log_exception(scope, error)
            if status:
                raise  # The response has started: close the connection.
            api_error = unexpected_error(scope, error)
            response = api_error.plain() if is_authzen_path(scope) else api_error.response()
            await response(scope, receive, send_with_headers)
        finally:
            release_slot()
            if turn is not None:
                turn.end()
            self.idle_tracker.end()
            seconds = time.monotonic() - began
            scope["app"].state.platform.request_metrics.record(scope["method"], route_of(scope), status, seconds)
            if scope.get("frost.refusal") is None:
                log_request(scope, status, seconds)

    def record_caller(self, scope: Scope, status: int) -> None:
        """Record whether the credential of an answered request was accepted."""
        principal: Principal | None = scope.get("frost.caller")
        if status == 401:
            self.admission.record_refused(scope)
        elif principal is not None and principal.credential_id:
            self.admission.record_accepted(scope, principal)
        if principal is None and "frost.lane" in scope:
            self.admission.record_unauthenticated(scope)
        if status == 429:
            scope["frost.shed"] = True
            self.admission.rejections.count_for_flood()

    def acquire_slot(self, scope: Scope) -> Callable[[], None]:
        """Acquire a request slot, or raise 503; return the function that releases it."""
        try:
            lane: Lane | None = scope.get("frost.lane")
            return self.admission.requests.enter(
                self.admission.address_of(scope), Kind.ACCEPTED if lane is None else lane.kind
            )
        except ApiError:
            self.admission.rejections.record("requests")
            scope["frost.shed"] = True
            raise

    def client_key(self, scope: Scope) -> Hashable:
        """Return the address, or the peer process over the unix socket."""
        return self.admission.address_of(scope) or tuple(scope.get("client") or ())

    async def refuse(self, error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
        if error is scope.get("frost.refusal"):
            self.admission.rejections.record("unauthenticated")
        incoming: IncomingBody | None = scope.get("frost.body")
        if incoming is not None and error is incoming.rejection:
            self.admission.rejections.record("late_bodies" if error.status_code == 408 else "bodies")
        if is_authzen_path(scope):
            # AuthZEN does not define 415.
            response: Response = error.plain(400 if error.status_code == 415 else None)
        else:
            response = error.response()
        await response(scope, receive, send)


def add_headers(headers: list[tuple[bytes, bytes]], request_id: str) -> None:
    """Add the headers of every response; those in `DEFAULT_HEADERS` unless the response has them."""
    names = {name for name, _ in headers}
    headers += [(b"x-request-id", request_id.encode("latin-1")), (b"x-frost-version", VERSION.encode("ascii"))]
    headers += [header for header in DEFAULT_HEADERS if header[0] not in names]


def request_id_of(scope: Scope) -> str:
    """Return the `X-Request-Id` of the client if it is valid, otherwise a new id."""
    ids = [value for name, value in scope["headers"] if name == b"x-request-id"]
    if len(ids) == 1 and _REQUEST_ID.fullmatch(ids[0]):
        return str(ids[0], "ascii")
    return new_request_id()


def new_request_id() -> str:
    """Return a random UUID of version 4, in a fifth of the time of `uuid4`."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def is_authzen_path(scope: Scope) -> bool:
    """Return whether a path belongs to the AuthZEN API, which has errors in plain text."""
    return str(scope["path"]).startswith("/access/")


def echoed_request_id(scope: Scope) -> str | None:
    """Return the request id of an AuthZEN client, which may have any form; None for other requests."""
    if not is_authzen_path(scope):
        return None
    ids = [value for name, value in scope["headers"] if name == b"x-request-id" and value]
    return ids[0].decode("latin-1") if len(ids) == 1 else None


def is_canonical_path(raw_path: bytes) -> bool:
    """Return whether a path has no empty, `.` or `..` segment and no escaped separator or control character.

    So each resource has a single path.
    """
    if _PLAIN_PATH.fullmatch(raw_path):
        return True
    for segment in raw_path.split(b"/")[1:]:
        text = unquote_to_bytes(segment)
        if text in (b"", b".", b"..") or _UNCLEAN_BYTES.search(text):
            return raw_path == b"/"
        try:
            text.decode()
        except UnicodeDecodeError:
            return False
    return True


def has_body(scope: Scope) -> bool:
    """Return whether a request has a body: without these fields, it has none (RFC 9112, 6.3)."""
    for name, value in scope["headers"]:
        if name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0") != b""):
            return True
    return False


def require_plain_body(scope: Scope) -> None:
    """Raise 415 for a body with a content coding."""
    codings = [value.strip().lower() for name, value in scope["headers"] if name == b"content-encoding"]
    if any(coding not in (b"", b"identity") for coding in codings):
        raise errors.body_encoded()


async def buffer_body(receive: Receive, scope: Scope) -> Receive:
    """Read the body up to the size limit; return a `receive` that replays it.

    Raises:
        ApiError: 408 if the body arrives too slowly, 503 without memory for it.
        ClientDisconnect: the connection was lost.
    """
    if scope["method"] in ("GET", "HEAD") or is_announced_too_large(scope):
        return receive
    incoming: IncomingBody | None = scope.get("frost.body")
    body, more = bytearray(), True
    while more and len(body) <= MAX_BODY_BYTES:
        message = await receive()
        if incoming is not None and incoming.rejection is not None:
            scope["frost.shed"] = True
            raise incoming.rejection
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        more = message.get("more_body", False)
    content = bytes(body)
    if not more:
        scope[CONTENT] = content
    buffered: Message | None = {"type": "http.request", "body": content, "more_body": more}

    async def replay() -> Message:
        nonlocal buffered
        if buffered is None:
            return await receive()
        message, buffered = buffered, None
        return message

    return replay


def is_announced_too_large(scope: Scope) -> bool:
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return any(int(value) > MAX_BODY_BYTES for value in lengths if value.isdigit())


def limit_body(receive: Receive, scope: Scope) -> Receive:
    """Return a `receive` that raises 413 for a body over the size limit."""
    size = 0
    too_large = is_announced_too_large(scope)

    async def receive_limited() -> Message:
        nonlocal size
        if too_large:
            raise errors.body_too_large(MAX_BODY_BYTES)
        message = await receive()
        size += len(message.get("body", b""))
        if size > MAX_BODY_BYTES:
            raise errors.body_too_large(MAX_BODY_BYTES)
        return message

    return receive_limited


def log_exception(scope: Scope, error: Exception) -> None:
    extra = {"request_id": scope["frost.request_id"]}
    if is_transient(error):
        # Without traceback, because every request fails; without message, because it names the server.
        logger.warning("the database did not respond: %s", type(error).__name__, extra=extra)
    elif isinstance(error, ChainBroken):
        logger.error("a change was refused: %s", error, extra=extra)
    else:
        logger.exception("request failed", extra=extra)


def unexpected_error(scope: Scope, error: Exception) -> ApiError:
    read_only = is_read_only_or_full(error)
    if read_only:
        scope["app"].state.platform.request_metrics.record_read_only()
    if is_transient(error):
        return errors.unavailable()
    request_id = scope["frost.request_id"]
    if isinstance(error, ChainBroken):
        return errors.audit_log_broken(request_id)
    if is_storage_failure(error):
        return errors.storage_failed(request_id)
    return errors.read_only(request_id) if read_only else errors.internal_error(request_id)


def log_request(scope: Scope, status: int, seconds: float) -> None:
    """Log a request without its query, which may contain secrets."""
    level = log_level(scope, status)
    if not logger.isEnabledFor(level):
        return
    principal, context, route = scope.get("frost.caller"), scope.get("frost.access"), route_of(scope)
    fields = {
        "request_id": scope["frost.request_id"],
        "method": scope["method"],
        "path": secret_format.mask_secrets(scope["path"])[:MAX_LOGGED_PATH_LENGTH],
        "route": route,
        "status": status,
        "milliseconds": round(seconds * 1000, 1),
    }
    if principal:
        fields |= {"actor_kind": principal.kind, "actor": principal.actor_id, "credential": principal.credential_id}
        fields["tenant"] = (context and context.tenant_id) or principal.tenant_id
    logs.write(logger, level, f"{scope['method']} {route} {status}", fields)


def log_level(scope: Scope, status: int) -> int:
    """Return ERROR for 5xx, except for overload, for `/readyz` while the platform drains, and for open routes.

    Anyone on the network can repeat a 503 of a route without a credential, such as the configuration of the sign-in.
    Its cause is a setting, or has a line of its own.
    """
    if status < 500 or scope.get("frost.shed"):
        return logging.INFO
    if status == 503 and route_of(scope) == READINESS_PATH:
        return logging.INFO if scope["app"].state.platform.draining.is_set() else logging.ERROR
    context: AuthorizationContext | None = scope.get("frost.access")
    is_open = context is not None and context.principal.kind == "anonymous"
    return logging.INFO if status == 503 and is_open else logging.ERROR


class HeadMiddleware:
    """Handles HEAD as GET without a body (RFC 9110, 9.3.2), so that routes and policies need only GET."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        response_started = asyncio.Event()

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                response_started.set()

        async def receive_disconnect() -> Message:
            # Ends an event stream.
            await response_started.wait()
            return {"type": "http.disconnect"}

        # A copy, because the server omits the body by the method in its scope.
        get_scope = {**scope, "method": "GET"}
        try:
            await self.app(get_scope, receive_disconnect, send_head)
        finally:
            # For the access log.
            scope.update(
                {name: get_scope[name] for name in ("frost.caller", "frost.access", "route") if name in get_scope}
            )
