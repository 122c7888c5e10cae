"""Differences between the operations that two policy documents allow, unconditionally or under conditions."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

UNDER = {
    "conditionsChanged": "other conditions",
    "conditionalGained": "new, under conditions",
    "conditionalLost": "gone, was under conditions",
}
"""Members of the response with operations that are conditional before or after, and the texts for them."""


class Changes(NamedTuple):
    """Changed operations, each with a note, which may be empty.

    `gained` and `lost` do not depend on the request. `under` change only under conditions.
    """

    gained: Mapping[str, str]
    lost: Mapping[str, str]
    under: Mapping[str, str]

    @property
    def conditional(self) -> str:
        """The number of conditional changes and their kind; empty if there are none."""
        notes = list(self.under.values())
        new, gone = (notes.count(UNDER[member]) for member in ("conditionalGained", "conditionalLost"))
        return conditional_text(len(notes), new, gone)


def conditional_text(total: int, new: int, gone: int) -> str:
    """Format the number of conditional changes; separately if all are new or all are removed."""
    if not total:
        return ""
    if new == total:
        return f"{total:,} new under conditions"
    return f"{total:,} gone that had conditions" if gone == total else f"{total:,} under conditions changed"


def changes(effect: Mapping[str, Any]) -> Changes:
    """Return the changes on a target, from the comparison in the response of `iam/coverage`."""
    under = {operation: note for member, note in UNDER.items() for operation in effect.get(member) or ()}
    return Changes(
        _noted(effect.get("gained"), effect.get("nowUnconditional"), "was under conditions"),
        _noted(effect.get("lost"), effect.get("nowConditional"), "now under conditions"),
        under,
    )


def _noted(operations: Iterable[str] | None, some: Iterable[str] | None, note: str) -> dict[str, str]:
    marked = frozenset(some or ())
    return {operation: note if operation in marked else "" for operation in operations or ()}
