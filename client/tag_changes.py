"""The difference between two sets of tags, and one set laid over another. Source: checklist D05, D31."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class TagChanges(NamedTuple):
    """What turns one set into another, by key in alphabetical order; `changed` has the value before and after."""

    added: Mapping[str, str]
    changed: Mapping[str, tuple[str, str]]
    removed: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def lines(self) -> list[str]:
        """`+ env=prod`, `~ team=b (was a)`, `- old=1`: sorted by key, as people compare sets."""
        told = {key: f"+ {key}={value}" for key, value in self.added.items()}
        told |= {key: f"~ {key}={after} (was {before or 'empty'})" for key, (before, after) in self.changed.items()}
        told |= {key: f"- {key}={value}" for key, value in self.removed.items()}
        return [told[key] for key in sorted(told)]

    def document(self) -> dict[str, dict[str, object]]:
        """The same as JSON."""
        return {
            "added": dict(self.added),
            "changed": {key: {"from": before, "to": after} for key, (before, after) in self.changed.items()},
            "removed": dict(self.removed),
        }


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> TagChanges:
    """What was added, changed and removed between two sets."""
    return TagChanges(
        {key: after[key] for key in sorted(after) if key not in before},
        {key: (before[key], after[key]) for key in sorted(after) if key in before and before[key] != after[key]},
        {key: before[key] for key in sorted(before) if key not in after},
    )


def merged(stored: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The stored set with the given tags in it: a given key takes the given value (contract: --merge)."""
    return {**stored, **given}
