"""Effects of changes: operations gained, lost, or changed under conditions; by document and by principal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from client.tables.iam import distinct_names
from client.text import safe

if TYPE_CHECKING:
    from client.models.analysis import PrincipalEffect

CONDITIONAL = {
    "conditionalLost": "lost, was conditional",
    "narrowed": "more conditions",
    "conditionsChanged": "changed conditions",
    "widened": "fewer conditions",
    "conditionalGained": "new, conditional",
}
"""Members of `iam/preview` with conditional operations, and the texts for them."""
UNDER = {name: CONDITIONAL[name] for name in ("conditionsChanged", "conditionalGained", "conditionalLost")}
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
        return f"{total:,} new conditional"
    return f"{total:,} conditional lost" if gone == total else counted(total, "conditional change")


def changes(effect: Mapping[str, Any]) -> Changes:
    """Return the changes on a target, from the comparison in the response of `iam/coverage`."""
    under = {operation: note for member, note in UNDER.items() for operation in effect.get(member) or ()}
    return Changes(
        _with_notes(effect.get("gained"), effect.get("nowUnconditional"), "was conditional"),
        _with_notes(effect.get("lost"), effect.get("nowConditional"), "now conditional"),
        under,
    )


def _with_notes(operations: Iterable[str] | None, some: Iterable[str] | None, note: str) -> dict[str, str]:
    marked = frozenset(some or ())
    return {operation: note if operation in marked else "" for operation in operations or ()}


# --- effects on keys and identities -----------------------------------------------------------------------------------

Principal = Mapping[str, Any]
"""A key or an identity in the response of `iam/preview`: its name and state, and operations with their counts."""

NO_EFFECT = "no key or identity gains or loses an operation"
INERT = "loses its last permission; its next request is denied"
UNRESTRICTED = "last policy removed, so limited only by scopes and the creator's permissions"
_NOTES = {"lost": "lost", "gained": "gained", **CONDITIONAL}
_SIGNS = {"lost": "-", "gained": "+"}
_ORDER = ("lost", "conditionalLost", "narrowed", "gained", "conditionalGained", "widened", "conditionsChanged")
"""Most important first."""


def is_affected(principal: Principal) -> bool:
    return is_left_inert(principal) or any(principal.get(f"{member}Count") for member in _ORDER)


def is_left_inert(principal: Principal) -> bool:
    """Return whether the change removes the last permission."""
    return bool(principal.get("inert") and principal.get("policiesBefore"))


def is_unrestricted(principal: Principal) -> bool:
    """Return whether the change removes the last policy of an API key, which then restricts it no more."""
    return bool(
        principal.get("type") == "api_key" and principal.get("policiesBefore") and not principal.get("policiesAfter")
    )


def conditional_count(principal: Principal) -> int:
    """Return the number of operations gained, lost or changed under conditions."""
    return sum(int(principal.get(f"{member}Count", 0)) for member in CONDITIONAL)


class Effect(NamedTuple):
    """The effect of a change on each API key and workload identity."""

    principals: Sequence["PrincipalEffect"] = ()
    problem: str = ""
    """Why the effect is unknown; empty if it is known."""
    refused: str = ""
    """Why the platform would refuse the change; empty if it would not."""

    @property
    def gained(self) -> int:
        """Unconditional operations gained, over all principals."""
        return sum(principal.gained_count for principal in self.principals)

    @property
    def lost(self) -> int:
        """Unconditional operations lost, over all principals."""
        return sum(principal.lost_count for principal in self.principals)

    @property
    def under(self) -> int:
        """Conditional operations, gained, lost or changed, over all principals."""
        return sum(principal.conditional_count for principal in self.principals)

    @property
    def takes(self) -> bool:
        """Whether a principal loses operations or becomes inert."""
        lost = (principal.lost_count or principal.conditional_lost_count for principal in self.principals)
        return any(lost) or bool(self.inert)

    @property
    def inert(self) -> int:
        """Number of identities without any permission afterwards."""
        return sum(principal.inert for principal in self.principals)

    @property
    def summary(self) -> str:
        """The numbers in one line."""
        if self.problem:
            return f"unknown: {self.problem}"
        if not self.principals:
            return NO_EFFECT
        number = counted(len(self.principals), "key or identity", "keys and identities")
        change = [f"+{self.gained:,} gained"] if self.gained else []
        change += [f"−{self.lost:,} lost"] if self.lost else []
        new = sum(principal.conditional_gained_count for principal in self.principals)
        gone = sum(principal.conditional_lost_count for principal in self.principals)
        change += [f"~{conditional_text(self.under, new, gone)}"] if self.under else []
        inert = f"; {self.inert:,} left inert" if self.inert else ""
        return f"{number}: {', '.join(change) or 'nothing gained, nothing lost'}{inert}"

    @property
    def note(self) -> str:
        """Why a key gains or loses more than the change: its first policy restricts it, its last one frees it."""
        keys = [principal for principal in self.principals if principal.type == "api_key"]
        freed = [key for key in keys if is_unrestricted(key.wire())]
        restricted = [key for key in keys if not key.policies_before and key.policies_after]
        notes = [f"{_names(freed)}: {UNRESTRICTED}."] if freed else []
        notes += [f"{_names(restricted)}: the first policy limits scopes and role further."] if restricted else []
        return " ".join(notes)


def effect_lines(principals: Iterable[Principal]) -> list[str]:
    """Return each affected key or identity, followed by a line for each of its effects."""
    lines = []
    affected = list(filter(is_affected, principals))
    names = distinct_names((str(one.get("name") or one.get("id")), str(one.get("id"))) for one in affected)
    for principal, name in zip(affected, names, strict=True):
        lines.append(f"  {principal.get('type')} {safe(name, 60)}")
        lines += [f"    {text}" for text in _principal_lines(principal)]
    return lines


def _principal_lines(principal: Principal) -> Iterator[str]:
    if is_left_inert(principal):
        yield INERT
    if is_unrestricted(principal):
        yield UNRESTRICTED
    for member in _ORDER:
        if count := principal.get(f"{member}Count"):
            yield f"{_SIGNS.get(member, '~')}{count:,} {_NOTES[member]}: {_first(count, principal.get(member) or ())}"


def _first(count: int, names: Sequence[object]) -> str:
    """Return the name of the first operation and the number of others."""
    first = safe(names[0], 80) if names else ""
    return f"{first} and {count - 1:,} more" if count > 1 else first


def _names(principals: Sequence["PrincipalEffect"]) -> str:
    more = f" and {len(principals) - 1:,} more" if len(principals) > 1 else ""
    return f"{principals[0].name}{more}"


def counted(number: int, one: str, many: str = "") -> str:
    """Return `1 key`, `3 keys`; `many` is the plural if it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
