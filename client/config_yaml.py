"""Reads the configuration file strictly: plain maps, lists and text, and nothing that a YAML reader may make of them.

Every plain scalar stays the text that was typed (`no`, `0123` and `12:30:45` are words here), tags, merge keys and
duplicate keys are refused, and size, depth, node and alias counts are bounded before anything is built. What a value
means (a number, yes or no) is decided where it is used, with the position kept for the error.

Source: hostile E07, E08, E09; checklist F16.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from client.errors import FrostError, usage
from client.text import safe

MAX_BYTES = 256 * 1024
MAX_DEPTH = 12
MAX_NODES = 20_000
"""Nodes after every alias has been followed."""
MAX_ALIASES = 100


class Position(NamedTuple):
    """Where something stands in the file, both from 1."""

    line: int
    column: int


class Map(dict[str, Any]):
    """A mapping of the file: text to text, `Map` or list; `None` for a member without a value.

    `positions` holds where each member's value stands.
    """

    def __init__(self) -> None:
        super().__init__()
        self.positions: dict[str, Position] = {}


def read(content: bytes, name: str) -> Map:
    """The file's content; an empty file is an empty map.

    Args:
        content: The whole file.
        name: What to call the file in an error.

    Raises:
        FrostError: Damaged or forbidden (exit 2), with line and column; no value of the file is repeated.
    """
    if len(content) > MAX_BYTES:
        raise damaged(name, f"it is larger than {MAX_BYTES // 1024} KiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        place = Position(before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        raise damaged(name, "it is not UTF-8 text", place) from None
    if not text.strip():
        return Map()
    document = _Builder(name, _events(text, name)).document()
    if document is None:
        return Map()
    if not isinstance(document, Map):
        raise damaged(name, "it must hold members (name: value)", Position(1, 1))
    return document


def damaged(name: str, reason: str, place: Position | None = None) -> FrostError:
    """The failure for a file that cannot be used, at `place` (exit 2)."""
    where = f", line {place.line}, column {place.column}" if place else ""
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
        place = Position(mark.line + 1, mark.column + 1) if mark else None
        raise damaged(name, safe(error.problem or "it is not YAML", 120), place) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise damaged(name, "a control character is not allowed", place) from None


class _Builder:
    """Builds the document from parser events; an alias is the same object again, but counts with all its nodes."""

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
            raise self._refused(event, "an alias (*name) before what it stands for")
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
                raise self._refused(event, f"{safe(key, 60)!r} is given twice")
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
