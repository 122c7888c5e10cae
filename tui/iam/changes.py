"""Changes of groups and policies, with the effect shown for confirmation."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from client.api import groups, policies
from client.errors import FrostError
from client.tables.columns import Record, time_text
from client.texts.effects import counted
from tui.iam.effects import EffectConfirm, ProposedChange, effect
from tui.iam.pickers import pick_members
from tui.shell.remote_list_screen import each
from tui.shell.routes import UndoAvailable, UndoCleared
from tui.widgets.form import Field, Form, check_name, problem_text, show_until_saved
from tui.widgets.policy_text import type_text

if TYPE_CHECKING:
    from client.models.iam import Group, Policy, PrincipalRef
    from tui.shell.remote_list_screen import RemoteListScreen
    from tui.shell.routes import Subject

T = TypeVar("T", bound="Group | Policy")


async def confirm_effect(
    screen: "RemoteListScreen[Any]",
    tenant_id: str,
    question: str,
    facts: list[tuple[str, str]],
    changes: Sequence[ProposedChange],
    *,
    yes: str,
    destructive: bool = False,
) -> bool:
    """Show the effect of changes in a tenant and ask the user to confirm."""
    previewed = await effect(screen.workspace, tenant_id, changes)
    facts = [*facts, ("Tenant", screen.workspace.name_of(tenant_id))]
    dialog = EffectConfirm(question, facts, previewed, yes=yes, destructive=destructive or previewed.takes)
    return await screen.app.push_screen_wait(dialog)


async def show_form(
    screen: "RemoteListScreen[Any]",
    title: str,
    before: Mapping[str, str],
    save: Callable[[Mapping[str, str]], Awaitable[None]],
    *,
    creates: str = "",
    reload: "Callable[[], Awaitable[Group | Policy]] | None" = None,
) -> None:
    """Show a form for name and description until it is saved or cancelled. A rejected form retains the input.

    Args:
        creates: Noun of the resource that `save` creates; empty if it changes one.
        reload: Reloads the record after a change by another user.
    """
    stored: Record = before

    def build(values: Mapping[str, str], problem: str) -> Form:
        fields = [
            Field("name", "Name", values.get("name", ""), check=check_name),
            Field("description", "Description", values.get("description", ""), "none"),
        ]
        return Form(title, fields, save="Create" if creates else "Save", problem=problem)

    async def rejected(error: FrostError, values: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
        nonlocal stored
        if error.code != "STALE_VERSION" or reload is None:
            return problem_text(error), values
        try:
            newer = (await reload()).wire()
        except FrostError as failed:
            return problem_text(failed), values
        problem = f"{stale_text(error, stored, newer)} Your input is kept; save to overwrite."
        # Unedited fields take the new values, so that saving does not revert the other change.
        edited = {name: value for name, value in values.items() if value != stored.get(name)}
        values = {name: str(newer.get(name, "")) for name in values} | edited
        stored = newer
        return problem, values

    await show_until_saved(screen.app.push_screen_wait, build, before, save, creates=creates, rejected=rejected)


def form_values(record: "Group | Policy") -> dict[str, str]:
    """Return the initial form values for a record."""
    return {"name": record.name, "description": record.description}


MEMBERS = ("name", "description", "document")


def stale_text(error: FrostError, before: Record | None = None, newer: Record | None = None) -> str:
    """Describe a concurrent change: fields and, if known, author and time."""
    from client.models.analysis import ErrorDetails

    details = ErrorDetails.read(error.details)
    changed: Sequence[str] = details.changed
    if before is not None and newer is not None:
        changed = [name for name in MEMBERS if name in newer and name in before and before[name] != newer[name]]
    members = ", ".join(changed) or "it"
    who, when = "", details.resource.updated_at if details.resource is not None else None
    if details.versions:
        newest = details.versions[-1]
        who, when = f" by {newest.changed_by_name}" if newest.changed_by_name else "", newest.changed_at
    at = f" at {time_text(when)}" if when else ""
    return f"Version {details.current or '?'} was saved{who}{at} and changed {members}."


# --- groups and policies ---------------------------------------------------------------------------------------------


async def edit_texts(
    screen: "RemoteListScreen[T]",
    title: str,
    record: T,
    *,
    update: Callable[[str, int, Mapping[str, str]], Awaitable[T]],
    get: Callable[[str], Awaitable[T]],
    noun: str,
) -> None:
    """Edit name and description of a group or policy in a form.

    Args:
        update: Stores the changed texts of an id and version.
        get: Reads a record by id.
        noun: The kind of the record, `group` or `policy`.
    """
    current, tenant_id = record, screen.tenant_id

    def show(stored: T) -> T:
        screen.workspace.collections.put(screen.LIST_NAME, tenant_id, stored)
        return stored

    async def save(values: Mapping[str, str]) -> None:
        before = form_values(current)
        changed = {name: value for name, value in values.items() if value != before[name]}
        if not changed:
            return
        stored = show(await update(record.id, current.version, changed))

        async def undo() -> None:
            show(await update(record.id, stored.version, {name: before[name] for name in changed}))

        if "name" in changed:
            text = f"Renamed {noun} {before['name']} to {stored.name}"
            undone = f"{noun} {stored.name} is named {before['name']} again"
        else:
            text, undone = f"Described {noun} {stored.name}", f"{noun} {stored.name} has its former description again"
        screen.post_message(UndoAvailable(text, undo, undone))

    async def reload() -> T:
        nonlocal current
        current = show(await get(record.id))
        return current

    await show_form(screen, title, form_values(record), save, reload=reload)


async def delete(
    screen: "RemoteListScreen[T]",
    record: T,
    noun: str,
    facts: list[tuple[str, str]],
    change: ProposedChange,
    request: Callable[[str, int], Awaitable[Any]],
) -> None:
    """Confirm the effect and delete a group or policy. `request` deletes an id and version."""
    tenant_id = screen.tenant_id
    facts = [(noun.capitalize(), f"{record.name}  {record.id}"), *facts]
    if not await confirm_effect(screen, tenant_id, f"Delete {noun}?", facts, [change], yes="Delete", destructive=True):
        return
    try:
        await request(record.id, record.version)
    except FrostError as error:
        if error.code != "STALE_VERSION":
            raise
        screen.show_error(error, f"{stale_text(error)} Nothing was deleted. ")
        screen.read()
        return
    screen.workspace.collections.remove(screen.LIST_NAME, tenant_id, record.id)
    screen.post_message(UndoCleared(f"deleting a {noun}"))
    screen.app.notify(f"Deleted {noun} {record.name}", markup=False)
    screen.workspace.refresh()


# --- members ---------------------------------------------------------------------------------------------------------


async def add_members(screen: "RemoteListScreen[Any]", group: "Group | Subject") -> None:
    """Pick keys and identities, confirm the effect, and add them to a group."""
    tenant_id = screen.tenant_id
    members = await pick_members(screen, f"Add members to {group.name}", group.id)
    if members:
        await _change_members(screen, tenant_id, group, members, is_added=True)


async def remove_members(
    screen: "RemoteListScreen[Any]", group: "Group | Subject", members: "Sequence[PrincipalRef]"
) -> None:
    """Confirm the effect and remove members from a group."""
    await _change_members(screen, screen.tenant_id, group, members, is_added=False)


async def _change_members(
    screen: "RemoteListScreen[Any]",
    tenant_id: str,
    group: "Group | Subject",
    members: "Sequence[PrincipalRef]",
    *,
    is_added: bool,
) -> None:
    ask = screen.workspace.ask

    def add(member: "PrincipalRef") -> Awaitable[None]:
        return ask(groups.add_member(tenant_id, group.id, member.type, member.id))

    def remove(member: "PrincipalRef") -> Awaitable[None]:
        return ask(groups.remove_member(tenant_id, group.id, member.type, member.id))

    change = {"change": "addMember" if is_added else "removeMember", "groupId": group.id}
    count, verb = counted(len(members), "member", "members"), "Add" if is_added else "Remove"
    facts = [("Group", group.name), ("Members", _names(members))]
    proposed = _for_principals(change, members)
    if not await confirm_effect(screen, tenant_id, f"{verb} {count}?", facts, proposed, yes=verb):
        return
    changed = await each(screen, members, add if is_added else remove)
    names = _names(changed)
    if is_added:
        _offer_undo(screen, changed, remove, f"Added {names} to {group.name}", f"removed {names} from {group.name}")
    else:
        _offer_undo(screen, changed, add, f"Removed {names} from {group.name}", f"added {names} to {group.name} again")


# --- attachments -----------------------------------------------------------------------------------------------------


async def attach(
    screen: "RemoteListScreen[Any]", tenant_id: str, policy: "Policy | Subject", attachees: "Sequence[PrincipalRef]"
) -> None:
    """Confirm the effect and attach a policy of a tenant."""
    await _change_attachments(screen, tenant_id, policy, attachees, is_attached=True)


async def detach(
    screen: "RemoteListScreen[Any]", tenant_id: str, policy: "Policy | Subject", attachees: "Sequence[PrincipalRef]"
) -> None:
    """Confirm the effect and detach a policy of a tenant."""
    await _change_attachments(screen, tenant_id, policy, attachees, is_attached=False)


async def _change_attachments(
    screen: "RemoteListScreen[Any]",
    tenant_id: str,
    policy: "Policy | Subject",
    attachees: "Sequence[PrincipalRef]",
    *,
    is_attached: bool,
) -> None:
    ask = screen.workspace.ask

    def add(attachee: "PrincipalRef") -> Awaitable[None]:
        return ask(policies.attach(tenant_id, policy.id, attachee.type, attachee.id))

    def remove(attachee: "PrincipalRef") -> Awaitable[None]:
        return ask(policies.detach(tenant_id, policy.id, attachee.type, attachee.id))

    change = {"change": "attach" if is_attached else "detach", "policyId": policy.id}
    verb = "Attach" if is_attached else "Detach"
    facts = [("Policy", policy.name), ("To" if is_attached else "From", _names(attachees))]
    proposed = _for_principals(change, attachees)
    if not await confirm_effect(screen, tenant_id, f"{verb} policy?", facts, proposed, yes=verb):
        return
    changed = await each(screen, attachees, add if is_attached else remove)
    names, name = _names(changed), policy.name
    if is_attached:
        _offer_undo(screen, changed, remove, f"Attached {name} to {names}", f"detached {name} from {names}")
    else:
        _offer_undo(screen, changed, add, f"Detached {name} from {names}", f"attached {name} to {names} again")


# --- shared ----------------------------------------------------------------------------------------------------------

MAX_NAMES = 3


def _for_principals(change: ProposedChange, principals: "Sequence[PrincipalRef]") -> list[ProposedChange]:
    """Return a change of a group or policy for each member or attachee."""
    return [{**change, "principalType": principal.type, "principalId": principal.id} for principal in principals]


def _names(principals: "Sequence[PrincipalRef]") -> str:
    """Return the names, or the first `MAX_NAMES` and the number of others."""
    names = [f"{principal.name or principal.id} ({type_text(principal.type)})" for principal in principals]
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def _offer_undo(
    screen: "RemoteListScreen[Any]",
    changed: "Sequence[PrincipalRef]",
    revert: "Callable[[PrincipalRef], Awaitable[None]]",
    text: str,
    undone_text: str,
) -> None:
    """Report a change of members or attachees and offer to revert it."""
    if not changed:
        return

    remaining = list(changed)

    async def undo() -> None:
        while remaining:
            await revert(remaining[0])
            del remaining[0]  # if a later one fails, the next undo continues there
        screen.workspace.refresh()

    screen.table.clear_marks()
    screen.post_message(UndoAvailable(text, undo, undone_text))
    screen.workspace.refresh()
