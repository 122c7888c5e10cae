"""Strict JSON parser with error positions, for documents that people write. The client and the service use it.

Unlike the standard parser, it refuses repeated members, NaN and Infinity, unlimited numbers, lone surrogates, depth and
size over a limit, and encodings other than UTF-8 (a byte order mark is accepted).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NoReturn

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_DIGITS = 100
"""Limit of characters in a number."""
MAX_REPEATED = 20
"""Limit of repeated members to collect before the text is refused."""
MAX_STEPS = 20_000
"""Limit of values to read in search of an error's position. A run of plain array elements is one step."""

_STRING = r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_SPACE = re.compile(r"[ \t\n\r]*+")
_VALUE = re.compile(rf"[ \t\n\r]*+(?:({_STRING})|({_NUMBER})|(true|false|null)|([\[{{]))")
_IS_STRING, _IS_NUMBER, _IS_WORD, _IS_CONTAINER = 1, 2, 3, 4
_MEMBER = re.compile(rf"[ \t\n\r]*+({_STRING})[ \t\n\r]*+(:)?")
# Array elements that need no check, each with its comma. They contain no other comma, so a container in them has one
# value at most.
_W = r"[ \t\n\r]*+"
_PLAIN_STRING = r'"[^"\\,\x00-\x1f]*+"'
_PLAIN_VALUE = rf"{_W}(?:{_PLAIN_STRING}|-?(?:0|[1-9][0-9]{{0,17}}+)(?:\.[0-9]{{1,18}}+)?|true|false|null)"
_PLAIN_DEPTH = 3
for _ in range(_PLAIN_DEPTH):
    _PLAIN_VALUE = (
        rf"(?:{_PLAIN_VALUE}|{_W}\[(?:{_PLAIN_VALUE})?{_W}\]|{_W}\{{(?:{_W}{_PLAIN_STRING}{_W}:{_PLAIN_VALUE})?{_W}\}})"
    )
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_WHITE = frozenset(" \t\n\r")
_HALF_PAIR = "a string with half a surrogate pair"
_LONG = f"a number of more than {MAX_DIGITS} characters"
_LARGE = "a number too large to be represented"
_GOOD_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# In texts without these no number exceeds a limit, so the C parser may convert all numbers itself.
_LONG_NUMBER = re.compile(rf"(?<![0-9.eE+-])[0-9.eE+-]{{{MAX_DIGITS + 1}}}")
_LARGE_EXPONENT = re.compile(r"[0-9][eE]\+?[0-9]{3}")

Path = tuple[str | int, ...]


class StrictJsonError(ValueError):
    """The reason and the position of a JSON error.

    Args:
        reason: The error, without its position.
        path: The invalid value; `$` is the whole text (`$.rules[0].effect`).
        line: From 1.
        column: From 1, in characters.
    """

    def __init__(self, reason: str, path: str = "$", line: int = 1, column: int = 1) -> None:
        super().__init__(f"{reason} (line {line}, column {column}, at {path})")
        self.reason = reason
        self.path = path
        self.line = line
        self.column = column


@cache
def _plain() -> re.Pattern[str]:
    """Return the pattern of plain elements, compiled on first use: compilation is slow and only errors need it."""
    return re.compile(rf"(?:{_PLAIN_VALUE}{_W},)*+")


class _Refused(Exception):
    """An error of the fast parser, with its text; the one-pass parser finds the position."""


class _TooManySteps(Exception):
    """The position of an error was not found within `MAX_STEPS`."""


def loads(
    data: bytes | str,
    *,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
    repeated: list[StrictJsonError] | None = None,
) -> Any:
    """Parse a JSON text and return its value.

    Args:
        data: UTF-8 bytes, with or without a byte order mark, or text.
        max_bytes: Maximum length in bytes of UTF-8.
        max_depth: Maximum nesting of arrays and objects.
        repeated: Collects repeated members as errors, for a caller that reports all errors and then refuses the text;
            the value has the last one of each. Without it, they are refused.

    Raises:
        StrictJsonError: The text is not strict JSON.
    """
    text = _decode(data, max_bytes)
    long_numbers = _LONG_NUMBER.search(text) is not None
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse,
            parse_int=_integer if long_numbers else None,
            parse_float=_float if long_numbers or _LARGE_EXPONENT.search(text) else None,
        )
        deep = text.count("[") + text.count("{") > max_depth and _is_deeper(value, max_depth)
        if not deep and (_SURROGATE.search(text) is None or not _holds_surrogate(value)):
            return value
    except (_Refused, json.JSONDecodeError, RecursionError) as error:
        try:
            _locate(text, max_depth, repeated)
        except _TooManySteps:
            raise _without_path(error, max_depth) from None
        if repeated:
            return json.loads(text)
        # Only reached if the two parsers disagree: refuse the text.
        raise StrictJsonError("not JSON", line=1, column=1) from error
    try:
        _locate(text, max_depth)
    except _TooManySteps:
        raise StrictJsonError(_too_deep(max_depth) if deep else _HALF_PAIR) from None
    return value


def _without_path(error: Exception, max_depth: int) -> StrictJsonError:
    """Return the fast parser's error with its line and column, if known, without the path."""
    if isinstance(error, json.JSONDecodeError):
        return StrictJsonError(f"not JSON: {error.msg}", "$", error.lineno, error.colno)
    return StrictJsonError(str(error) if isinstance(error, _Refused) else _too_deep(max_depth))


def _too_deep(max_depth: int) -> str:
    return f"nested deeper than {max_depth} levels"


def walk(
    text: str, max_depth: int = MAX_DEPTH, repeated: list[StrictJsonError] | None = None
) -> Iterator[tuple[Path, int]]:
    """Yield the path and offset of every value in the order of the text; `repeated` as in `loads`.

    Raises:
        StrictJsonError: At the first error.
    """
    yield from _read(text, max_depth, repeated, paths=True)


def _read(
    text: str, max_depth: int, repeated: list[StrictJsonError] | None, *, paths: bool
) -> Iterator[tuple[Path, int]]:
    """Check `text` in one pass; yield each value's path and offset only if `paths` is true."""
    surrogates = _has_surrogate(text)
    steps = 0
    path: list[str | int] = []
    members: list[set[str] | None] = []  # per open container: its names, None for an array
    names: set[str] | None = None
    at = 0

    def pass_plain(at: int, depth: int) -> tuple[int, int]:
        """Return the offset after the plain elements at an offset, and their number."""
        if paths or surrogates or depth + _PLAIN_DEPTH > max_depth:
            return at, 0
        plain = _plain().match(text, at)
        assert plain is not None
        end = plain.end()
        return end, text.count(",", at, end)

    while True:
        steps += 1
        if steps > MAX_STEPS and not paths:
            raise _TooManySteps
        match = _VALUE.match(text, at)
        if match is None:
            at = _skip_space(text, at)
            if paths:
                yield tuple(path), at
            _refuse_value(text, at, path)
        kind = match.lastindex
        assert kind is not None
        start = match.start(kind)
        at = match.end()
        if paths:
            yield tuple(path), start
        if kind == _IS_STRING:
            if surrogates or "\\u" in match[1]:
                _check_surrogates(json.loads(match[1]), text, start, path)
        elif kind == _IS_NUMBER:
            if at - start > 3:  # the shortest number over a limit is 1e309
                _check_number(text, start, at, path)
        elif kind == _IS_CONTAINER:
            if len(members) == max_depth:
                raise _error(_too_deep(max_depth), text, start, path)
            mark = text[at : at + 1]
            if mark in _WHITE:
                at = _skip_space(text, at)
                mark = text[at : at + 1]
            if match[_IS_CONTAINER] == "{":
                if mark != "}":
                    names = set()
                    members.append(names)
                    name, at = _read_member(text, at, path, names, surrogates, repeated)
                    path.append(name)
                    continue
            elif mark != "]":
                names = None
                members.append(None)
                at, passed = pass_plain(at, len(members))
                path.append(passed)
                continue
            at += 1
        while True:  # after a value: continue with the next one, or leave the container
            mark = text[at : at + 1]
            if mark in _WHITE:
                at = _skip_space(text, at)
                mark = text[at : at + 1]
            if not members:
                if mark:
                    raise _error("more text after the end of the document", text, at, [])
                return
            if mark == ",":
                last = path.pop()
                if names is None:
                    at, passed = pass_plain(at + 1, len(members))
                    path.append(int(last) + 1 + passed)
                else:
                    name, at = _read_member(text, at + 1, path, names, surrogates, repeated)
                    path.append(name)
                break
            closing = "]" if names is None else "}"
            if mark != closing:
                raise _error(f"expected ',' or {closing!r}", text, at, path[:-1])
            at += 1
            path.pop()
            members.pop()
            names = members[-1] if members else None


def _read_member(
    text: str,
    at: int,
    path: list[str | int],
    names: set[str],
    surrogates: bool,
    repeated: list[StrictJsonError] | None,
) -> tuple[str, int]:
    """Return the name of the member at an offset, and the offset of its value; add the name to `names`."""
    match = _MEMBER.match(text, at)
    if match is None:
        at = _skip_space(text, at)
        raise _error(_string_problem(text, at) or "expected a member name in double quotes", text, at, path)
    quoted, start = match[1], match.start(1)
    name: str = json.loads(quoted) if "\\" in quoted else quoted[1:-1]
    if surrogates or "\\u" in quoted:
        _check_surrogates(name, text, start, path)
    if name in names:
        error = _error(f"the member {_quote(name)} is duplicated", text, start, [*path, name])
        if repeated is None or len(repeated) == MAX_REPEATED:
            raise error
        repeated.append(error)
    names.add(name)
    if match[2] is None:
        raise _error("expected ':'", text, match.end(), [*path, name])
    return name, match.end()


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _string_problem(text: str, at: int) -> str:
    """Return why the string at an offset is invalid; empty if there is no string."""
    match = _GOOD_STRING.match(text, at)
    if match is None:
        return ""
    following = text[match.end() : match.end() + 1]
    if following in ("", "\n", "\r"):
        return "the string is not closed"
    return "an unknown escape in a string" if following == "\\" else "a control character in a string"


def _refuse_value(text: str, at: int, path: list[str | int]) -> NoReturn:
    for word in ("NaN", "Infinity", "-Infinity"):
        if text.startswith(word, at):
            raise _error(f"{word} is not JSON", text, at, path)
    if problem := _string_problem(text, at):
        raise _error(problem, text, at, path)
    raise _error("expected a value" if at < len(text) else "the text ends without a value", text, at, path)


def _check_number(text: str, start: int, end: int, path: list[str | int]) -> None:
    if end - start > MAX_DIGITS:
        raise _error(_LONG, text, start, path)
    if float(text[start:end]) in (float("inf"), float("-inf")):
        raise _error(_LARGE, text, start, path)


def _check_surrogates(value: str, text: str, start: int, path: list[str | int]) -> None:
    if _has_surrogate(value):
        raise _error(_HALF_PAIR, text, start, path)


def _error(reason: str, text: str, at: int, path: list[str | int]) -> StrictJsonError:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return StrictJsonError(reason, path_text(path), line, column)


def path_text(path: list[str | int] | Path) -> str:
    """Format a path: `$.rules[0]["odd name"]`."""
    text = "$"
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if _NAME.fullmatch(part) else f"[{_quote(part)}]"
    return text


def _quote(name: str) -> str:
    """Quote a member name in ASCII, truncated to 64 characters: it is untrusted."""
    return json.dumps(name if len(name) <= 64 else name[:63] + "…")


def _locate(text: str, max_depth: int, repeated: list[StrictJsonError] | None = None) -> None:
    """Raise a text's error with its position; return if all errors are repeated members, which are collected.

    Raises:
        StrictJsonError: The error.
        _TooManySteps: Too many values precede the position.
    """
    for _ in _read(text, max_depth, repeated, paths=False):
        pass


def _decode(data: bytes | str, max_bytes: int) -> str:
    if isinstance(data, str):
        if len(data) > max_bytes or (not data.isascii() and len(data.encode(errors="surrogatepass")) > max_bytes):
            raise StrictJsonError(f"longer than {max_bytes} bytes")
        text = data.removeprefix("\ufeff")
        if _has_surrogate(text):
            at = next(at for at, character in enumerate(text) if "\ud800" <= character <= "\udfff")
            raise _error(_HALF_PAIR, text, at, [])
        return text
    if len(data) > max_bytes:
        raise StrictJsonError(f"longer than {max_bytes} bytes")
    if json.detect_encoding(data) not in ("utf-8", "utf-8-sig"):
        raise StrictJsonError("not UTF-8, probably UTF-16 or UTF-32")
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode().removeprefix("\ufeff")
        raise _error("not UTF-8", before, len(before), []) from None


def _holds_surrogate(value: Any) -> bool:
    """Return whether a value contains a lone surrogate; an escaped pair is one character by now."""
    return _has_surrogate(json.dumps(value, ensure_ascii=False))


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _is_deeper(value: Any, max_depth: int) -> bool:
    """Return whether more than `max_depth` arrays and objects are nested."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(max_depth):
        level = [
            child
            for container in level
            for child in (container.values() if type(container) is dict else container)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Refused("duplicate member")
    return value


def _refuse(word: str) -> NoReturn:
    raise _Refused(f"{word} is not JSON")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _Refused(_LONG)
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if len(text) > MAX_DIGITS:
        raise _Refused(_LONG)
    if value in (float("inf"), float("-inf")):
        raise _Refused(_LARGE)
    return value
