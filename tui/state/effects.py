"""Effects of changes to groups or policies, from the preview of the platform."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from client.api import analysis, groups
from client.errors import FrostError
from client.tables.columns import Record
from client.texts.effects import conditional_text

if TYPE_CHECKING:
    from tui.state.requests import Requests

Change = Mapping[str, str]
"""A change as in `iam/preview`: `change` and the ids of its resources."""
UNDER = {
    "conditionalLost": "gone, was under conditions",
    "narrowed": "more conditions",
    "conditionsChanged": "other conditions",
    "widened": "fewer conditions",
    "conditionalGained": "new, under conditions",
}
"""Members of `iam/preview` with conditional operations, and their meaning."""


class Effect(NamedTuple):
    """The effect of a change on each API key and workload identity."""

    principals: Sequence[Record] = ()
    problem: str = ""
    """Why the effect is unknown; empty if it is known."""
    refused: str = ""
    """Why the platform would refuse the change; empty if it would not."""

    @property
    def gained(self) -> int:
        """Unconditional operations gained, over all principals."""
        return sum(int(one.get("gainedCount", 0)) for one in self.principals)

    @property
    def lost(self) -> int:
        """Unconditional operations lost, over all principals."""
        return sum(int(one.get("lostCount", 0)) for one in self.principals)

    @property
    def under(self) -> int:
        """Conditional operations, gained, lost or changed, over all principals."""
        return sum(map(under, self.principals))

    @property
    def takes(self) -> bool:
        """Whether a principal loses operations or becomes inert."""
        return any(one.get(f"{side}Count") for one in self.principals for side in ("lost", "conditionalLost")) or bool(
            self.inert
        )

    @property
    def inert(self) -> int:
        """Number of identities without any permission afterwards."""
        return sum(bool(one.get("inert")) for one in self.principals)

    @property
    def words(self) -> str:
        """The numbers in one line."""
        if self.problem:
            return f"not known: {self.problem}"
        if not self.principals:
            return "no key and no identity is touched"
        touched = counted(len(self.principals), "key or identity", "keys and identities")
        change = [f"+{self.gained:,} gained"] if self.gained else []
        change += [f"−{self.lost:,} lost"] if self.lost else []
        new, gone = (
            sum(int(one.get(f"{side}Count", 0)) for one in self.principals)
            for side in ("conditionalGained", "conditionalLost")
        )
        change += [f"~{conditional_text(self.under, new, gone)}"] if self.under else []
        inert = f"; {self.inert:,} left inert" if self.inert else ""
        return f"{touched}: {', '.join(change) or 'nothing gained, nothing lost'}{inert}"

    @property
    def note(self) -> str:
        """Why a key gains or loses more than the change: its first policy restricts it, its last one frees it."""
        keys = [one for one in self.principals if one.get("type") == "api_key"]
        freed = [one for one in keys if one.get("policiesBefore") and not one.get("policiesAfter")]
        bound = [one for one in keys if not one.get("policiesBefore") and one.get("policiesAfter")]
        notes = (
            [f"No policy is left for {_named(freed)}: scopes and the maker's role alone decide then."] if freed else []
        )
        notes += [f"The first policy for {_named(bound)}: scopes and role are not enough any more."] if bound else []
        return " ".join(notes)


def _named(principals: Sequence[Record]) -> str:
    more = f" and {len(principals) - 1:,} more" if len(principals) > 1 else ""
    return f"{principals[0].get('name', '')}{more}"


async def effect(requests: "Requests", tenant_id: str, changes: Sequence[Change]) -> Effect:
    """Return the effect of several changes together. Errors become part of the result: the user must confirm anyway."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    refused = ""
    try:
        for change in changes:
            names = {name: value for name, value in change.items() if name != "change"}
            answer = await requests.ask(analysis.preview(tenant_id, change["change"], **names))
            if not refused and isinstance(told := answer.get("refused"), Mapping):
                refused = str(told.get("message", ""))
            for principal in answer["principals"]:
                key = (str(principal["type"]), str(principal["id"]))
                found[key] = _both(found[key], principal) if key in found else dict(principal)
        await _add_states(requests, tenant_id, found)
    except FrostError as error:
        return Effect(problem=error.message)
    return Effect(sorted(found.values(), key=_weight), refused=refused)


async def _add_states(requests: "Requests", tenant_id: str, found: Mapping[tuple[str, str], dict[str, Any]]) -> None:
    """Add current states: a revoked key has permissions, but cannot use them."""
    kinds = {kind for kind, _ in found}
    with suppress(FrostError):  # the effect is known without states
        for key in await requests.ask(groups.keys(tenant_id)) if "api_key" in kinds else ():
            _add_state(found, "api_key", key.id, key.status)
        if "workload_identity" in kinds:
            async for page in requests.pages(groups.identity_page(tenant_id)):
                for binding in page:
                    _add_state(found, "workload_identity", binding.id, "inert" if binding.inert else "active")


def _add_state(found: Mapping[tuple[str, str], dict[str, Any]], kind: str, identifier: str, state: str) -> None:
    if (principal := found.get((kind, identifier))) is not None:
        principal["status"] = state


def _both(one: dict[str, Any], other: Record) -> dict[str, Any]:
    """Merge the effects of two changes on a principal. Both may include the same operations, which add up once."""
    merged = dict(one)
    for side in ("gained", "lost", *UNDER):
        merged[side] = sorted({*one.get(side, ()), *other.get(side, ())})
        counts = (int(each.get(f"{side}Count", 0)) for each in (one, other))
        merged[f"{side}Count"] = max(len(merged[side]), *counts)
    merged["inert"] = bool(one.get("inert")) and bool(other.get("inert"))
    return merged


def _weight(principal: Record) -> tuple[int, str]:
    """Sort by the number of changes, largest first."""
    changed = int(principal.get("gainedCount", 0)) + int(principal.get("lostCount", 0)) + under(principal)
    return -changed, str(principal.get("name", ""))


def under(principal: Record) -> int:
    """Return the number of conditional operations of a principal."""
    return sum(int(principal.get(f"{side}Count", 0)) for side in UNDER)


def counted(number: int, one: str, many: str) -> str:
    """Return `1 key`, `3 keys`."""
    return f"{number:,} {one if number == 1 else many}"
