"""Request bodies: read strictly, and parsed so that large ones do not delay other callers."""

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
"""Values in one body, at any depth. 200 evaluations of 50 values each have as many."""

FEW_VALUES = 200
"""Bodies with more are validated in a worker thread first."""

T = TypeVar("T")


class BodyField(Protocol):
    """The part of the framework's body field that is used here."""

    def validate(self, value: Any, *, loc: tuple[int | str, ...]) -> tuple[Any, list[Any]]: ...


async def read_body(request: Request, field: BodyField | None = None) -> None:
    """Read a JSON body by the strict rules, check it against its field and leave it where the framework looks for it.

    Raises:
        Refusal: 415 for another content type, 400 INVALID_INPUT for a body that is not one plain JSON value or has
            too many values, 429 if too many large bodies of this caller wait.
        RequestValidationError: the first error of a body that does not fit its model.
    """
    require_json(request)

    def parse(body: bytes) -> Any:
        value = strict_json.loads(body)
        require_few_values(value, body)
        # The framework validates in the event loop and lists every error, which takes long for many.
        if field and _marks(body) > FEW_VALUES and (found := field.validate(value, loc=("body",))[1]):
            raise RequestValidationError(found[:1])
        return value

    try:
        request._json = await parse_body(request, parse)
    except ValueError as error:
        if isinstance(error, RequestValidationError):
            raise
        raise errors.invalid_input(f"invalid request body: {error}", reason="invalid_json") from None


async def parse_body(request: Request, parse: Callable[[bytes], T]) -> T:
    """Parse a body in a worker thread. Large bodies take turns, fairly between credentials.

    Raises:
        Refusal: 429 if too many large bodies of this caller wait.
    """
    body = await request.body()
    if len(body) <= LARGE_BODY_BYTES:
        return await run_in_threadpool(parse, body)
    platform: Platform = request.app.state.platform
    caller: Principal | None = request.scope.get("frost.caller")
    address = address_of(request.scope, platform.settings.proxies)
    sender = (caller and caller.credential_id) or (network_of(address) if address else "local")
    async with platform.large_bodies.slot(sender):
        return await run_in_threadpool(parse, body)


def require_json(request: Request) -> None:
    """Refuse a body of another content type with 415."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise ApiError(415, "UNSUPPORTED_MEDIA_TYPE", "the request body must be application/json")


def require_few_values(value: Any, body: bytes | str) -> None:
    """Refuse a body with more than `MAX_VALUES` values.

    Raises:
        Refusal: 400 INVALID_INPUT.
    """
    if _marks(body) < MAX_VALUES:
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


def _marks(body: bytes | str) -> int:
    """Return how many values a body has at most, without the first: each follows one of these marks."""
    data = body.encode(errors="surrogatepass") if isinstance(body, str) else body
    return sum(data.count(mark) for mark in (b",", b"[", b"{"))
