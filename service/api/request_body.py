"""Strict parsing of JSON request bodies: of small ones on the event loop, of others in worker threads."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from service import errors, json_bodies
from service.context import Platform
from service.errors import ApiError
from service.http_server.client import address_of, network_of
from service.principal import Principal

LARGE_BODY_BYTES = 64 * 1024
"""Larger bodies are parsed sequentially."""
MAX_VALUES = 10_000
"""At any depth; enough for 200 AuthZEN evaluations with 50 values each."""
MAX_VALUES_ON_EVENT_LOOP = 200
SMALL_BODY_BYTES = 8 * 1024

T = TypeVar("T")


class BodyField(Protocol):
    """The part of FastAPI's body field that is used."""

    def validate(self, value: Any, *, loc: tuple[int | str, ...]) -> tuple[Any, list[Any]]: ...


async def read_body(request: Request, field: BodyField | None = None) -> Any:
    """Parse a JSON body strictly and store it for FastAPI; return it validated.

    Raises:
        ApiError: 415 for another content type, 400 INVALID_INPUT for invalid JSON or too many values, 503 if too many
            large bodies of the sender wait.
        RequestValidationError: for invalid values; of a large body, with the first error.
    """
    require_json(request)

    def parse(body: bytes) -> tuple[Any, Any]:
        value = json_bodies.loads(body)
        require_few_values(value, body)
        validated, validation_errors = field.validate(value, loc=("body",)) if field else (value, [])
        if validation_errors:
            raise RequestValidationError(validation_errors[:1])
        return value, validated

    try:
        body = await request.body()
        parsed = parse(body) if is_small(body) else await parse_body(request, parse)
    except ValueError as error:
        if isinstance(error, RequestValidationError):
            raise
        raise errors.invalid_input(f"invalid request body: {error}", reason="invalid_json") from None
    request._json, validated = parsed
    return validated


def is_small(body: bytes) -> bool:
    """Return whether the event loop may parse and validate a body, in less than a millisecond."""
    return len(body) <= SMALL_BODY_BYTES and _max_values(body) <= MAX_VALUES_ON_EVENT_LOOP


async def parse_body(request: Request, parse: Callable[[bytes], T]) -> T:
    """Parse a body in a worker thread; large bodies with `LargeBodyLimiter`.

    Raises:
        ApiError: 503 if too many large bodies of the sender wait.
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
    """Raise 415 for another content type."""
    media_type = next((value for name, value in request.scope["headers"] if name == b"content-type"), b"")
    if media_type.partition(b";")[0].strip().lower() != b"application/json":
        raise ApiError(415, "UNSUPPORTED_MEDIA_TYPE", "the request body must be application/json")


def require_few_values(value: Any, body: bytes | str) -> None:
    """Raise 400 INVALID_INPUT for more than `MAX_VALUES` values."""
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
    """Return an upper limit of the number of nested values: each follows `,`, `[` or `{`."""
    data = body.encode(errors="surrogatepass") if isinstance(body, str) else body
    return sum(data.count(character) for character in (b",", b"[", b"{"))
