"""Parse the configuration file as a strict subset of YAML: maps, lists and text.

Scalars are not converted: `no`, `0123` and `12:30:45` are text. Only an empty value, `~` and `null` are None. Tags,
merge keys and duplicate keys are errors. Size, depth, nodes and aliases are limited while parsing. The user of a value
interprets it (a number, true or false) and reports errors with its position.

Most files have only nested maps of unquoted words. They are parsed here, because the import of PyYAML takes an eighth
of a command; PyYAML parses everything else. tests/client/test_config_reading.py compares both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from client.errors import FrostError, usage
from client.text import safe

MAX_BYTES = 256 * 1024
MAX_DEPTH = 12
MAX_NODES = 20_000
"""Limit of nodes after alias expansion."""
MAX_ALIASES = 100


class Position(NamedTuple):
    """A position in the file, counted from 1."""

    line: int
    column: int


class Map(dict[str, Any]):
    """A mapping of the file. Values are text, `Map`, list, or None if empty.

    `positions` has the position of each member's value.
    """

    def __init__(self) -> None:
        super().__init__()
        self.positions: dict[str, Position] = {}


def read(content: bytes, name: str) -> Map:
    """Parse the content of a file; an empty file is an empty map.

    Args:
        content: The whole file.
        name: The name of the file in errors.

    Raises:
        FrostError: Invalid or forbidden content (exit 2), with line and column, without values of the file.
    """
    if len(content) > MAX_BYTES:
        raise damaged(name, f"larger than {MAX_BYTES // 1024} KiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        position = Position(before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        raise damaged(name, "not UTF-8 text", position) from None
    if not text.strip():
        return Map()
    plain = _plain(text)
    if plain is not None:
        return plain
    document = _Builder(name, _events(text, name)).document()
    if document is None:
        return Map()
    if not isinstance(document, Map):
        raise damaged(name, "expected members (name: value)", Position(1, 1))
    return document


_PLAIN_LINE = re.compile(
    r"( *)([A-Za-z_][A-Za-z0-9_-]*):(?: (-?[A-Za-z0-9_/](?:[A-Za-z0-9_./+=:@-]*[A-Za-z0-9_/+=-])?))?"
)
"""A line with a name and an unquoted value without spaces. A final `:` or `.` is left to PyYAML."""
_MAX_PLAIN_LINES = 1_000


def _plain(text: str) -> Map | None:
    """Parse a file that has only comment lines and nested maps of unquoted words; None if it has anything else."""
    lines = text.split("\n")
    if len(lines) > _MAX_PLAIN_LINES:
        return None
    document = Map()
    maps = [(0, document)]  # the maps around the line, with their indentation
    parent, empty = document, ""  # the latest member without a value, and its map; its value may follow
    for number, line in enumerate(lines, 1):
        content = line.lstrip(" ")
        if not content or content.startswith("#"):
            continue
        match = _PLAIN_LINE.fullmatch(line)
        if match is None:
            return None
        indent, key, value = len(match[1]), match[2], match[3]
        if indent > maps[-1][0]:
            if not empty or len(maps) > MAX_DEPTH:
                return None
            inner = Map()
            parent[empty], parent.positions[empty] = inner, Position(number, indent + 1)
            maps.append((indent, inner))
        while indent < maps[-1][0]:
            maps.pop()
        if indent != maps[-1][0] or key in maps[-1][1]:
            return None
        parent = maps[-1][1]
        parent[key] = None if value == "null" else value
        parent.positions[key] = Position(number, match.start(3) + 1 if value else match.end() + 1)
        empty = "" if value else key
    return document if document else None


def damaged(name: str, reason: str, position: Position | None = None) -> FrostError:
    """Return the error for a file that cannot be used, with its position (exit 2)."""
    where = f", line {position.line}, column {position.column}" if position else ""
    return usage(
        f"{safe(name)}{where}: {reason}", "nothing was changed; repair the file with an editor", code="CONFIG_DAMAGED"
    )


def _events(text: str, name: str) -> Iterator[Any]:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = Position(mark.line + 1, mark.column + 1) if mark else None
        raise damaged(name, safe(error.problem or "not valid YAML", 120), position) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        position = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise damaged(name, "a control character is not allowed", position) from None


class _Builder:
    """Builds the document from parser events. An alias shares its object, but all its nodes count again."""

    def __init__(self, name: str, events: Iterator[Any]) -> None:
        self._name = name
        self._events = events
        self._nodes = 0
        self._aliases = 0
        self._anchors: dict[str, tuple[Any, int]] = {}

    def document(self) -> Any:
        value: Any = None
        documents = 0
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise self._refused(event, "only one document is allowed")
            elif not kind.startswith(("Stream", "Document")):
                value = self._value(event, 0)
        return value

    def _value(self, event: Any, depth: int) -> Any:
        if type(event).__name__ == "AliasEvent":
            return self._alias(event)
        if depth > MAX_DEPTH:
            raise self._refused(event, f"nested deeper than {MAX_DEPTH} levels")
        if event.tag is not None:
            raise self._refused(event, "tags (!…) are not allowed")
        before = self._nodes
        self._count(event, 1)
        built = self._built(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (built, self._nodes - before)
        return built

    def _alias(self, event: Any) -> Any:
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise self._refused(event, f"more than {MAX_ALIASES} aliases (*name)")
        if event.anchor not in self._anchors:
            raise self._refused(event, "an alias (*name) before its anchor")
        value, nodes = self._anchors[event.anchor]
        self._count(event, nodes)
        return value

    def _built(self, event: Any, depth: int) -> Any:
        match type(event).__name__:
            case "ScalarEvent":
                plain = event.implicit[0]
                return None if plain and event.value in ("", "~", "null") else event.value
            case "SequenceStartEvent":
                return list(self._items(depth))
            case _:
                return self._map(depth)

    def _items(self, depth: int) -> Iterator[Any]:
        for event in self._events:
            if type(event).__name__ == "SequenceEndEvent":
                return
            yield self._value(event, depth + 1)

    def _map(self, depth: int) -> Map:
        built = Map()
        for event in self._events:
            if type(event).__name__ == "MappingEndEvent":
                break
            if type(event).__name__ != "ScalarEvent" or event.tag is not None:
                raise self._refused(event, "a member's name must be plain text")
            key = event.value
            if key == "<<" and event.implicit[0]:
                raise self._refused(event, "merge keys (<<) are not allowed")
            if key in built:
                raise self._refused(event, f"{safe(key, 60)!r} is a duplicate key")
            self._count(event, 1)
            value = next(self._events)
            built.positions[key] = _position(value)
            built[key] = self._value(value, depth + 1)
        return built

    def _count(self, event: Any, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise self._refused(event, f"more than {MAX_NODES:,} values, aliases followed")

    def _refused(self, event: Any, reason: str) -> FrostError:
        return damaged(self._name, reason, _position(event))


def _position(event: Any) -> Position:
    return Position(event.start_mark.line + 1, event.start_mark.column + 1)
