"""Where things stand in the text of a policy document, found without reading it as JSON.

The text is being typed, so it is seldom whole: only strings, brackets and separators are looked at. One pass over
140 KB takes about 3 ms (tests/benchmarks/editor.py), so it may run on a key press.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

STRING = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*'
"""A string up to its closing quote, or to the end of its line: JSON has none that goes on there."""
_STRUCTURE = re.compile(STRING + r'"?|[\[\]{}:,]')
_BRACKETS = re.compile(STRING + r'"?|[\[\]{}]')
_WORD = re.compile(r"[\w:*/.-]*")
_CLOSING = {"]": "[", "}": "{"}
PARTNER = {"{": "}", "[": "]", "}": "{", "]": "["}


class Span(NamedTuple):
    """A part of the text: offsets of its first character and behind its last one."""

    start: int
    end: int


def rules(text: str, most: int | None = None) -> list[Span]:
    """The objects of the member `rules`, in their order, the first `most` only; the last one may be unfinished."""
    spans: list[Span] = []
    stack: list[str] = []
    start, last, listed = 0, "", False
    for match in _BRACKETS.finditer(text):
        mark = match[0]
        if mark[0] == '"':
            if len(stack) == 1:
                last = mark
        elif mark in "[{":
            if stack == ["{"] and mark == "[":
                listed = last == '"rules"'
            elif len(stack) == 2 and listed and mark == "{":
                start = match.start()
            stack.append(mark)
        elif stack and stack[-1] == _CLOSING[mark]:
            stack.pop()
            if len(stack) == 2 and listed and mark == "}":
                spans.append(Span(start, match.end()))
                if len(spans) == most:
                    return spans
            elif len(stack) == 1:
                listed = False
    if listed and len(stack) > 2:
        spans.append(Span(start, len(text)))
    return spans


def partner(text: str, at: int) -> int | None:
    """The offset of the bracket that belongs to the one at `at`; None when there is none, or it is in a string."""
    stack: list[tuple[str, int]] = []
    for match in _BRACKETS.finditer(text):
        mark, start = match[0], match.start()
        if mark[0] == '"':
            if start <= at < match.end():
                return None
        elif mark in "[{":
            stack.append((mark, start))
        elif not stack or stack[-1][0] != _CLOSING[mark]:
            return None  # the brackets before do not fit: any answer would be a guess
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
    """In an object, the member whose value is being written."""
    index: int = 0
    expects: str = "member"
    """In an object: `member` or `value`."""
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Spot:
    """What is being written at a place in the text."""

    path: tuple[str | int, ...]
    """Of the value or of the object whose member is written; `("rules", 0, "operations", 1)`."""
    expects: str
    """`member` for the name of a member, `value` for a value."""
    span: Span
    """What a completion replaces: from behind the opening quote up to before the closing one, or nothing at all."""
    typed: str
    """The text of the span before the cursor."""
    quoted: bool
    """Whether the cursor stands inside a string."""
    closed: bool
    """Whether that string has its closing quote."""
    names: tuple[str, ...]
    """The members the object around has before this one."""
    followed: bool = False
    """Whether `:` follows: a member with that name has its value already."""


def spot(text: str, at: int) -> Spot | None:
    """What is being written at `at`; None outside of the document and behind a value."""
    stack: list[_Level] = []
    behind_value = False
    for match in _STRUCTURE.finditer(text):
        start, end, mark = match.start(), match.end(), match[0]
        if mark[0] == '"':
            closed = len(mark) > 1 and mark[-1] == '"' and not _escaped(mark)
            if start < at <= end - closed:
                # A string that was never closed runs over what stands behind it: only the word at the cursor is meant.
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


def _word_end(text: str, at: int) -> int:
    found = _WORD.match(text, at)
    return found.end() if found is not None else at


def _escaped(mark: str) -> bool:
    body = mark[1:-1]
    return (len(body) - len(body.rstrip("\\"))) % 2 == 1


def _at(stack: list[_Level], span: Span, typed: str, *, quoted: bool, closed: bool) -> Spot | None:
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
    return Spot(tuple(path), expects, span, typed, quoted, closed, tuple(here.names))


class Lines:
    """Offsets of a text to lines and columns (from 0), and back."""

    def __init__(self, text: str) -> None:
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.length = len(text)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset."""
        line = bisect_right(self.starts, offset) - 1
        return line, offset - self.starts[line]

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and column; one beyond the text stands at its end."""
        if line >= len(self.starts):
            return self.length
        end = self.starts[line + 1] - 1 if line + 1 < len(self.starts) else self.length
        return min(self.starts[line] + column, end)

    def range(self, span: Span) -> range:
        """The lines a span touches."""
        return range(self.place(span.start)[0], self.place(max(span.start, span.end - 1))[0] + 1)


_PAINTED = re.compile(r"(" + STRING + r'"?)(\s*:)?|(true|false|null)\b|(-?\d[\d.eE+-]*)|([\[\]{}:,]+)')


def painted(line: str) -> Iterator[tuple[int, int, str]]:
    """The parts of one line by what they are: member, string, constant, mark. No part of JSON is longer than a line."""
    for match in _PAINTED.finditer(line):
        if match[1] is not None:
            yield (*match.span(1), "member" if match[2] else "string")
            if match[2]:
                yield (*match.span(2), "mark")
        elif match[5] is not None:
            yield (*match.span(5), "mark")
        else:
            yield (*match.span(), "constant")
