"""Parse tag sets from options, compare and merge them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from client.errors import usage
from client.text import safe


class TagChanges(NamedTuple):
    """Changes between two tag sets by key, in alphabetical order. `changed` has the old and new values."""

    added: Mapping[str, str]
    changed: Mapping[str, tuple[str, str]]
    removed: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def lines(self) -> list[str]:
        """Return lines sorted by key: `+ env=prod`, `~ team=b (was a)`, `- old=1`."""
        lines = {key: f"+ {key}={value}" for key, value in self.added.items()}
        lines |= {key: f"~ {key}={after} (was {before or 'empty'})" for key, (before, after) in self.changed.items()}
        lines |= {key: f"- {key}={value}" for key, value in self.removed.items()}
        return [lines[key] for key in sorted(lines)]

    def document(self) -> dict[str, dict[str, object]]:
        return {
            "added": dict(self.added),
            "changed": {key: {"from": before, "to": after} for key, (before, after) in self.changed.items()},
            "removed": dict(self.removed),
        }


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> TagChanges:
    return TagChanges(
        {key: after[key] for key in sorted(after) if key not in before},
        {key: (before[key], after[key]) for key in sorted(after) if key in before and before[key] != after[key]},
        {key: before[key] for key in sorted(before) if key not in after},
    )


def merged(stored: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Return the stored tags, updated with the given ones (`--merge`)."""
    return {**stored, **changes}


def parse_tags(values: Sequence[str], flag: str) -> dict[str, str]:
    """Parse `KEY=VALUE` options. A comma separates tags, since no value may contain one.

    Raises:
        FrostError: A tag has no key or no `=`, or a key has two values (exit 2).
    """
    tags: dict[str, str] = {}
    for pair in ",".join(values).split(","):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise usage(f"{flag} takes key=value, not {safe(pair, 80)!r}", f"for an empty value: {flag} key=")
        if tags.setdefault(key, value) != value:
            raise usage(f"{flag}: {safe(key, 80)} has different values")
    return tags
