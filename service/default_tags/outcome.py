"""What default tags do to a resource: the rules, once, for apply, its preview, its undo, and creation.

contract: `tenant default-tags apply` semantics 1 to 3; checklist L01 to L14, D26, D27
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

from service.catalogue.resource_types import Kind, kinds

# What a managed service makes for itself to be reached by: its own, like the platform's. The rest is inside of it.
MANAGED_FRONTENDS = frozenset({"load_balancer", "public_ip", "security_group"})
INCLUDED_KINDS = ("covered", "skipped")


class Outcome(NamedTuple):
    """What becomes of one resource: `keys` are those it gets (or loses) when updated, `reason` says why it does not."""

    what: Literal["updated", "unchanged", "skipped", "failed"]
    reason: str = ""
    keys: tuple[str, ...] = ()


UNCHANGED = Outcome("unchanged")
_INVALID_STATE = Outcome("failed", "invalid_state")
_PLATFORM_MANAGED = Outcome("skipped", "platform_managed")
_INSIDE = Outcome("skipped", "inside_managed_service")
_BOOT_VOLUME = Outcome("skipped", "boot_volume")
_TAG_BUDGET = Outcome("skipped", "tag_budget")
_CHANGED_SINCE = Outcome("skipped", "changed_since")
GONE = Outcome("skipped", "gone")


def examined_kinds() -> list[Kind]:
    """The kinds an apply goes through and lists in its result, in its order. checklist L13, L14"""
    return [kind for kind in kinds().values() if kind.apply in INCLUDED_KINDS]


def plan_add(
    kind: Kind, state: str, tags: Mapping[str, str], relations: Mapping[str, Any], defaults: Mapping[str, str]
) -> Outcome:
    """What an apply does with a resource: all keys it lacks, or none of them.

    What can never be tagged is skipped whatever it lacks; a state that takes no tags now only counts where something
    is missing, and comes last, because it passes and the other reasons stay.
    """
    if kind.apply == "skipped":
        return Outcome("skipped", str(kind.skip_reason))
    if relations and (never := _excluded(kind, relations)):
        return never
    missing = tuple(key for key in defaults if key not in tags)
    if not missing:
        return UNCHANGED
    if len(tags) + len(missing) > kind.tag_limit:
        return _TAG_BUDGET
    if state in kind.refuses_tags:
        return _INVALID_STATE
    return Outcome("updated", keys=missing)


def plan_remove(
    kind: Kind,
    state: str,
    tags: Mapping[str, str],
    relations: Mapping[str, Any],
    added: Collection[str],
    values: Mapping[str, str],
) -> Outcome:
    """What the undo of an apply does with a resource it added keys to: only what is still as it was added goes."""
    if relations and (never := _excluded(kind, relations)):
        return never
    still = tuple(key for key in added if key in tags and tags[key] == values[key])
    if not still:
        return _CHANGED_SINCE
    if state in kind.refuses_tags:
        return _INVALID_STATE
    return Outcome("updated", keys=still)


def with_defaults(kind: Kind, own: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The tags of a new resource: its own win, and where the missing defaults do not all fit, none is added."""
    merged = {**defaults, **own}
    return merged if len(merged) <= kind.tag_limit else dict(own)


def _excluded(kind: Kind, relations: Mapping[str, Any]) -> Outcome | None:
    """Why a resource is not the tenant's to tag, or was made together with another. checklist L06 to L08"""
    if relations.get("managed"):
        return _PLATFORM_MANAGED
    if relations.get("owner"):
        return _PLATFORM_MANAGED if kind.name in MANAGED_FRONTENDS else _INSIDE
    if relations.get("bootVolume"):
        return _BOOT_VOLUME
    return None
