"""Effects of changes to groups or policies, from the preview of the platform."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from client.api import analysis, groups
from client.errors import FrostError
from client.tables.columns import Record
from client.texts.effects import CONDITIONAL, Effect, conditional_count

if TYPE_CHECKING:
    from tui.state.context_state import Requests

Change = Mapping[str, str]
"""A change as in `iam/preview`: `change` and the ids of its resources."""


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
    for side in ("gained", "lost", *CONDITIONAL):
        merged[side] = sorted({*one.get(side, ()), *other.get(side, ())})
        counts = (int(each.get(f"{side}Count", 0)) for each in (one, other))
        merged[f"{side}Count"] = max(len(merged[side]), *counts)
    merged["inert"] = bool(one.get("inert")) and bool(other.get("inert"))
    return merged


def _weight(principal: Record) -> tuple[int, str]:
    """Sort by the number of changes, largest first."""
    changed = int(principal.get("gainedCount", 0)) + int(principal.get("lostCount", 0)) + conditional_count(principal)
    return -changed, str(principal.get("name", ""))
