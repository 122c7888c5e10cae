"""What the `:` line does in the frame: completing with live names, and running what was entered."""

from typing import TYPE_CHECKING

from tui import actions, command_line, places

if TYPE_CHECKING:
    from tui.screens.frame import FrameScreen
    from tui.workspace import Workspace


def complete(workspace: "Workspace", line: str, situation: "actions.Situation | None" = None) -> list[str]:
    """What the line may become, as far as it can be done where one is."""
    word = line.partition(" ")[0].casefold()
    scope = (command_line.ALIASES.get(word) or word).partition(".")[0]
    ids = [one.id for one in actions.ACTIONS if situation is None or _usable(one, situation)]
    return command_line.complete(line, places.NAMES, _names(workspace, scope), ids)


def _usable(action: actions.Action, situation: actions.Situation) -> bool:
    """Whether an action is worth offering: one of an inside only there, one of the activity only where it can be done.

    Entries are gone to, not named: in another place there is none that is meant.
    """
    if action.scope == situation.place or action.scope not in places.BY_NAME:
        return action.scope != "activity" or not action.reason(situation)
    if action.scope == "activity":
        return not action.reason(situation._replace(place="activity", subject="", record=None))
    return action.scope in places.NAMES


def _names(workspace: "Workspace", scope: str) -> list[str]:
    """What an argument of an action may name: the records of its place as far as they are known."""
    if scope == "contexts":
        return list(workspace.connection.config.contexts)
    if scope in ("policies", "groups", "catalogue"):
        return [str(row["name"]) for row in workspace.collections.rows(scope, workspace.tenant_id).records]
    if scope == "api-keys":
        return [str(row["name"]) for row in workspace.collections.rows("own keys", "").records]
    if scope == "quotas":
        return [str(row["resourceType"]) for row in workspace.collections.rows(scope, workspace.tenant_id).records]
    return [str(tenant["displayName"]) for tenant in workspace.tenants]


async def run(frame: "FrameScreen", line: str) -> None:
    """Do what the line means; an action of another place is done there."""
    match command_line.parse(line, places.NAMES):
        case command_line.Go(place, filter_line):
            await frame.travel(place, filter_line or None)
        case command_line.Run(action_id, argument):
            scope = actions.BY_ID[action_id].scope
            here = frame.place is not None and scope == frame.place.NAME
            if scope in places.NAMES and not here:
                await frame.travel(scope)
            elif scope in places.BY_NAME and not here:
                within = places.BY_NAME[scope].within
                frame.toast(f"{action_id} works inside of one of the {within}: open it first", "warning")
                return
            frame.perform(action_id, argument)
        case command_line.Mistake(words):
            frame.toast(words, "warning")
