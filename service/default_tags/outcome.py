"""Rules by which default tags change a resource."""

from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

from service.catalogue.resource_types import Kind, kinds

# The platform manages these kinds of a managed service; its other resources are internal.
MANAGED_FRONTENDS = frozenset({"load_balancer", "public_ip", "security_group"})
INCLUDED_KINDS = ("covered", "skipped")


class Outcome(NamedTuple):
    """`keys` to add or remove if updated, or the `reason` of a skip or failure."""

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
    """Return the kinds that an apply examines, in order."""
    return [kind for kind in kinds().values() if kind.apply in INCLUDED_KINDS]


def plan_add(
    kind: Kind, state: str, tags: Mapping[str, str], relations: Mapping[str, Any], defaults: Mapping[str, str]
) -> Outcome:
    """Decide how an apply changes a resource: it adds all missing keys, or none.

    The state is checked last, because no other reason is temporary.
    """
    if kind.apply == "skipped":
        return Outcome("skipped", str(kind.skip_reason))
    if relations and (exclusion := _exclude(kind, relations)):
        return exclusion
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
    """Decide how an undo changes a resource: it removes added keys with an unchanged value."""
    if relations and (exclusion := _exclude(kind, relations)):
        return exclusion
    unchanged = tuple(key for key in added if key in tags and tags[key] == values[key])
    if not unchanged:
        return _CHANGED_SINCE
    if state in kind.refuses_tags:
        return _INVALID_STATE
    return Outcome("updated", keys=unchanged)


def with_defaults(kind: Kind, own: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of a new resource. Its own tags win; defaults are added all or none."""
    merged = {**defaults, **own}
    return merged if len(merged) <= kind.tag_limit else dict(own)


def _exclude(kind: Kind, relations: Mapping[str, Any]) -> Outcome | None:
    """Return the outcome for managed resources and boot volumes; None for others."""
    if relations.get("managed"):
        return _PLATFORM_MANAGED
    if relations.get("owner"):
        return _PLATFORM_MANAGED if kind.name in MANAGED_FRONTENDS else _INSIDE
    if relations.get("bootVolume"):
        return _BOOT_VOLUME
    return None
