"""Rules of default tags: valid sets, tenants and providers, and how default tags change a resource."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

from client.models import validation
from service import errors
from service.catalogue.resource_types import Kind, kinds
from service.errors import ApiError

# First version of the infrastructure-as-code provider with default tags.
MIN_PROVIDER = (0, 62, 0)
_VERSION = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
# The platform manages these kinds of a managed service; its other resources are internal.
MANAGED_FRONTENDS = frozenset({"load_balancer", "public_ip", "security_group"})
INCLUDED_KINDS = ("covered", "skipped")


def read_set(value: Any) -> dict[str, str]:
    """Validate the tags of a request; return them sorted by key.

    Raises:
        ApiError: 400 INVALID_INPUT for the first problem.
    """
    if isinstance(value, dict):
        for key, text in value.items():
            if text is None:
                raise errors.invalid_input(f'"tags": the value of "{key[:80]}" is null', member="tags", key=key)
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise errors.invalid_input('"tags" must be an object of string values', member="tags", reason="type")
    if problem := validation.problem_of_set(value):
        details: dict[str, Any] = {"reason": problem.reason}
        if problem.reason == "count":
            details |= {"max": validation.MOST, "count": len(value)}
        else:
            details |= {"key": problem.key}
        if problem.index is not None:
            details |= {"index": problem.index}
        raise errors.invalid_input(problem.message, member="tags", **details)
    return in_order(value)


def in_order(stored: Mapping[str, str]) -> dict[str, str]:
    """Return tags sorted by key; JSON columns do not keep the order."""
    return dict(sorted(stored.items()))


def require_good(stored: Mapping[str, str]) -> None:
    """Check stored tags; an older version may have allowed others.

    Raises:
        ApiError: 422 INVALID_DEFAULT_TAGS, or 400 NOTHING_TO_APPLY without tags.
    """
    if not stored:
        raise ApiError(400, "NOTHING_TO_APPLY", "this tenant has no default tags", hint="set default tags first")
    if problem := validation.problem_of_set(stored):
        raise ApiError(
            422,
            "INVALID_DEFAULT_TAGS",
            f"the tenant's default tags cannot be applied: {problem.message}",
            details={"reason": problem.reason, "key": problem.key},
            hint="set the default tags again",
        )


def require_provisioned(status: str) -> None:
    """Check that a tenant is active.

    Raises:
        ApiError: 400 TENANT_NOT_PROVISIONED.
    """
    if status != "active":
        raise ApiError(
            400,
            "TENANT_NOT_PROVISIONED",
            "your tenant is still being set up; please try again in a moment",
            details={"status": status},
        )


def require_new_provider(version: str | None) -> None:
    """Refuse a provider that would remove default tags. A version that cannot be parsed passes.

    Raises:
        ApiError: 400 PROVIDER_TOO_OLD.
    """
    match = _VERSION.fullmatch(version or "")
    if match is None:
        return
    number = tuple(int(part) for part in match.groups()[:3])
    # A pre-release precedes its version.
    if number < MIN_PROVIDER or (number == MIN_PROVIDER and match[4]):
        oldest = ".".join(map(str, MIN_PROVIDER))
        raise ApiError(
            400,
            "PROVIDER_TOO_OLD",
            f"this tenant has default tags, which provider version {version} does not support; use {oldest} or newer",
            details={"version": version, "minimum": oldest},
            hint="upgrade the provider, or clear the tenant's default tags",
        )


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
