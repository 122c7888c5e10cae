"""Texts about applying default tags: reasons, states, times, next steps after a failure. No I/O.

Reasons are an open set: an unknown one is shown as sent.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from client import times
from client.models.apply_counts import OUTCOMES, separate_unlisted
from client.operations import is_undo
from client.tables.columns import parse_time
from client.tables.default_tags import by_type
from client.texts.effects import counted

REASONS = {
    "platform_managed": "the platform manages it",
    "tag_budget": "over its tag limit with the added tags",
    "inside_managed_service": "inside a managed service",
    "boot_volume": "boot volume, created with its instance",
    "image": "images are not tagged",
    "instance_snapshot": "instance snapshots are not tagged",
    "load_balancer_child": "part of a load balancer",
    "changed_since": "its tags have changed since",
    "gone": "it no longer exists",
    "invalid_state": "its state does not allow tags now",
    "backend_unavailable": "its service could not be reached",
}
SHORT = {
    "platform_managed": "platform-managed",
    "tag_budget": "over its tag limit",
    "inside_managed_service": "managed service",
    "boot_volume": "boot volume",
    "image": "image",
    "instance_snapshot": "instance snapshot",
    "load_balancer_child": "in a load balancer",
    "changed_since": "changed since",
    "gone": "deleted",
    "invalid_state": "invalid state",
    "backend_unavailable": "service unreachable",
}
"""Short reasons, for tables."""
AGAIN = {"invalid_state": "apply again once it is ready", "backend_unavailable": "apply again later"}
"""Next steps after a failure of a resource."""
STARTING = {
    "TENANT_NOT_PROVISIONED": "Wait until the tenant is active; the Tenants screen shows the steps.",
    "INVALID_DEFAULT_TAGS": "Fix the tag in Default tags and save, then apply again.",
    "NOTHING_TO_APPLY": "Add a tag in Default tags and save, then apply.",
    "FORBIDDEN": "Ask an owner or admin of the organization.",
}
"""Next steps by error code, if an apply cannot start."""
ENDED = {
    "Unavailable": "Nothing was applied: apply again shortly.",
    "forbidden": "An owner or admin of the organization can apply again; it adds only missing tags.",
    "cancelled": "Ask the operator of the platform why. Applying again is safe: it adds only missing tags.",
    "WORKFLOW_ERROR": "Apply again. If the apply fails again, check the platform's log.",
}
"""Next steps by error code, if a whole run failed."""
NO_RESULT = "completed without a result: the changes are unknown"


def reason_text(reason: object) -> str:
    return REASONS.get(str(reason), str(reason))


def short_reason(reason: object) -> str:
    return SHORT.get(str(reason), str(reason))


def reasons_counted(items: Iterable[Mapping[str, Any]]) -> str:
    """Count the reasons in a list: `managed service 12, an image 3`."""
    numbers = Counter(short_reason(item.get("reason", "")) for item in items)
    return ", ".join(f"{reason} {number:,}" for reason, number in numbers.most_common())


def counts(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the numbers of a run, `summary` and `byType`: its result, else its progress. Empty if unknown."""
    counts_of_run = operation.get("result") or operation.get("counts")
    return counts_of_run if isinstance(counts_of_run, Mapping) else {}


def summary(operation: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers over all types; zeros if unknown."""
    member = counts(operation).get("summary")
    numbers = separate_unlisted(member) if isinstance(member, Mapping) else {}
    names = ("examined", *OUTCOMES, "unlisted")
    return {name: numbers[name] if isinstance(numbers.get(name), int) else 0 for name in names}


def type_failures(operation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the failures of whole types, whose resources could not be listed and were not examined."""
    failures = counts(operation).get("failures")
    items = failures if isinstance(failures, list) else []
    return [one for one in items if isinstance(one, Mapping) and not one.get("resourceId")]


def unlisted_types(operation: Mapping[str, Any]) -> list[str]:
    """Return the types that could not be listed. The list of failures may be cut, the numbers are complete."""
    counted_types = [str(row["resourceType"]) for row in by_type(counts(operation)) if row.get("unlisted")]
    failed_types = [str(one.get("resourceType", "")) for one in type_failures(operation)]
    return list(dict.fromkeys((*counted_types, *failed_types)))


def unlisted_text(operation: Mapping[str, Any]) -> str:
    """Format types that could not be listed: `2 types not examined, they could not be listed: secret, share`."""
    names = unlisted_types(operation)
    if not names:
        return ""
    what = "1 type not examined, because it" if len(names) == 1 else f"{len(names)} types not examined, because they"
    return f"{what} could not be listed: {', '.join(names)}"


def result_sentence(operation: Mapping[str, Any]) -> str:
    """Format the numbers of a run: `120 of 3,011 resources updated; 4 failed; 1 type could not be listed`."""
    numbers = summary(operation)
    verb = "lost the tags added by the run" if is_undo(operation) else "updated"
    failed = f"; {numbers['failed']:,} failed" if numbers["failed"] else ""
    unlisted = f"; {counted(numbers['unlisted'], 'type')} could not be listed" if numbers["unlisted"] else ""
    return f"{numbers['updated']:,} of {counted(numbers['examined'], 'resource')} {verb}{failed}{unlisted}"


class TypePreview(NamedTuple):
    """The preview of a run for one resource type."""

    name: str
    numbers: str
    """`120 would change, 3 skipped, 1 would fail`."""
    reasons: str
    """Reasons of skips and failures, in their short form."""


def preview_by_type(result: Mapping[str, Any], verb: str) -> list[TypePreview]:
    """Return the types with changes, skips or failures, sorted by name. `verb` is for example `would change`."""
    items = [one for member in ("skipped", "failures") for one in result.get(member) or () if isinstance(one, Mapping)]
    unlisted = unlisted_types({"result": result})
    previews = []
    for row in by_type(result):
        name = str(row["resourceType"])
        numbers = [f"{row['updated']:,} {verb}"] if row.get("updated") else []
        numbers += [f"{row['skipped']:,} skipped"] if row.get("skipped") else []
        numbers += [f"{row['failed']:,} would fail"] if row.get("failed") else []
        if name in unlisted:
            numbers.append("not examined, because the type could not be listed")
        reasons = dict.fromkeys(short_reason(one.get("reason")) for one in items if one.get("resourceType") == name)
        if numbers:
            previews.append(TypePreview(name, ", ".join(numbers), ", ".join(reasons)))
    return previews


def elapsed(operation: Mapping[str, Any], now: datetime | None = None) -> str:
    """Format the duration of a run until now, `1:02:03`, `0:42` or `under 1 s`; empty before its start."""
    begun = parse_time(operation.get("startedAt")) or parse_time(operation.get("createdAt"))
    end = parse_time(operation.get("completedAt"))
    if begun is None:
        return ""
    if end is None:
        end = now or times.now()
    seconds = max(0, int((end - begun).total_seconds()))
    if not seconds and operation.get("completedAt"):
        return "under 1 s"
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"


def parse_step(step: object) -> tuple[str, int, int] | None:
    """Parse a step such as `instance (8/14)`: type, its number, number of types; None if it has no numbers."""
    kind, _, among = str(step or "").partition(" (")
    position, _, number = among.rstrip(")").partition("/")
    if not (position.isascii() and position.isdigit() and number.isascii() and number.isdigit()):
        return None
    return kind, int(position), int(number)


def next_step(error_code: object, known: Mapping[str, str], otherwise: str) -> str:
    return known.get(str(error_code), otherwise)


def completion_message(operation: Mapping[str, Any], tenant: str) -> tuple[str, bool]:
    """Return the message for the end of a run, and whether the run failed."""
    verb = "undone" if is_undo(operation) else "applied"
    if operation.get("status") != "completed":
        why = operation.get("error") or f"{operation.get('status')} without a reason"
        not_all = "not all" if summary(operation)["updated"] else "not"
        return f"{tenant}: default tags were {not_all} {verb}: {why}\n{failure_hint(operation)}", True
    if not operation.get("result"):
        return f"{tenant}: the run {NO_RESULT}", True
    return f"{tenant}: default tags {verb}: {result_sentence(operation)}", False


def failure_hint(operation: Mapping[str, Any]) -> str:
    return next_step(operation.get("errorCode"), ENDED, "Applying again is safe: it adds only missing tags.")
