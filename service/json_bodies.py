"""JSON of requests and responses: a strict reader and the response class.

The reader takes a fifth of the time of `strict_json.loads` for most texts.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import orjson
from starlette import responses
from starlette.types import Receive, Scope, Send

from client.models import strict_json

# The characters of numbers become `d`, all others a space.
_NUMBERS = bytes(ord("d") if chr(byte) in "0123456789.eE+-" else ord(" ") for byte in range(256))
# Up to 64 bits, orjson reads integers exactly.
_LONG_NUMBER = b"d" * 19
MAX_PLAIN_BYTES = 64 * 1024
"""Longer texts are not plain: writing them with indents could take 60 times their size."""
_INDENT = 2
_DEEP = b" " * (_INDENT * strict_json.MAX_DEPTH)
# Instants have one format, `clock.wire_time`.
_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


class NotPlain(ValueError):
    """A text needs the checks of `strict_json.loads`; it may be valid."""


def loads(data: bytes) -> Any:
    """Return the value of a JSON text, as `strict_json.loads` does.

    Raises:
        StrictJsonError: the text is not strict JSON.
    """
    try:
        return loads_plain(data)
    except NotPlain:
        return strict_json.loads(data)


def loads_plain(data: bytes) -> Any:
    """Return the value of a strict JSON text without escapes, long numbers and deep nesting.

    Raises:
        NotPlain: the text is another, or not JSON.
    """
    if len(data) > MAX_PLAIN_BYTES or b"\\" in data or _LONG_NUMBER in data.translate(_NUMBERS):
        raise NotPlain
    try:
        value = orjson.loads(data)
        written = orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except (ValueError, TypeError):
        raise NotPlain from None
    # Of a member that is given twice, the value has only the last. Texts without escapes keep their colons.
    if written.count(b":") != data.count(b":") or _DEEP in written:
        raise NotPlain
    return value


class JSONResponse(responses.JSONResponse):
    """A JSON answer, encoded in a fifth of the time that the standard encoder takes."""

    def render(self, content: Any) -> bytes:
        try:
            return orjson.dumps(content, option=_OPTIONS)
        except TypeError:
            # The standard encoder accepts integers over 64 bits, and reports unsupported values better.
            return super().render(content)


PORTION = 200
"""Entries of a list that are encoded in one call, which holds the interpreter lock."""


class ListResponse(JSONResponse):
    """A JSON object with a list of any length, encoded and sent in portions.

    Encoding, freeing or copying a list of 10,000 entries takes up to 10 ms each, in which no other request can run.

    Args:
        member: the name of the list.
        entries: produced while the response is created, so they may be read in a transaction that is open then.
        others: the other members.
    """

    def __init__(self, member: str, entries: Iterable[Any], others: Mapping[str, Any] | None = None) -> None:
        self._parts = [b"{%b:[" % self.render(member)]
        self._parts += self._portions(iter(entries))
        rest = self.render(dict(others or {}))[1:]
        self._parts.append(b"]" + (b"," if others else b"") + rest)
        super().__init__(None, headers={"Content-Length": str(sum(map(len, self._parts)))})

    def _portions(self, entries: Iterator[Any]) -> Iterator[bytes]:
        comma = b""
        while portion := list(islice(entries, PORTION)):
            yield comma + self.render(portion)[1:-1]
            comma = b","

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for part in self._parts[:-1]:
            await send({"type": "http.response.body", "body": part, "more_body": True})
            # Other requests run between two portions.
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": self._parts[-1], "more_body": False})
