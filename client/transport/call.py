"""API calls: requests, responses and credentials as data, and the interpretation of responses.

Also escapes the segments of paths and redacts secrets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine, Mapping
from importlib import import_module
from os import urandom
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

from client.errors import FrostError, usage
from client.text import safe
from client.transport.endpoint import Endpoint

if TYPE_CHECKING:
    from client.models.base import Wire


BAD_ANSWER = "BAD_ANSWER"
"""Code of a response that does not match the API."""
# Patterns are compiled on first use: most commands do not need them.
_FORMS = r"\b(fmk_[A-Za-z0-9]{0,4}|eyJ)[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
_LABELLED = (
    r"(?i)\b((?:bearer|basic) +|(?:x-api-key|authorization|(?:access|refresh|id)_?token|device_?code|code_?verifier"
    r"|secret|password|api_?key)[\"']?\s*[:=]\s*[\"']?(?:bearer +|basic +)?)([^\s\"',;&]{1,4})[^\s\"',;&]*"
)


class Credential(Protocol):
    """A credential for requests; `secret` is the API key or access token, `expires_at` Unix seconds (0: unknown)."""

    @property
    def kind(self) -> str: ...

    @property
    def secret(self) -> str: ...

    @property
    def expires_at(self) -> float: ...


class ConnectionProtocol(Protocol):
    """The context of a driver, implemented in client/connection.py.

    All methods may block; the asynchronous driver calls them in a thread.
    """

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def environ(self) -> Mapping[str, str]: ...

    def credential(self) -> Credential:
        """Return the credential. Raises FrostError if there is none (exit 3)."""

    def refresh(self, used: Credential) -> Credential:
        """Return a session newer than `used`. Raises FrostError, with code SESSION_ENDED if the session has ended."""

    def start(self) -> bool:
        """Start the local platform if this is its socket. Called when a unix socket does not accept connections.

        Return True if it accepts connections now, False if this connection must not start it. Raises FrostError (exit
        7) if it was stopped on purpose: attempts are not repeated.
        """


class Request(NamedTuple):
    """An unsigned API request. `path` begins with `/v1/` and is built by `path`; `body` is JSON or bytes."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    headers: Mapping[str, str] = MappingProxyType({})
    authenticated: bool = True
    idempotency_key: str | None = None


class Reply(NamedTuple):
    """A response. Header names are lower case; `seconds` is the duration of the exchange."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float = 0.0

    @property
    def request_id(self) -> str:
        return safe(self.headers.get("x-request-id", ""), 64)

    @property
    def changed(self) -> bool:
        """Return whether a write changed the resource; true unless the response denies it."""
        return self.headers.get("x-frost-changed", "").lower() != "false"

    @property
    def version(self) -> int | None:
        """Return the version for `If-Match` of a later write; None if the response has none."""
        tag = self.headers.get("etag", "").strip()
        number = tag[1:-1] if len(tag) > 2 and tag[0] == tag[-1] == '"' else ""
        return int(number) if number.isascii() and number.isdigit() and len(number) < 16 else None


NOT_LISTENING = "NOT_LISTENING"
"""Code of a NoResponse if a unix socket does not accept connections. The local platform can then be started."""


class NoResponse(NamedTuple):
    """A failed exchange, returned instead of a Reply.

    `retryable`: whether a retry may help. `hint`: the setting to check; empty for that of the endpoint.
    """

    reason: str
    seconds: float
    retryable: bool = True
    code: str = "UNREACHABLE"
    hint: str = ""


def path(template: str, *segments: str) -> str:
    """Replace each `{}` of `template` by a percent-encoded segment.

    Raises:
        FrostError: A segment is not an id: empty, `.`, `..`, over 200 characters, or with a slash, a backslash, a
            percent sign or a non-printable character (exit 2).
    """
    return template.format(*(_segment(segment) for segment in segments))


def _segment(text: str) -> str:
    if not text:
        raise usage("the id is empty")
    if text in (".", "..") or any(mark in text for mark in "/\\%") or not text.isprintable() or len(text) > 200:
        raise usage(f"{safe(text, 80)!r} is not an id: it contains path characters or is too long")
    return quote(text, safe="")


def malformed_response(
    reason: str, reply: Reply | None = None, *, hint: str = "check api_endpoint: frost config show"
) -> FrostError:
    """Return the error for a successful response that does not match the API."""
    return FrostError(
        reason,
        code=BAD_ANSWER,
        hint=hint,
        request_id=reply.request_id if reply is not None else "",
        status=reply.status if reply is not None else 0,
    )


def new_idempotency_key() -> str:
    """Return a key with which a create can be repeated safely."""
    return urandom(16).hex()


def if_match(version: int | None) -> dict[str, str]:
    """Return the header that refuses a write based on an older version."""
    return {} if version is None else {"If-Match": f'"{version}"'}


def redact(text: str) -> str:
    """Truncate each key, token and labelled secret in `text` to its first characters and `…`."""
    return re.sub(_LABELLED, r"\1\2…", re.sub(_FORMS, r"\1…", text))


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
ModelT = TypeVar("ModelT", bound="Wire")

MAX_PAGE_SIZE = 200
"""The platform's maximum page size."""


class Model(Generic[ModelT]):
    """A model of the API, as `module.Class` in client.models.

    It is imported at the first response: commands print JSON without models, and importing pydantic takes longer than
    most of them run.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self) -> type[ModelT]:
        """Import the model."""
        module, _, name = self.name.partition(".")
        model: type[ModelT] = getattr(import_module(f"client.models.{module}"), name)
        return model

    def parse(self, value: Any) -> ModelT:
        """Validate a JSON object.

        Raises:
            FrostError: A required member is missing, or a member has another type.
        """
        from pydantic import ValidationError

        model = self.load()
        try:
            return model.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            member = ".".join(str(part) for part in first["loc"])
            raise malformed_response(
                f"the response is not a {model.__name__}: {safe(member, 100)}: {safe(first['msg'], 200)}",
                hint="the platform may have another version: frost platform status",
            ) from error


class Call(NamedTuple, Generic[T_co]):
    """An API call with a result of type `T`.

    Attributes:
        request: The request.
        parse: Returns the result from the JSON object of the response.
        member: The member with the records of a list; None if the response is not a list.
        needs: The required members.
        nullable: The required members that may be null.
        status: The only accepted status; 0 for any success.
        reads: Whether the request changes nothing although its method is not GET.
        empty: Whether the response may have no content.
    """

    request: Request
    parse: Callable[[Any], T_co]
    member: str | None = None
    needs: tuple[str, ...] = ()
    nullable: tuple[str, ...] = ()
    status: int = 0
    reads: bool = False
    empty: bool = False

    @property
    def changes(self) -> bool:
        """Whether the request may change data on the platform."""
        return self.request.method not in ("GET", "HEAD") and not self.reads

    @property
    def cursor(self) -> str:
        """The cursor of the page; empty for the first one."""
        return dict(self.request.query).get("cursor", "")

    def page(self, cursor: str, size: int | None = None) -> Call[T_co]:
        """Return the call for the page at a cursor. `size` is its page size unless the call has a limit.

        None is the maximum page size.
        """
        parameters = [(name, value) for name, value in self.request.query if name != "cursor"]
        if "limit" not in dict(parameters):
            parameters.append(("limit", str(size or MAX_PAGE_SIZE)))
        if cursor:
            parameters.append(("cursor", cursor))
        return self._replace(request=self.request._replace(query=tuple(parameters)))


def record(
    request: Request,
    model: Model[ModelT],
    needs: tuple[str, ...] = (),
    *,
    member: str | None = None,
    nullable: tuple[str, ...] = (),
    status: int = 0,
    reads: bool = False,
) -> Call[ModelT]:
    """Return a call whose response is a record."""
    return Call(request, model.parse, member, needs, nullable, status, reads)


def records(request: Request, member: str, model: Model[ModelT]) -> Call[list[ModelT]]:
    """Return a call whose response has a list of records in a member: a whole list, or a page of it."""
    return Call(request, lambda document: [model.parse(item) for item in document[member]], member)


def member_record(request: Request, member: str, model: Model[ModelT]) -> Call[ModelT]:
    """Return a call whose response has a record in a member."""
    return Call(request, lambda document: model.parse(document[member]), needs=(member,))


def no_content(request: Request) -> Call[None]:
    """Return a call whose response has no content that matters."""
    return Call(request, lambda _: None, empty=True)


class Ask(Protocol):
    """Sends a call and returns its result, as `AsyncClient.ask` does."""

    def __call__(self, call: Call[T], /) -> Coroutine[Any, Any, T]: ...


class Change(NamedTuple, Generic[T]):
    """The result of a write: its record, and whether the resource changed."""

    record: T
    changed: bool


class Versioned(NamedTuple, Generic[T]):
    """A record and the version for a later write; None if the platform has no versions of it."""

    record: T
    version: int | None


def read_json(call: Call[object], reply: Reply) -> Any:
    """Validate a successful response and return its JSON object; None if the call needs no content.

    Raises:
        FrostError: Another status or content type, compression, invalid JSON, an error in a 2xx response, or a missing
            member.
    """
    if call.status and reply.status != call.status:
        raise malformed_response(f"the response is HTTP {reply.status} instead of {call.status}", reply)
    without_content = reply.status in (204, 205)
    if call.empty and (without_content or not reply.body):
        return None
    if without_content:
        raise malformed_response("the response has no content", reply)
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise malformed_response(f"the response is {safe(kind or 'of no type', 60)!r} instead of JSON", reply)
    if reply.headers.get("content-encoding", "identity").lower() != "identity":
        raise malformed_response("the response is compressed, but the request did not allow compression", reply)
    try:
        value = json.loads(reply.body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise malformed_response("the response is not complete JSON", reply) from error
    if not isinstance(value, dict):
        raise malformed_response("the response is not a JSON object", reply)
    inner = value.get("error")
    if isinstance(inner, dict) and isinstance(inner.get("code"), str):
        text = safe(inner.get("message", ""), 200)
        raise malformed_response(f"HTTP {reply.status} with an error in the body: {text}", reply)
    if call.member is not None and not isinstance(value.get(call.member), list):
        raise malformed_response(f"the response has no list {call.member!r}", reply)
    for name in call.needs:
        if not _is_usable(name, value.get(name)):
            raise malformed_response(f"the response has no usable {name!r}", reply)
    for name in call.nullable:
        if name not in value:
            raise malformed_response(f"the response has no {name!r}", reply)
    return value


def _is_usable(name: str, value: object) -> bool:
    """Return whether the value of a required member is usable: an id must be text, and text must not be blank."""
    if isinstance(value, str):
        return bool(value.strip())
    return value is not None and name != "id" and not name.endswith("Id")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def page_query(limit: int | None, cursor: str, *parameters: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the query parameters of a page."""
    page = [*parameters]
    if limit is not None:
        page.append(("limit", str(limit)))
    if cursor:
        page.append(("cursor", cursor))
    return tuple(page)
