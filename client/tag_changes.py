"""Difference and merge of tag sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


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
