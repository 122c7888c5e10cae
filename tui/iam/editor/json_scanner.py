"""Positions in the text of a policy document, found without parsing it as JSON.

Text being typed is usually incomplete, so only strings, brackets and separators are scanned. One pass over 140 KB
takes about 3 ms (tests/benchmarks/editor.py), fast enough for each key press.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

STRING = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*'
"""A string up to its closing quote or the end of its line: JSON strings do not span lines."""
_STRUCTURE = re.compile(STRING + r'"?|[\[\]{}:,]')
_BRACKETS = re.compile(STRING + r'"?|[\[\]{}]')
_WORD = re.compile(r"[\w:*/.-]*")
_CLOSING = {"]": "[", "}": "{"}
PARTNER = {"{": "}", "[": "]", "}": "{", "]": "["}


class Span(NamedTuple):
    """A part of the text. `end` is exclusive."""

    start: int
    end: int


def rules(text: str, most: int | None = None) -> list[Span]:
    """Return the spans of the first `most` objects in `rules`, by default all. The last one may be incomplete."""
    spans: list[Span] = []
    stack: list[str] = []
    start, last, in_rules = 0, "", False
    for match in _BRACKETS.finditer(text):
        mark = match[0]
        if mark[0] == '"':
            if len(stack) == 1:
                last = mark
        elif mark in "[{":
            if stack == ["{"] and mark == "[":
                in_rules = last == '"rules"'
            elif len(stack) == 2 and in_rules and mark == "{":
                start = match.start()
            stack.append(mark)
        elif stack and stack[-1] == _CLOSING[mark]:
            stack.pop()
            if len(stack) == 2 and in_rules and mark == "}":
                spans.append(Span(start, match.end()))
                if len(spans) == most:
                    return spans
            elif len(stack) == 1:
                in_rules = False
    if in_rules and len(stack) > 2:
        spans.append(Span(start, len(text)))
    return spans


def matching_bracket(text: str, at: int) -> int | None:
    """Return the offset of the bracket that matches the bracket at `at`; None without a match or inside a string."""
    stack: list[tuple[str, int]] = []
    for match in _BRACKETS.finditer(text):
        mark, start = match[0], match.start()
        if mark[0] == '"':
            if start <= at < match.end():
                return None
        elif mark in "[{":
            stack.append((mark, start))
        elif not stack or stack[-1][0] != _CLOSING[mark]:
            return None  # unbalanced: any result would be a guess
        else:
            opened = stack.pop()[1]
            if at in (opened, start):
                return start if at == opened else opened
        if not stack and start > at:
            return None
    return None


@dataclass
class _Level:
    bracket: str
    name: str | None = None
    """In an object, the current member."""
    index: int = 0
    expects: str = "member"
    """In an object: `member` or `value`."""
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CursorContext:
    """The JSON element at an offset of the text."""

    path: tuple[str | int, ...]
    """Path of the value, or of the object that contains the member, such as `("rules", 0, "operations", 1)`."""
    expects: str
    """`member` (the name of a member) or `value`."""
    span: Span
    """Text that a completion replaces: the string without its quotes, or an empty span."""
    typed: str
    """The text of the span before the cursor."""
    quoted: bool
    """Whether the cursor is inside a string."""
    closed: bool
    """Whether that string has its closing quote."""
    names: tuple[str, ...]
    """Earlier members of the enclosing object."""
    followed: bool = False
    """Whether `:` follows, so that the member already has a value."""


def cursor_context(text: str, at: int) -> CursorContext | None:
    """Return the element at offset `at`; None outside the document and after a value."""
    stack: list[_Level] = []
    behind_value = False
    for match in _STRUCTURE.finditer(text):
        start, end, mark = match.start(), match.end(), match[0]
        if mark[0] == '"':
            closed = _is_closed(mark)
            if start < at <= end - closed:
                # An unclosed string extends over the following text: replace only the word at the cursor.
                inside = Span(start + 1, end - 1 if closed else _word_end(text, at))
                here = _at(stack, inside, text[start + 1 : at], quoted=True, closed=closed)
                followed = closed and text[end : end + 20].lstrip()[:1] == ":"
                return here and replace(here, followed=followed)
            if start >= at:
                break
            if stack and stack[-1].bracket == "{" and stack[-1].expects == "member":
                stack[-1].name = mark.strip('"')
            behind_value = True
            continue
        if start >= at:
            break
        behind_value = False
        if mark in "[{":
            stack.append(_Level(mark))
        elif mark in "]}":
            if stack:
                stack.pop()
            behind_value = True
        elif stack and mark == ":":
            stack[-1].expects = "value"
        elif stack and mark == ",":
            level = stack[-1]
            level.index += 1
            if level.bracket == "{":
                level.names.append(level.name or "")
                level.name, level.expects = None, "member"
    if not stack or behind_value:
        return None
    return _at(stack, Span(at, at), "", quoted=False, closed=False)


def strings(line: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the strings of a line as (start, end, whether the closing quote is there)."""
    for match in _STRUCTURE.finditer(line):
        mark = match[0]
        if mark[0] == '"':
            yield match.start(), match.end(), _is_closed(mark)


def _is_closed(mark: str) -> bool:
    return len(mark) > 1 and mark[-1] == '"' and not _is_escaped(mark)


def _word_end(text: str, at: int) -> int:
    word = _WORD.match(text, at)
    return word.end() if word is not None else at


def _is_escaped(mark: str) -> bool:
    body = mark[1:-1]
    return (len(body) - len(body.rstrip("\\"))) % 2 == 1


def _at(stack: list[_Level], span: Span, typed: str, *, quoted: bool, closed: bool) -> CursorContext | None:
    if not stack:
        return None
    path: list[str | int] = [(level.index if level.bracket == "[" else level.name or "") for level in stack[:-1]]
    here = stack[-1]
    expects = "value"
    if here.bracket == "[":
        path.append(here.index)
    elif here.expects == "member":
        expects = "member"
    else:
        path.append(here.name or "")
    return CursorContext(tuple(path), expects, span, typed, quoted, closed, tuple(here.names))


class Lines:
    """Converts between offsets and zero-based lines and columns."""

    def __init__(self, text: str) -> None:
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.length = len(text)

    def place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.starts, offset) - 1
        return line, offset - self.starts[line]

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a line and column, limited to the end of the line or text."""
        if line >= len(self.starts):
            return self.length
        end = self.starts[line + 1] - 1 if line + 1 < len(self.starts) else self.length
        return min(self.starts[line] + column, end)

    def range(self, span: Span) -> range:
        return range(self.place(span.start)[0], self.place(max(span.start, span.end - 1))[0] + 1)


_TOKEN = re.compile(r"(" + STRING + r'"?)(\s*:)?|(true|false|null)\b|(-?\d[\d.eE+-]*)|([\[\]{}:,]+)')


def tokens(line: str) -> Iterator[tuple[int, int, str]]:
    """Yield the tokens of a line as (start, end, kind). Kinds: member, string, constant, mark.

    A line is enough context, because JSON tokens do not span lines.
    """
    for match in _TOKEN.finditer(line):
        if match[1] is not None:
            yield (*match.span(1), "member" if match[2] else "string")
            if match[2]:
                yield (*match.span(2), "mark")
        elif match[5] is not None:
            yield (*match.span(5), "mark")
        else:
            yield (*match.span(), "constant")
