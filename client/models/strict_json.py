"""JSON read strictly, with the place of a mistake named; for documents that people write and the service decides on.

Beyond the standard reader it refuses: a member given twice, NaN and Infinity, numbers without bound, lone surrogates,
depth and size over a limit, any encoding but UTF-8 (a byte order mark is accepted). Both sides read with it.

Source: design: Three packages (strict_json), Service (strict decoding).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_DIGITS = 100
"""Characters of one number; enough for any number that means something."""
MAX_REPEATED = 20
"""Members given twice that are noted before a text is given up."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_SPACE = re.compile(r"[ \t\n\r]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

Path = tuple[str | int, ...]


class StrictJsonError(ValueError):
    """Why a text is refused, and where.

    Args:
        reason: What is wrong, without the place.
        path: The value at fault, `$` being the whole (`$.rules[0].effect`).
        line: From 1.
        column: From 1, in characters.
    """

    def __init__(self, reason: str, path: str = "$", line: int = 1, column: int = 1) -> None:
        super().__init__(f"{reason} (line {line}, column {column}, at {path})")
        self.reason = reason
        self.path = path
        self.line = line
        self.column = column


class _Refused(Exception):
    """The fast reader met something; the slow one will say where."""


def loads(
    data: bytes | str,
    *,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
    repeated: list[StrictJsonError] | None = None,
) -> Any:
    """The value of one JSON text.

    Args:
        data: UTF-8 bytes, with or without a byte order mark, or text.
        max_bytes: The longest text accepted, in bytes of UTF-8.
        max_depth: How many arrays and objects may be nested.
        repeated: Takes the members that are given twice, for a reader who tells everything that is wrong at once and
            accepts nothing while there are any; of each the last one is in the value. Without it they are refused.

    Raises:
        StrictJsonError: The text is not strict JSON.
    """
    text = _decoded(data, max_bytes)
    _check_depth(text, max_depth, repeated)
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse, parse_int=_integer, parse_float=_float
        )
        if _SURROGATE.search(text) is None or not _holds_surrogate(value):
            return value
    except (_Refused, json.JSONDecodeError, RecursionError) as error:
        _locate(text, max_depth, repeated)
        if repeated:
            return json.loads(text)
        # only reached if the two readers disagree: the text stays refused
        raise StrictJsonError("not JSON", line=1, column=1) from error
    _locate(text, max_depth)
    return value


def walk(
    text: str, max_depth: int = MAX_DEPTH, repeated: list[StrictJsonError] | None = None
) -> Iterator[tuple[Path, int]]:
    """Every value of `text` with the offset where it begins, in the order of the text; `repeated` as in `loads`.

    Raises:
        StrictJsonError: At the first thing that is not strict JSON.
    """
    reader = _Reader(text, repeated)
    path: list[str | int] = []
    members: list[set[str] | None] = []  # per open container: the names seen, None for an array
    while True:
        reader.space()
        yield tuple(path), reader.at
        opened = reader.text[reader.at : reader.at + 1]
        if opened in ("{", "["):
            if len(members) == max_depth:
                reader.refuse(f"nested deeper than {max_depth} levels", path)
            reader.at += 1
            reader.space()
            if reader.take("}" if opened == "{" else "]"):
                pass
            else:
                members.append(set() if opened == "{" else None)
                path.append(_member(reader, path, members[-1]) if opened == "{" else 0)
                continue
        else:
            reader.scalar(path)
        while members:  # a value has ended: on to the next one, or out of its container
            reader.space()
            names = members[-1]
            if reader.take(","):
                last = path.pop()
                reader.space()
                path.append(_member(reader, path, names) if names is not None else int(last) + 1)
                break
            if not reader.take("]" if names is None else "}"):
                reader.refuse(f"expected ',' or {']' if names is None else '}'!r}", path[:-1])
            path.pop()
            members.pop()
        else:
            reader.space()
            if reader.at < len(text):
                reader.refuse("more text after the end of the document", [])
            return


def _member(reader: _Reader, path: list[str | int], names: set[str] | None) -> str:
    start = reader.at
    name = reader.string(path, "a member name in double quotes")
    assert names is not None
    if name in names:
        reader.repeat(name, start, path)
    names.add(name)
    reader.space()
    if not reader.take(":"):
        reader.refuse("expected ':'", [*path, name])
    return name


class _Reader:
    """A place in a text, and what can be read from there."""

    def __init__(self, text: str, repeated: list[StrictJsonError] | None) -> None:
        self.text = text
        self.at = 0
        self.repeated = repeated

    def space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def take(self, mark: str) -> bool:
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def scalar(self, path: list[str | int]) -> None:
        if any(self.take(word) for word in ("true", "false", "null")):
            return
        if self.text.startswith('"', self.at):
            self.string(path, "a value")
            return
        number = _NUMBER.match(self.text, self.at)
        if number is not None:
            if len(number[0]) > MAX_DIGITS:
                self.refuse(f"a number of more than {MAX_DIGITS} characters", path)
            if float(number[0]) in (float("inf"), float("-inf")):
                self.refuse("a number too large to be represented", path)
            self.at = number.end()
            return
        for word in ("NaN", "Infinity", "-Infinity"):
            if self.text.startswith(word, self.at):
                self.refuse(f"{word} is not JSON", path)
        self.refuse("expected a value" if self.at < len(self.text) else "the text ends before a value", path)

    def string(self, path: list[str | int], wanted: str) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            if not self.text.startswith('"', self.at):
                self.refuse(f"expected {wanted}", path)
            self.refuse("a text that is not closed, or holds a control character or an unknown escape", path)
        value: str = json.loads(found[0])
        if _has_surrogate(value):
            self.refuse("a text with half a surrogate pair", path)
        self.at = found.end()
        return value

    def repeat(self, name: str, start: int, path: list[str | int]) -> None:
        error = _error(f"the member {_quoted(name)} is given twice", self.text, start, [*path, name])
        if self.repeated is None or len(self.repeated) == MAX_REPEATED:
            raise error
        self.repeated.append(error)

    def refuse(self, reason: str, path: list[str | int]) -> NoReturn:
        raise _error(reason, self.text, self.at, path)


def _error(reason: str, text: str, at: int, path: list[str | int]) -> StrictJsonError:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return StrictJsonError(reason, path_text(path), line, column)


def path_text(path: list[str | int] | Path) -> str:
    """A path as people read it: `$.rules[0]["odd name"]`."""
    text = "$"
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if _NAME.fullmatch(part) else f"[{_quoted(part)}]"
    return text


def _quoted(name: str) -> str:
    """A member name in ASCII and not longer than a line: it comes from whoever wrote the text."""
    return json.dumps(name if len(name) <= 64 else name[:63] + "…")


def _locate(text: str, max_depth: int, repeated: list[StrictJsonError] | None = None) -> None:
    for _ in walk(text, max_depth, repeated):
        pass


def _decoded(data: bytes | str, max_bytes: int) -> str:
    if isinstance(data, str):
        if len(data) > max_bytes or (not data.isascii() and len(data.encode(errors="surrogatepass")) > max_bytes):
            raise StrictJsonError(f"longer than {max_bytes} bytes")
        text = data.removeprefix("\ufeff")
        if _has_surrogate(text):
            at = next(at for at, character in enumerate(text) if "\ud800" <= character <= "\udfff")
            raise _error("a text with half a surrogate pair", text, at, [])
        return text
    if len(data) > max_bytes:
        raise StrictJsonError(f"longer than {max_bytes} bytes")
    if json.detect_encoding(data) not in ("utf-8", "utf-8-sig"):
        raise StrictJsonError("not UTF-8: it looks like UTF-16 or UTF-32")
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode().removeprefix("\ufeff")
        raise _error("not UTF-8", before, len(before), []) from None


def _holds_surrogate(value: Any) -> bool:
    """Whether half a pair is anywhere in a value: a pair that was escaped has become one character."""
    return _has_surrogate(json.dumps(value, ensure_ascii=False))


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _check_depth(text: str, max_depth: int, repeated: list[StrictJsonError] | None) -> None:
    """Refuses what is nested too deeply before any recursive reader sees it."""
    if text.count("[") + text.count("{") <= max_depth:
        return
    depth = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "[{":
            depth += 1
            if depth > max_depth:
                _locate(text, max_depth, repeated)
                raise _error(f"nested deeper than {max_depth} levels", text, token.start(), [])
        elif mark in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Refused
    return value


def _refuse(_: str) -> NoReturn:
    raise _Refused


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _Refused
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if len(text) > MAX_DIGITS or value in (float("inf"), float("-inf")):
        raise _Refused
    return value
