"""Targets of the activity log: that of the record under the cursor, and the screen that shows a target."""

from __future__ import annotations

from collections.abc import Mapping

from client.tables.columns import Record, kind_and_id
from tui.shell.action import ActionContext, line
from tui.shell.guards import all_of, has_tenant, is_manager, requires_user

ACTIVITY_NEEDS_A_PERSON = "this context works with an API key; the activity needs a signed-in user"
ACTIVITY_NEEDS_A_MANAGER = "only an owner or admin of the organization sees its activity"


TARGET_SCREENS: Mapping[str, str] = {
    "policy": "policies",
    "group": "groups",
    "api_key": "api-keys",
    "workload_identity": "access",
    "tenant": "tenants",
    "quota_request": "quotas",
    "organization": "account",
    "session": "sessions",
    "user": "account",
}
"""The screen that shows a kind of target."""


LOGGED_MEMBERS = ("api_key", "workload_identity", "group")


def screen_of_target(record: Record) -> str:
    """Return the screen that shows the target of a log entry; empty if there is none."""
    kind, operation = str(record.get("targetKind") or ""), str(record.get("operation") or "")
    target = str(record.get("target") or "")
    if kind == "tenant" and (operation.startswith("default_tags.") or "/default-tags" in target):
        return "default-tags"
    if operation.startswith("quota_request."):
        return "quotas"
    return TARGET_SCREENS.get(kind, "")


def record_id_of_target(record: Record) -> str:
    """Return the id of an entry's target on its screen; empty if the screen as a whole shows it."""
    kind, identifier, screen = (
        str(record.get("targetKind") or ""),
        str(record.get("targetId") or ""),
        screen_of_target(record),
    )
    if screen == "access":
        return f"{kind}:{identifier}"
    if screen == "quotas":  # quota requests are listed by resource type, the name of the target
        return str(record.get("targetName") or "") if kind == "quota_request" else ""
    return identifier if screen != "default-tags" and kind != "user" else ""


def target_of(context: ActionContext) -> str:
    """Return the target that the screen shows, as in the log (`policy:ID`); empty if the log has no entries for it."""
    record = context.record or {}
    match context.screen:
        case "policies":
            return _named("policy", record.get("id"))
        case "versions":
            return _named("policy", context.subject)
        case "groups":
            return _named("group", record.get("id"))
        case "api-keys":
            return _named("api_key", record.get("id"))
        case "tenants":
            return _named("tenant", record.get("id"))
        case "default-tags" | "tag-versions" | "apply-runs":
            return _named("tenant", context.tenant)
        case "requests":
            return _named("quota_request", record.get("id"))
        case "members" | "attachments" | "who":
            kind, identifier = kind_and_id(record)
            return _named(kind, identifier) if kind in LOGGED_MEMBERS else ""
        case "activity" | "activity-of" | "organization-activity":
            kind = str(record.get("targetKind") or "")
            return _named(kind, record.get("targetId")) if kind != "organization" else ""
    return ""


def _named(kind: str, identifier: object) -> str:
    return f"{kind}:{identifier}" if identifier else ""


can_read_activity = all_of(requires_user(ACTIVITY_NEEDS_A_PERSON), is_manager(ACTIVITY_NEEDS_A_MANAGER), has_tenant)
"""Requires that the log can be read. While the role is unknown, the platform decides."""


def has_activity(context: ActionContext) -> str:
    """Return why no entries can be shown for the record under the cursor."""
    if reason := can_read_activity(context):
        return reason
    if not target_of(context):
        return "the activity log has no entries about this record"
    record = context.record or {}
    tenant = record.get("id") if context.screen == "tenants" else record.get("tenantId", context.tenant)
    return (
        "" if tenant in (None, "", context.tenant) else "this record belongs to another tenant: use that tenant first"
    )


ACTIVITY = ("tenant", "activity")


def activity_command(context: ActionContext) -> str:
    """Return the command that lists the entries about the record under the cursor."""
    return line(*ACTIVITY, "--target", target) if (target := target_of(context)) else ""
