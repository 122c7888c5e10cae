"""How the operations of a policy document change against another: in effect for certain, or under conditions."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

UNDER = {
    "conditionsChanged": "other conditions",
    "conditionalGained": "new, under conditions",
    "conditionalLost": "gone, was under conditions",
}
"""Members of the wire with operations that some fact decides before or after, and what happens to them."""


class Changes(NamedTuple):
    """Operations, each with a note; empty where there is nothing to say besides.

    `gained` and `lost` are certain: whatever is not known of a request. `under` change under conditions only.
    """

    gained: Mapping[str, str]
    lost: Mapping[str, str]
    under: Mapping[str, str]

    @property
    def words(self) -> str:
        """The number of those under conditions and what happens to them; empty where there are none."""
        notes = list(self.under.values())
        new, gone = (notes.count(UNDER[member]) for member in ("conditionalGained", "conditionalLost"))
        return under_words(len(notes), new, gone)


def under_words(total: int, new: int, gone: int) -> str:
    """How many change under conditions only; where all are new, or all gone, that is said and not that they changed."""
    if not total:
        return ""
    if new == total:
        return f"{total:,} new under conditions"
    return f"{total:,} gone that had conditions" if gone == total else f"{total:,} under conditions changed"


def changes(effect: Mapping[str, Any]) -> Changes:
    """The changes on one target out of the answer of `iam/coverage` to a comparison."""
    under = {operation: note for member, note in UNDER.items() for operation in effect.get(member) or ()}
    return Changes(
        _noted(effect.get("gained"), effect.get("nowUnconditional"), "was under conditions"),
        _noted(effect.get("lost"), effect.get("nowConditional"), "now under conditions"),
        under,
    )


def _noted(operations: Iterable[str] | None, some: Iterable[str] | None, note: str) -> dict[str, str]:
    marked = frozenset(some or ())
    return {operation: note if operation in marked else "" for operation in operations or ()}
