"""What is said about an apply of default tags: reasons, states, times, and what to do when a run failed. Pure.

The set of reasons is open: one nobody here knows is shown as it was sent (checklist L18).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from client import clock
from client.records import parse_time
from client.waiting import FINAL

REASONS = {
    "platform_managed": "the platform manages it",
    "tag_budget": "over its tag limit with the added tags",
    "inside_managed_service": "inside a managed service",
    "boot_volume": "boot volume, made with its instance",
    "image": "images are left alone",
    "instance_snapshot": "instance snapshots are left alone",
    "load_balancer_child": "part of a load balancer",
    "changed_since": "its tags were changed since",
    "gone": "it no longer exists",
    "invalid_state": "its state takes no tags now",
    "backend_unavailable": "its service could not be reached",
}
SHORT = {
    "platform_managed": "platform-managed",
    "tag_budget": "over its tag limit",
    "inside_managed_service": "managed service",
    "boot_volume": "boot volume",
    "image": "an image",
    "instance_snapshot": "instance snapshot",
    "load_balancer_child": "in a load balancer",
    "changed_since": "changed since",
    "gone": "no longer there",
    "invalid_state": "not in this state",
    "backend_unavailable": "out of reach",
}
"""The same in a table, where the name of the resource needs the room."""
AGAIN = {"invalid_state": "apply again once it is ready", "backend_unavailable": "apply again later"}
"""What helps against a failure."""
STARTING = {
    "TENANT_NOT_PROVISIONED": "Wait until the tenant is active; tenants shows its steps.",
    "INVALID_DEFAULT_TAGS": "Edit the tag that is named in default-tags and save; then apply again.",
    "NOTHING_TO_APPLY": "Add a tag in default-tags and save; then apply.",
    "FORBIDDEN": "Ask an owner or admin of the organization.",
}
"""By the code of a refusal to start: what to do next."""
ENDED = {
    "Unavailable": "Nothing was applied: apply again shortly.",
    "forbidden": "An owner or admin of the organization can apply again; it adds only what is missing.",
    "cancelled": "Ask the operator of the platform why. Applying again is safe: it adds only what is missing.",
    "WORKFLOW_ERROR": "Applying again tries again. If it fails again, the platform's log has the reason.",
}
"""By the code of a run that failed as a whole: what to do next."""
COUNTED = ("updated", "unchanged", "skipped", "failed")


def reason_text(reason: object) -> str:
    """A reason in words; one that is not known as it was sent."""
    return REASONS.get(str(reason), str(reason))


def short_reason(reason: object) -> str:
    """A reason in few words; one that is not known as it was sent."""
    return SHORT.get(str(reason), str(reason))


def reasons_counted(items: Iterable[Mapping[str, Any]]) -> str:
    """`managed service 12, an image 3`: how often each reason stands in a list."""
    found = Counter(short_reason(item.get("reason", "")) for item in items)
    return ", ".join(f"{words} {number:,}" for words, number in found.most_common())


def is_open(operation: Mapping[str, Any]) -> bool:
    """Whether a run may still change something."""
    return operation.get("status") not in FINAL


def is_undo(operation: Mapping[str, Any]) -> bool:
    """Whether it takes tags away that another run added; its id on the wire says so (facts 2.8)."""
    return operation.get("kind") == "undo" or str(operation.get("operationId", "")).startswith("undo-")


def counts(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a run has counted: `summary`, `byType`; of one that is over its result. Empty when nothing is told."""
    found = operation.get("result") or operation.get("counts")
    return found if isinstance(found, Mapping) else {}


def summary(operation: Mapping[str, Any]) -> dict[str, int]:
    """The counts over all types; zeros when nothing is told."""
    told = counts(operation).get("summary")
    found = told if isinstance(told, Mapping) else {}
    return {name: found[name] if isinstance(found.get(name), int) else 0 for name in ("examined", *COUNTED)}


def unlisted_types(operation: Mapping[str, Any]) -> list[str]:
    """Types that could not be listed: nothing of them was examined, and each counts 1 as failed."""
    failures = counts(operation).get("failures")
    found = failures if isinstance(failures, list) else []
    return [str(one.get("resourceType", "")) for one in found if isinstance(one, Mapping) and not one.get("resourceId")]


def unlisted_words(operation: Mapping[str, Any]) -> str:
    """`2 types not examined, they could not be listed: secret, share`; empty when every type was listed."""
    names = unlisted_types(operation)
    if not names:
        return ""
    what = "1 type not examined, it" if len(names) == 1 else f"{len(names)} types not examined, they"
    return f"{what} could not be listed: {', '.join(names)}"


def summary_words(operation: Mapping[str, Any]) -> str:
    """`1,204 updated · 30 unchanged · 12 skipped · 1 failed`."""
    found = summary(operation)
    names = {"updated": "lost tags"} if is_undo(operation) else {}
    return " · ".join(f"{found[name]:,} {names.get(name, name)}" for name in COUNTED)


def elapsed(operation: Mapping[str, Any], now: datetime | None = None) -> str:
    """How long a run takes or took, `1:02:03` or `0:42`; empty before it began."""
    begun = parse_time(operation.get("startedAt")) or parse_time(operation.get("createdAt"))
    end = parse_time(operation.get("completedAt"))
    if begun is None:
        return ""
    if end is None:
        end = now or clock.now()
    seconds = max(0, int((end - begun).total_seconds()))
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"


def place_among(step: object) -> tuple[str, int, int] | None:
    """The type at work, its place and how many there are, of a step such as `instance (8/14)` (facts 2.8)."""
    kind, _, among = str(step or "").partition(" (")
    place, _, number = among.rstrip(")").partition("/")
    if not (place.isascii() and place.isdigit() and number.isascii() and number.isdigit()):
        return None
    return kind, int(place), int(number)


def next_step(error_code: object, known: Mapping[str, str], otherwise: str) -> str:
    """What to do about a failure."""
    return known.get(str(error_code), otherwise)


def end_words(operation: Mapping[str, Any], tenant: str) -> tuple[str, bool]:
    """What is told when a run is over, and whether it went wrong as a whole."""
    verb = "undone" if is_undo(operation) else "applied"
    if operation.get("status") != "completed":
        why = operation.get("error") or f"it is {operation.get('status')}, no reason given"
        not_all = "not all" if summary(operation)["updated"] else "not"
        return f"{tenant}: default tags were {not_all} {verb}: {why}\n{failure_hint(operation)}", True
    if not operation.get("result"):
        return f"{tenant}: the run is over, but the platform tells no result: what it did is not known", True
    return f"{tenant}: default tags {verb}: {summary_words(operation)}", False


def failure_hint(operation: Mapping[str, Any]) -> str:
    """What to do about a run that failed as a whole."""
    return next_step(operation.get("errorCode"), ENDED, "Applying again is safe: it adds only what is missing.")
