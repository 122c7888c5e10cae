"""Changes of groups and policies, with the effect shown for confirmation."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from client.api import groups, policies
from client.errors import FrostError
from client.tables.columns import Record, kind_and_id, time_text
from client.texts.effects import counted
from tui.iam.effect_dialog import EffectConfirm
from tui.iam.pickers import pick_members
from tui.shell.messages import UndoAvailable
from tui.shell.remote_list_screen import each
from tui.state.effects import Change, effect
from tui.widgets.form import Field, Form, check_name
from tui.widgets.policy_text import kind_text

if TYPE_CHECKING:
    from tui.shell.remote_list_screen import RemoteListScreen

AT_ONCE = ("GROUP_NAME_TAKEN", "INVALID_INPUT", "STALE_VERSION")
"""Error codes after which the form reopens with the input."""


async def agreed(
    screen: "RemoteListScreen",
    question: str,
    facts: list[tuple[str, str]],
    changes: Sequence[Change],
    *,
    yes: str,
    destructive: bool = False,
) -> bool:
    """Show the effect of changes and ask the user to confirm."""
    found = await effect(screen.workspace, screen.tenant_id, changes)
    facts = [*facts, ("Tenant", screen.workspace.name_of(screen.tenant_id))]
    dialog = EffectConfirm(question, facts, found, yes=yes, destructive=destructive or found.takes)
    return await screen.app.push_screen_wait(dialog)


async def fill_in(
    screen: "RemoteListScreen",
    title: str,
    before: Mapping[str, str],
    save: Callable[[Mapping[str, str]], Awaitable[None]],
    *,
    button: str = "Save",
    again: Callable[[], Awaitable[Record]] | None = None,
) -> None:
    """Show a form for name and description until it is saved or cancelled. A rejected form retains the input.

    Args:
        again: Reload the record after a change by another user.

    Raises:
        FrostError: `save` failed with a code that is not in `AT_ONCE`, or `again` failed.
    """
    values, problem = dict(before), ""
    known: Record = before
    while True:
        fields = [
            Field("name", "Name", values.get("name", ""), check=check_name),
            Field("description", "Description", values.get("description", ""), "none"),
        ]
        answer = await screen.app.push_screen_wait(Form(title, fields, save=button, problem=problem))
        if answer is None:
            return
        values = {name: value.strip() for name, value in answer.items()}
        try:
            await save(values)
            return
        except FrostError as error:
            if error.code not in AT_ONCE:
                raise
            problem = error.message
            if error.code == "STALE_VERSION" and again is not None:
                newer = await again()
                problem = f"{stale_words(error, known, newer)} What you typed is kept; saving writes it."
                # Unedited fields take the new values, so that saving does not revert the other change.
                touched = {name: value for name, value in values.items() if value != known.get(name)}
                values = {name: str(newer.get(name, "")) for name in values} | touched
                known = newer


def texts(record: Record) -> dict[str, str]:
    """Return the initial form values for a record."""
    return {name: str(record.get(name) or "") for name in ("name", "description")}


MEMBERS = ("name", "description", "document")


def stale_words(error: FrostError, before: Record | None = None, newer: Record | None = None) -> str:
    """Describe a concurrent change: fields and, if known, author and time."""
    details = error.details or {}
    newest = (details.get("versions") or [{}])[0]
    told = details.get("changed") or newest.get("changed") or ()
    if before is not None and newer is not None:
        told = [name for name in MEMBERS if name in newer and name in before and before[name] != newer[name]]
    members = ", ".join(map(str, told)) or "something"
    who = f" by {newest['changedByName']}" if newest.get("changedByName") else ""
    when = newest.get("changedAt") or (details.get("resource") or {}).get("updatedAt")
    at = f" at {time_text(when)}" if when else ""
    return f"Meanwhile {members} changed{who}{at}; this is version {details.get('current', '?')} now."


# --- members ---------------------------------------------------------------------------------------------------------


async def add_members(screen: "RemoteListScreen", group: Record) -> None:
    """Pick keys and identities, confirm the effect, and add them to a group."""
    tenant_id, group_id = screen.tenant_id, str(group["id"])
    chosen = await pick_members(screen, f"Add members to {group['name']}", group_id)
    if not chosen:
        return
    changes = [_member_change("addMember", group_id, one) for one in chosen]
    facts = [("Group", str(group["name"])), ("Members", _names(chosen))]
    words = counted(len(chosen), "member", "members")
    if not await agreed(screen, f"Add {words}?", facts, changes, yes="Add"):
        return
    ask = screen.workspace.ask
    done = await each(screen, chosen, lambda one: ask(groups.add_member(tenant_id, group_id, *kind_and_id(one))))

    async def undo() -> None:
        for one in done:
            await ask(groups.remove_member(tenant_id, group_id, *kind_and_id(one)))
        screen.workspace.refresh()

    names = _names(done)
    _say(screen, done, f"Added {names} to {group['name']}", undo, f"removed {names} from {group['name']}")


async def remove_members(screen: "RemoteListScreen", group: Record, members: Sequence[Record]) -> None:
    """Confirm the effect and remove members from a group."""
    tenant_id, group_id = screen.tenant_id, str(group["id"])
    changes = [_member_change("removeMember", group_id, one) for one in members]
    facts = [("Group", str(group["name"])), ("Members", _names(members))]
    words = counted(len(members), "member", "members")
    if not await agreed(screen, f"Remove {words}?", facts, changes, yes="Remove"):
        return
    ask = screen.workspace.ask
    done = await each(
        screen,
        members,
        lambda one: ask(groups.remove_member(tenant_id, group_id, *kind_and_id(one))),
    )

    async def undo() -> None:
        for one in done:
            await ask(groups.add_member(tenant_id, group_id, *kind_and_id(one)))
        screen.workspace.refresh()

    names = _names(done)
    _say(screen, done, f"Removed {names} from {group['name']}", undo, f"added {names} to {group['name']} again")


def _member_change(change: str, group_id: str, member: Record) -> Change:
    kind, identifier = kind_and_id(member)
    return {"change": change, "groupId": group_id, "principalType": kind, "principalId": identifier}


# --- attachments -----------------------------------------------------------------------------------------------------


async def attach(screen: "RemoteListScreen", policy: Record, attachees: Sequence[Record]) -> None:
    """Confirm the effect and attach a policy."""
    tenant_id, policy_id = screen.tenant_id, str(policy["id"])
    changes = [_attachment_change("attach", policy_id, one) for one in attachees]
    facts = [("Policy", str(policy["name"])), ("To", _names(attachees))]
    if not await agreed(screen, "Attach policy?", facts, changes, yes="Attach"):
        return
    ask = screen.workspace.ask
    done = await each(
        screen,
        attachees,
        lambda one: ask(policies.attach(tenant_id, policy_id, *kind_and_id(one))),
    )

    async def undo() -> None:
        for one in done:
            await ask(policies.detach(tenant_id, policy_id, *kind_and_id(one)))
        screen.workspace.refresh()

    names = _names(done)
    _say(screen, done, f"Attached {policy['name']} to {names}", undo, f"detached {policy['name']} from {names}")


async def detach(screen: "RemoteListScreen", policy: Record, attachees: Sequence[Record]) -> None:
    """Confirm the effect and detach a policy."""
    tenant_id, policy_id = screen.tenant_id, str(policy["id"])
    changes = [_attachment_change("detach", policy_id, one) for one in attachees]
    facts = [("Policy", str(policy["name"])), ("From", _names(attachees))]
    if not await agreed(screen, "Detach policy?", facts, changes, yes="Detach"):
        return
    ask = screen.workspace.ask
    done = await each(
        screen,
        attachees,
        lambda one: ask(policies.detach(tenant_id, policy_id, *kind_and_id(one))),
    )

    async def undo() -> None:
        for one in done:
            await ask(policies.attach(tenant_id, policy_id, *kind_and_id(one)))
        screen.workspace.refresh()

    names = _names(done)
    _say(screen, done, f"Detached {policy['name']} from {names}", undo, f"attached {policy['name']} to {names} again")


def _attachment_change(change: str, policy_id: str, attachee: Record) -> Change:
    kind, identifier = kind_and_id(attachee)
    return {"change": change, "policyId": policy_id, "principalType": kind, "principalId": identifier}


# --- shared ----------------------------------------------------------------------------------------------------------

NAMED = 3


def _names(records: Sequence[Record]) -> str:
    """Return the names, or the first `NAMED` and the number of others."""
    found = [_name(record) for record in records]
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more


def _name(record: Record) -> str:
    name = record.get("name") or record.get("memberName") or record.get("attacheeName") or kind_and_id(record)[1]
    return f"{name} ({kind_text(record)})"


def _say(
    screen: "RemoteListScreen", done: Sequence[Record], words: str, undo: Callable[[], Awaitable[None]], back: str
) -> None:
    if done:
        screen.table.clear_marks()
        screen.post_message(UndoAvailable(words, undo, back))
        screen.workspace.refresh()
