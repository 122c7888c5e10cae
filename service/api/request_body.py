"""Strict parsing of JSON request bodies, in worker threads so that large bodies do not delay other requests."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from client.models import strict_json
from service import errors
from service.context import Platform
from service.errors import ApiError
from service.http_server.client_address import address_of, network_of
from service.principal import Principal

LARGE_BODY_BYTES = 64 * 1024
"""Longer bodies are parsed one at a time."""
MAX_VALUES = 10_000
"""Values in one body, at any depth: enough for 200 AuthZEN evaluations of 50 values each."""
MAX_VALUES_ON_EVENT_LOOP = 200
"""Bodies with more values are validated in a worker thread first."""

T = TypeVar("T")


class BodyField(Protocol):
    """The used part of FastAPI's body field."""

    def validate(self, value: Any, *, loc: tuple[int | str, ...]) -> tuple[Any, list[Any]]: ...


async def read_body(request: Request, field: BodyField | None = None) -> None:
    """Parse a JSON body strictly, validate it, and store it where FastAPI reads it.

    Raises:
        ApiError: 415 for another content type, 400 INVALID_INPUT for a body that is not one plain JSON value or has
            too many values, 429 if too many large bodies of the sender wait.
        RequestValidationError: the first error of a body that does not fit its model.
    """
    require_json(request)

    def parse(body: bytes) -> Any:
        value = strict_json.loads(body)
        require_few_values(value, body)
        # FastAPI would validate it on the event loop and report every error, which is slow for many.
        if field and _max_values(body) > MAX_VALUES_ON_EVENT_LOOP:
            _, validation_errors = field.validate(value, loc=("body",))
            if validation_errors:
                raise RequestValidationError(validation_errors[:1])
        return value

    try:
        request._json = await parse_body(request, parse)
    except ValueError as error:
        if isinstance(error, RequestValidationError):
            raise
        raise errors.invalid_input(f"invalid request body: {error}", reason="invalid_json") from None


async def parse_body(request: Request, parse: Callable[[bytes], T]) -> T:
    """Parse a body in a worker thread. Large bodies are parsed one at a time, fairly between senders.

    Raises:
        ApiError: 429 if too many large bodies of the sender wait.
    """
    body = await request.body()
    if len(body) <= LARGE_BODY_BYTES:
        return await run_in_threadpool(parse, body)
    platform: Platform = request.app.state.platform
    principal: Principal | None = request.scope.get("frost.caller")
    address = address_of(request.scope, platform.settings.proxies)
    sender = (principal and principal.credential_id) or (network_of(address) if address else "local")
    async with platform.large_bodies.slot(sender):
        return await run_in_threadpool(parse, body)


def require_json(request: Request) -> None:
    """Check the content type.

    Raises:
        ApiError: 415.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise ApiError(415, "UNSUPPORTED_MEDIA_TYPE", "the request body must be application/json")


def require_few_values(value: Any, body: bytes | str) -> None:
    """Check that a parsed body has at most `MAX_VALUES` values.

    Raises:
        ApiError: 400 INVALID_INPUT.
    """
    if _max_values(body) < MAX_VALUES:
        return
    count, level = 1, [value]
    while level:
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        count += len(level)
        if count > MAX_VALUES:
            raise errors.invalid_input(
                f"invalid request body: more than {MAX_VALUES} values; send them in several requests",
                reason="too_many_values",
                max=MAX_VALUES,
            )


def _max_values(body: bytes | str) -> int:
    """Return an upper limit of the values in a body, without the first: each follows one of these characters."""
    data = body.encode(errors="surrogatepass") if isinstance(body, str) else body
    return sum(data.count(character) for character in (b",", b"[", b"{"))
