"""The outermost layer of every request: its id, its path, the size of its body, its log line, and the last net.

Whatever happens inside, the answer that leaves here has `X-Request-Id`, `X-Frost-Version` and a documented envelope.
"""

import logging
import re
import time
from typing import Any
from urllib.parse import unquote_to_bytes
from uuid import uuid4

from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import errors
from service.access import keys
from service.access.table import RULES
from service.db.engine import passes, takes_no_changes
from service.errors import Refusal
from service.peer import peer_uid
from service.traffic import route_of
from service.version import VERSION

logger = logging.getLogger("service.requests")

MAX_BODY = 1024 * 1024
READY = "/readyz"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9-]{8,64}")
_UNCLEAN_BYTES = re.compile(rb"[\x00-\x1f\x7f/\\]")


class Activity:
    """How busy the server is, for the idle stop: requests under way, and when the last one ended."""

    def __init__(self) -> None:
        self.open = 0
        self.last = time.monotonic()

    def quiet_for(self) -> float:
        """Seconds since anybody wanted anything."""
        return 0.0 if self.open else time.monotonic() - self.last


class Edge:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, activity: Activity) -> None:
        self.app = app
        self.activity = activity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.monotonic()
        request_id = scope["frost.request_id"] = request_id_of(scope)
        returned = returned_id(scope) or request_id
        status = 0

        async def labelled(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                headers["X-Request-Id"] = returned
                headers["X-Frost-Version"] = VERSION
                headers.setdefault("Cache-Control", "no-store")
                headers.setdefault("X-Content-Type-Options", "nosniff")
            await send(message)

        self.activity.open += 1
        try:
            if clean(scope["raw_path"]):
                await self.app(scope, limited(receive, scope), labelled)
            else:
                await errors.not_routed(scope["path"]).response()(scope, receive, labelled)
        except ClientDisconnect:
            pass  # It left in the middle of its own body: nobody is there to answer, and nothing of ours has failed.
        except Exception as error:
            away = passes(error)
            if away:
                # Its own words name the server, and come with every request until it is back.
                logger.warning(
                    "the database did not answer: %s", type(error).__name__, extra={"request_id": request_id}
                )
            else:
                logger.exception("request failed", extra={"request_id": request_id})
            if status:
                raise  # The answer has begun: closing the connection is all that is left.
            full = isinstance(error, DBAPIError) and takes_no_changes(error)
            refusal = errors.no_changes(request_id) if full else errors.internal_error(request_id)
            if full:
                scope["app"].state.platform.traffic.note_no_changes()
            if away:
                refusal = errors.unavailable()
            answer = refusal.plain() if decides(scope) else refusal.response()
            await answer(scope, receive, labelled)
        finally:
            self.activity.open -= 1
            self.activity.last = time.monotonic()
            seconds = time.monotonic() - began
            scope["app"].state.platform.traffic.note(scope["method"], route_of(scope), status, seconds)
            log_request(scope, status, seconds)


def request_id_of(scope: Scope) -> str:
    """The caller's own request id when it is a plain one, else a new one."""
    given = [value for name, value in scope["headers"] if name == b"x-request-id"]
    if len(given) == 1 and _REQUEST_ID.fullmatch(given[0]):
        return str(given[0], "ascii")
    return str(uuid4())


def decides(scope: Scope) -> bool:
    """Whether a request is for the decision point, which speaks as AuthZEN has it."""
    return str(scope["path"]).startswith("/access/")


def returned_id(scope: Scope) -> str | None:
    """What comes back to a caller of the decision point: its own id whatever it looks like, as AuthZEN has it."""
    given = [value for name, value in scope["headers"] if name == b"x-request-id" and value]
    return given[0].decode("latin-1") if len(given) == 1 and decides(scope) else None


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


def limited(receive: Receive, scope: Scope) -> Receive:
    """Refuses a body past the limit, by its announced length or as it arrives."""
    seen = 0
    announced = [value for name, value in scope["headers"] if name == b"content-length"]
    too_large = any(int(value) > MAX_BODY for value in announced if value.isdigit())

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
    """One line a request. The query is left out: it can hold what nobody should read."""
    caller, access = scope.get("frost.caller"), scope.get("frost.access")
    path = keys.masked(scope["path"])
    # Told to stop, it is not ready by intention.
    planned = status == 503 and route_of(scope) == READY and scope["app"].state.platform.draining.is_set()
    logger.log(
        logging.ERROR if status >= 500 and not planned else logging.INFO,
        "%s %s %s",
        scope["method"],
        path,
        status,
        extra={
            "request_id": scope["frost.request_id"],
            "method": scope["method"],
            "path": path,
            "route": route_of(scope),
            "status": status,
            "milliseconds": round(seconds * 1000, 1),
            "actor_kind": caller.kind if caller else None,
            "actor": caller.actor_id if caller else None,
            "credential": caller.credential_id if caller else None,
            "tenant": (access and access.tenant_id) or (caller and caller.tenant_id),
        },
    )


async def answer_refusal(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)
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
        return Refusal(error.status_code, "INVALID_REQUEST", "the request could not be read").response()
    raise error


def allowed_methods(request: Request) -> list[str]:
    """Every method some route has for this path, as far as they exist here; the framework names the first's only."""
    over_socket = peer_uid(request.scope) is not None
    methods = {
        method
        for route in request.app.routes
        if route.path_regex.match(request.scope["path"])
        for method in route.methods
        if over_socket or not RULES[method, route.path_format].local
    }
    # service/head.py answers it wherever there is a GET.
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)


async def answer_validation_error(request: Request, error: Exception) -> JSONResponse:
    """400 INVALID_INPUT naming the first member at fault."""
    assert isinstance(error, RequestValidationError)
    return errors.validation_refusal(error).response()


HANDLERS: dict[Any, Any] = {
    Refusal: answer_refusal,
    HTTPException: answer_http_exception,
    RequestValidationError: answer_validation_error,
}
