"""The actions of the places about activity: the entries of a tenant, of one thing in it, and of its organization."""

from collections.abc import Mapping

from client.records import Record
from tui.action import Action, Command, Situation, kind_and_id, line

MANAGERS = ("owner", "admin")
ACTIVITY_NEEDS_A_PERSON = "this context works with an API key; the activity needs a person who is signed in"
ACTIVITY_NEEDS_A_MANAGER = "only an owner or admin of the organization sees what was done there"

WAYS: Mapping[str, str] = {
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
"""The place that shows a thing of a kind."""
_KEPT_OF = ("api_key", "workload_identity", "group")


def way_to(record: Record) -> str:
    """The place of what an entry is about; empty when no place shows it."""
    kind, operation = str(record.get("targetKind") or ""), str(record.get("operation") or "")
    asked = str(record.get("target") or "")
    if kind == "tenant" and (operation.startswith("default_tags.") or "/default-tags" in asked):
        return "default-tags"
    if operation.startswith("quota_request."):
        return "quotas"
    return WAYS.get(kind, "")


def listed_as(record: Record) -> str:
    """What tells the thing of an entry apart in its place; empty where the place as a whole shows it."""
    kind, identifier, place = str(record.get("targetKind") or ""), str(record.get("targetId") or ""), way_to(record)
    if place == "access":
        return f"{kind}:{identifier}"
    if place == "quotas":  # a request is about a type, and that is its name
        return str(record.get("targetName") or "") if kind == "quota_request" else ""
    return identifier if place != "default-tags" and kind != "user" else ""


def thing(situation: Situation) -> str:
    """What the place shows as the log names it (`policy:ID`); empty when nothing is kept about that."""
    record = situation.record or {}
    match situation.place:
        case "policies":
            return _named("policy", record.get("id"))
        case "versions":
            return _named("policy", situation.subject)
        case "groups":
            return _named("group", record.get("id"))
        case "api-keys":
            return _named("api_key", record.get("id"))
        case "tenants":
            return _named("tenant", record.get("id"))
        case "default-tags" | "tag-versions" | "apply-runs":
            return _named("tenant", situation.tenant)
        case "requests":
            return _named("quota_request", record.get("id"))
        case "members" | "attachments" | "who":
            kind, identifier = kind_and_id(record)
            return _named(kind, identifier) if kind in _KEPT_OF else ""
        case "activity" | "activity-of" | "organization-activity":
            kind = str(record.get("targetKind") or "")
            return _named(kind, record.get("targetId")) if kind != "organization" else ""
    return ""


def _named(kind: str, identifier: object) -> str:
    return f"{kind}:{identifier}" if identifier else ""


# --- reasons ---------------------------------------------------------------------------------------------------------


def readable(situation: Situation) -> str:
    """Why the log cannot be read; the platform has the last word where the role is not known yet."""
    if situation.keyed:
        return ACTIVITY_NEEDS_A_PERSON
    if situation.role and situation.role not in MANAGERS:
        return ACTIVITY_NEEDS_A_MANAGER
    return "" if situation.tenant else "no tenant is in use"


def of_this(situation: Situation) -> str:
    """Why there are no entries to be shown of what is under the cursor."""
    if reason := readable(situation):
        return reason
    if not thing(situation):
        return "nothing is kept in the log about what is shown here"
    record = situation.record or {}
    tenant = record.get("id") if situation.place == "tenants" else record.get("tenantId", situation.tenant)
    return "" if tenant in (None, "", situation.tenant) else "it belongs to another tenant: use that one first"


def _on_one(situation: Situation) -> str:
    return readable(situation) or ("" if situation.record is not None else "nothing is selected")


def _to_target(situation: Situation) -> str:
    if reason := _on_one(situation):
        return reason
    record = situation.record or {}
    return "" if way_to(record) else f"no place shows {str(record.get('targetKind') or record.get('target'))[:40]}"


# --- commands --------------------------------------------------------------------------------------------------------

ACTIVITY = ("tenant", "activity")


def of_this_line(situation: Situation) -> str:
    """The command that lists the entries about what is under the cursor."""
    return line(*ACTIVITY, "--target", found) if (found := thing(situation)) else ""


def _list(*flags: str) -> Command:
    return lambda _: line(*ACTIVITY, *flags)


def _of_subject(*flags: str) -> Command:
    return lambda situation: line(*ACTIVITY, "--target", situation.subject, *flags) if situation.subject else ""


def _actions(scope: str, command: Command, older: Command) -> tuple[Action, ...]:
    return (
        Action(
            f"{scope}.show",
            "Show entry",
            (),
            reason=_on_one,
            command=command,
            help="Who, with what, and what changed; Enter does the same",
            of_named=True,
        ),
        Action(
            f"{scope}.target",
            "Go to what it is about",
            ("t",),
            "target",
            reason=_to_target,
            help="The policy, group, key, tags or quotas that the entry is about",
        ),
        Action(
            f"{scope}.older",
            "Older entries",
            ("m",),
            reason=readable,
            command=older,
            help="As many again, further back",
        ),
    )


ACTIVITY_ACTIONS: tuple[Action, ...] = (
    *_actions("activity", _list(), _list("--all")),
    Action(
        "activity.organization",
        "Activity of the organization",
        ("o",),
        "organization",
        reason=readable,
        command=_list("--org"),
        help="What was done outside of its tenants",
    ),
    *_actions("activity-of", _of_subject(), _of_subject("--all")),
    *_actions("organization-activity", _list("--org"), _list("--org", "--all")),
)
