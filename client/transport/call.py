"""Typed descriptions of API calls, and the interpretation of their responses."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Generator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from client.errors import FrostError
from client.text import safe
from client.transport.request import Reply, Request
from client.transport.responses import malformed_response

if TYPE_CHECKING:
    from client.models.base import Wire

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
                f"the answer is not a {model.__name__}: {safe(member, 100)}: {safe(first['msg'], 200)}",
                hint="is the platform of another version? frost platform status",
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

    def page(self, cursor: str) -> Call[T_co]:
        """Return the call for the page at a cursor, with the maximum page size unless the call has a limit."""
        parameters = [(name, value) for name, value in self.request.query if name != "cursor"]
        if "limit" not in dict(parameters):
            parameters.append(("limit", str(MAX_PAGE_SIZE)))
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
        raise malformed_response(f"the answer is HTTP {reply.status} instead of {call.status}", reply)
    without_content = reply.status in (204, 205)
    if call.empty and (without_content or not reply.body):
        return None
    if without_content:
        raise malformed_response("the answer has no content", reply)
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise malformed_response(f"the answer is {safe(kind or 'of no type', 60)!r} instead of JSON", reply)
    if reply.headers.get("content-encoding", "identity").lower() != "identity":
        raise malformed_response("the answer is compressed although that was not asked for", reply)
    try:
        value = json.loads(reply.body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise malformed_response("the answer is not complete JSON", reply) from error
    if not isinstance(value, dict):
        raise malformed_response("the answer is not a JSON object", reply)
    inner = value.get("error")
    if isinstance(inner, dict) and isinstance(inner.get("code"), str):
        text = safe(inner.get("message", ""), 200)
        raise malformed_response(f"HTTP {reply.status} with an error inside: {text}", reply)
    if call.member is not None and not isinstance(value.get(call.member), list):
        raise malformed_response(f"the answer has no list {call.member!r}", reply)
    for name in call.needs:
        if not _is_usable(name, value.get(name)):
            raise malformed_response(f"the answer has no usable {name!r}", reply)
    for name in call.nullable:
        if name not in value:
            raise malformed_response(f"the answer has no {name!r}", reply)
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


def cursors(first: str = "") -> Generator[str, str, None]:
    """Yield the cursor of each page from `first` on ("" is the start). Send the page's `nextCursor`.

    Raises:
        FrostError: The platform repeats a cursor; the list would never end.
    """
    cursor = first
    seen = {cursor}
    while cursor := (yield cursor):
        if cursor in seen:
            raise FrostError(
                "the service repeats a cursor; the list would never end",
                code="CURSOR_REPEATED",
                hint="page by page it can still be read, with --limit and --cursor",
            )
        seen.add(cursor)


def next_cursor(document: Any) -> str:
    """Return `nextCursor` of a response; "" on the last page."""
    cursor = document.get("nextCursor")
    return cursor if isinstance(cursor, str) else ""
