"""The outermost layer of every request: its id, path, body, admission, log line, and the last exception handler.

Every answer that leaves here has `X-Request-Id`, `X-Frost-Version` and a documented envelope. A body is read here,
before the request takes one of the places for running requests and before its credential is checked: a slow sender
holds neither, and cannot use a credential that was revoked while the body was on its way.

HEAD: what GET answers, without its body. RFC 9110 section 9.3.2

Here once for every route, so that a route, its rule and its audit line know GET only. The server below keeps the head
as it is, also the length of the body that would have come.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Hashable
from typing import Any
from urllib.parse import unquote_to_bytes
from uuid import uuid4

from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import errors
from service.authn import api_keys
from service.authz.route_policies import ROUTE_POLICIES
from service.db.errors import is_read_only_or_full, is_transient
from service.errors import ApiError
from service.http_server.admission import Admission, IncomingBody, thread_budget_of
from service.http_server.client_address import peer_uid
from service.http_server.protocol import HEALTH_PATHS, READINESS_PATH
from service.request_metrics import route_of
from service.settings import VERSION

logger = logging.getLogger("service.requests")

MAX_BODY = 1024 * 1024
MAX_LOGGED_PATH = 512
_REQUEST_ID = re.compile(rb"[A-Za-z0-9-]{8,64}")
_UNCLEAN_BYTES = re.compile(rb"[\x00-\x1f\x7f/\\]")


class IdleTracker:
    """How busy the server is, for the idle stop: requests under way, and when the last one ended."""

    def __init__(self) -> None:
        self.open = 0
        self.last = time.monotonic()

    def idle_seconds(self) -> float:
        """Seconds since anybody wanted anything."""
        return 0.0 if self.open else time.monotonic() - self.last


def nothing() -> None:
    """Give back no place: none was taken yet."""


class RequestMiddleware:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, idle_tracker: IdleTracker, admission: Admission) -> None:
        self.app = app
        self.idle_tracker = idle_tracker
        self.admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.monotonic()
        request_id = scope["frost.request_id"] = request_id_of(scope)
        returned = returned_id(scope) or request_id
        status = 0
        leave: Callable[[], None] = nothing

        async def labelled(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                headers["X-Request-Id"] = returned
                headers["X-Frost-Version"] = VERSION
                headers.setdefault("Cache-Control", "no-store")
                headers.setdefault("X-Content-Type-Options", "nosniff")
                # From here on it needs no thread: an event stream does not count as a running request.
                leave()
                if (caller := scope.get("frost.caller")) is not None and caller.credential_id:
                    self.admission.record_accepted_credential(scope)
            await send(message)

        self.idle_tracker.open += 1
        try:
            if not clean(scope["raw_path"]):
                raise errors.not_routed(scope["path"])
            require_plain_body(scope)
            receive = await received(receive, scope)
            if scope["path"] not in HEALTH_PATHS:
                leave = self.enter(scope)
            with thread_budget_of(self.client_of(scope), changes=may_change(scope)):
                await self.app(scope, limited(receive, scope), labelled)
        except ApiError as refused:
            # Only what is refused here: the application answers its own refusals.
            await self.refuse(refused, scope, receive, labelled)
        except ClientDisconnect:
            pass  # It left in the middle of its own body: nobody is there to answer, and nothing of ours has failed.
        except Exception as error:
            away = is_transient(error)
            if away:
                # Its own words name the server, and come with every request until it is back.
                logger.warning(
                    "the database did not answer: %s", type(error).__name__, extra={"request_id": request_id}
                )
            else:
                logger.exception("request failed", extra={"request_id": request_id})
            if status:
                raise  # The answer has begun: closing the connection is all that is left.
            full = isinstance(error, DBAPIError) and is_read_only_or_full(error)
            refusal = errors.read_only(request_id) if full else errors.internal_error(request_id)
            if full:
                scope["app"].state.platform.request_metrics.record_read_only()
            if away:
                refusal = errors.unavailable()
            answer = refusal.plain() if is_authzen_path(scope) else refusal.response()
            await answer(scope, receive, labelled)
        finally:
            leave()
            self.idle_tracker.open -= 1
            self.idle_tracker.last = time.monotonic()
            seconds = time.monotonic() - began
            scope["app"].state.platform.request_metrics.record(scope["method"], route_of(scope), status, seconds)
            log_request(scope, status, seconds)

    def enter(self, scope: Scope) -> Callable[[], None]:
        """Take a place among the running requests; the result gives it back.

        Raises:
            Refusal: 503, too many are under way.
        """
        try:
            return self.admission.requests.enter(self.admission.address_of(scope))
        except ApiError:
            self.admission.record_rejection("requests")
            scope["frost.shed"] = True
            raise

    def client_of(self, scope: Scope) -> Hashable:
        """Return who shares the threads fairly with others: an address, or a process at the unix socket."""
        return self.admission.address_of(scope) or tuple(scope.get("client") or ())

    async def refuse(self, refusal: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
        incoming: IncomingBody | None = scope.get("frost.body")
        if incoming is not None and refusal is incoming.rejection:
            self.admission.record_rejection("late_bodies" if refusal.status_code == 408 else "bodies")
        if is_authzen_path(scope):
            # The Authorization API knows no 415: another coding is a bad request.
            answer: Response = refusal.plain(400 if refusal.status_code == 415 else None)
        else:
            answer = refusal.response()
        await answer(scope, receive, send)


def request_id_of(scope: Scope) -> str:
    """The caller's own request id when it is a plain one, else a new one."""
    given = [value for name, value in scope["headers"] if name == b"x-request-id"]
    if len(given) == 1 and _REQUEST_ID.fullmatch(given[0]):
        return str(given[0], "ascii")
    return str(uuid4())


def is_authzen_path(scope: Scope) -> bool:
    """Whether a request is for the decision point, which speaks as AuthZEN has it."""
    return str(scope["path"]).startswith("/access/")


def may_change(scope: Scope) -> bool:
    """Return whether a request may change something; the decision point answers questions only."""
    return scope["method"] not in ("GET", "HEAD", "OPTIONS") and not is_authzen_path(scope)


def returned_id(scope: Scope) -> str | None:
    """What comes back to a caller of the decision point: its own id whatever it looks like, as AuthZEN has it."""
    given = [value for name, value in scope["headers"] if name == b"x-request-id" and value]
    return given[0].decode("latin-1") if len(given) == 1 and is_authzen_path(scope) else None


def clean(raw_path: bytes) -> bool:
    """Whether a path means itself: no empty, `.` or `..` segment, nothing escaped that separates or controls.

    Any other path is unrouted, so that no two spellings name one resource (contract: paths).
    """
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
    """Return whether the head of a request announces a body."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0") != b"")
        for name, value in scope["headers"]
    )


def require_plain_body(scope: Scope) -> None:
    """Refuse a body with a content coding, which nothing here decodes.

    Raises:
        Refusal: 415.
    """
    codings = [value.strip().lower() for name, value in scope["headers"] if name == b"content-encoding"]
    if has_body(scope) and any(coding not in (b"", b"identity") for coding in codings):
        raise errors.body_encoded()


async def received(receive: Receive, scope: Scope) -> Receive:
    """Read the body of a request that changes something, up to the limit of its size; return what replays it.

    Raises:
        Refusal: 408 or 503, the body came too slowly or there is no memory for it.
        ClientDisconnect: the connection was lost.
    """
    if scope["method"] in ("GET", "HEAD") or not has_body(scope) or is_announced_too_large(scope):
        return receive
    incoming: IncomingBody | None = scope.get("frost.body")
    body, more = bytearray(), True
    while more and len(body) <= MAX_BODY:
        message = await receive()
        if incoming is not None and incoming.rejection is not None:
            scope["frost.shed"] = True
            raise incoming.rejection
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        more = message.get("more_body", False)
    whole: Message | None = {"type": "http.request", "body": bytes(body), "more_body": more}

    async def replay() -> Message:
        nonlocal whole
        if whole is None:
            return await receive()
        message, whole = whole, None
        return message

    return replay


def is_announced_too_large(scope: Scope) -> bool:
    announced = [value for name, value in scope["headers"] if name == b"content-length"]
    return any(int(value) > MAX_BODY for value in announced if value.isdigit())


def limited(receive: Receive, scope: Scope) -> Receive:
    """Refuse a body beyond the limit of its size, by its announced length or as it arrives."""
    seen = 0
    too_large = is_announced_too_large(scope)

    async def bounded() -> Message:
        nonlocal seen
        if too_large:
            raise errors.body_too_large(MAX_BODY)
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MAX_BODY:
            raise errors.body_too_large(MAX_BODY)
        return message

    return bounded


def log_request(scope: Scope, status: int, seconds: float) -> None:
    """Write one line for a request. Its path is there once and cut; its query is left out, which may hold secrets."""
    caller, access = scope.get("frost.caller"), scope.get("frost.access")
    logger.log(
        log_level(scope, status),
        "%s %s %s",
        scope["method"],
        route_of(scope),
        status,
        extra={
            "request_id": scope["frost.request_id"],
            "method": scope["method"],
            "path": api_keys.mask_secrets(scope["path"])[:MAX_LOGGED_PATH],
            "route": route_of(scope),
            "status": status,
            "milliseconds": round(seconds * 1000, 1),
            "actor_kind": caller.kind if caller else None,
            "actor": caller.actor_id if caller else None,
            "credential": caller.credential_id if caller else None,
            "tenant": (access and access.tenant_id) or (caller and caller.tenant_id),
        },
    )


def log_level(scope: Scope, status: int) -> int:
    """Return the level of a request's line: an error if the platform failed, not if it is stopping or overloaded."""
    if status < 500:
        return logging.INFO
    stopping = status == 503 and route_of(scope) == READINESS_PATH and scope["app"].state.platform.draining.is_set()
    return logging.INFO if stopping or scope.get("frost.shed") else logging.ERROR


async def answer_refusal(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return error.response()


async def answer_http_exception(request: Request, error: Exception) -> JSONResponse:
    """What the framework refuses by itself: unrouted paths, wrong methods, bodies it cannot read."""
    assert isinstance(error, HTTPException)
    methods = allowed_methods(request) if error.status_code == 405 else []
    if error.status_code == 404 or (error.status_code == 405 and not methods):
        return errors.not_routed(request.scope["path"]).response()
    if methods:
        return errors.method_not_allowed(request.method, methods).response()
    if error.status_code < 500:
        return ApiError(error.status_code, "INVALID_REQUEST", "the request could not be read").response()
    raise error


def allowed_methods(request: Request) -> list[str]:
    """Every method some route has for this path, as far as they exist here; the framework names the first's only."""
    over_socket = peer_uid(request.scope) is not None
    methods = {
        method
        for route in request.app.routes
        if route.path_regex.match(request.scope["path"])
        for method in route.methods
        if over_socket or not ROUTE_POLICIES[method, route.path_format].local
    }
    # service/api/middleware.py answers it wherever there is a GET.
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)


async def answer_validation_error(request: Request, error: Exception) -> JSONResponse:
    """400 INVALID_INPUT naming the first member at fault."""
    assert isinstance(error, RequestValidationError)
    return errors.validation_error(error).response()


HANDLERS: dict[Any, Any] = {
    ApiError: answer_refusal,
    HTTPException: answer_http_exception,
    RequestValidationError: answer_validation_error,
}


class HeadMiddleware:
    """ASGI middleware that asks the application for GET and ends the answer after its head."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        told = asyncio.Event()

        async def head_only(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                told.set()

        async def until_told() -> Message:
            # A stream goes on until its reader leaves: the one who asked for its head only has all there is.
            await told.wait()
            return {"type": "http.disconnect"}

        # A copy, because the server goes by its own: it writes no body for HEAD.
        asked = {**scope, "method": "GET"}
        try:
            await self.app(asked, until_told, head_only)
        finally:
            # For the log line.
            scope.update({name: asked[name] for name in ("frost.caller", "frost.access", "route") if name in asked})
