"""Actions of the activity screens."""

from typing import TYPE_CHECKING

from tui.shell.action import (
    ACTIVITY,
    Action,
    ActionContext,
    Command,
    about_record,
    all_of,
    can_read_activity,
    line,
    screen_of_target,
    selected,
)

if TYPE_CHECKING:
    from client.models.tenants import Entry

# --- guards ----------------------------------------------------------------------------------------------------------


@about_record
def _has_target_screen(_: ActionContext, entry: "Entry") -> str:
    return "" if screen_of_target(entry) else f"no screen for {(entry.target_kind or entry.target)[:40]}"


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
            handler="tui.shell.remote_list_screen:RemoteListScreen.do_show",
            guard=all_of(can_read_activity, selected),
            command=command,
            help="Who made the change, with which credential; Enter does the same",
            accepts_record_argument=True,
        ),
        Action(
            f"{scope}.target",
            "Go to the changed record",
            handler="tui.activity.screen:Entries.do_target",
            keys=("t",),
            footer_label="target",
            guard=all_of(can_read_activity, selected, _has_target_screen),
            help="Open the policy, group, key, tags or quotas of the entry",
        ),
        Action(
            f"{scope}.older",
            "Older entries",
            handler="tui.activity.screen:Entries.do_older",
            keys=("m",),
            guard=can_read_activity,
            command=older,
            help="Load another page of entries",
        ),
    )


ACTIVITY_ACTIONS: tuple[Action, ...] = (
    *_actions("activity", _list(), _list("--all")),
    Action(
        "activity.organization",
        "Activity of the organization",
        handler="tui.activity.screen:Activity.do_organization",
        keys=("o",),
        footer_label="organization",
        guard=can_read_activity,
        command=_list("--org"),
        help="Changes outside of the tenants",
    ),
    *_actions("activity-of", _of_subject(), _of_subject("--all")),
    *_actions("organization-activity", _list("--org"), _list("--org", "--all")),
)
