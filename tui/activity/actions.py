"""Actions of the activity screens."""

from tui.shell.action import Action, ActionContext, Command, line
from tui.shell.audit_target import ACTIVITY, readable, way_to

# --- reasons ---------------------------------------------------------------------------------------------------------


def _on_one(context: ActionContext) -> str:
    return readable(context) or ("" if context.record is not None else "nothing is selected")


def _to_target(context: ActionContext) -> str:
    if reason := _on_one(context):
        return reason
    record = context.record or {}
    return "" if way_to(record) else f"no screen shows {str(record.get('targetKind') or record.get('target'))[:40]}"


# --- commands --------------------------------------------------------------------------------------------------------


def _list(*flags: str) -> Command:
    return lambda _: line(*ACTIVITY, *flags)


def _of_subject(*flags: str) -> Command:
    return lambda context: line(*ACTIVITY, "--target", context.subject, *flags) if context.subject else ""


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
