"""Pickers of members, attachees and policies. Each returns None if the user cancels."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from client.tables.columns import Column, Kind, fields
from client.tables.iam import POLICY
from tui.state.list_store import RecordList
from tui.widgets.picker import Picker
from tui.widgets.policy_text import author_text, distinct, kind_text
from tui.widgets.record_table import Tones

if TYPE_CHECKING:
    from client.models.iam import Attachment, Group, Member, Policy, Principal
    from tui.shell.remote_list_screen import RemoteListScreen
    from tui.shell.routes import Subject

_COLUMNS = (
    Column("name", "Name"),
    Column("type", "Type", cell=kind_text),
    Column("status", "Status"),
    Column("about", "About"),
)
PRINCIPAL = Kind(
    "key or identity",
    "keys and identities",
    "",
    _COLUMNS,
    fields(_COLUMNS, name="name", type="type", status="status"),
    "name",
)
_TONES: Tones = {
    "type": lambda record: "dim",
    "status": lambda record: None if record.get("status") in ("active", "", None) else "warning",
    "about": lambda record: "dim",
}


async def pick_members(screen: "RemoteListScreen[Any]", title: str, group_id: str) -> "Sequence[Principal] | None":
    """Pick keys and identities that are not in the group."""
    principals: RecordList[Principal] = _get(screen, "principals")
    members: RecordList[Member] = _get(screen, "members", group_id)
    return await screen.pick(
        Picker(
            title,
            PRINCIPAL,
            lambda: _without(principals.records, members),
            tones=_TONES,
            verb="continue",
            empty=_empty((principals, members), "All keys and identities are members already."),
        ),
        [("principals", ""), ("members", group_id)],
    )


async def pick_attachees(screen: "RemoteListScreen[Any]", policy: "Policy | Subject") -> "Sequence[Principal] | None":
    """Pick groups, keys and identities that the policy is not attached to."""
    groups: RecordList[Group] = _get(screen, "groups")
    principals: RecordList[Principal] = _get(screen, "principals")
    attached: RecordList[Attachment] = _get(screen, "attachments", policy.id)

    def records() -> "Sequence[Principal]":
        return _without([*map(_as_attachee, groups.records), *principals.records], attached)

    return await screen.pick(
        Picker(
            f"Attach {policy.name} to",
            PRINCIPAL,
            records,
            tones=_TONES,
            verb="continue",
            empty=_empty((groups, principals, attached), "The policy is already attached to all principals."),
        ),
        [("groups", ""), ("principals", ""), ("attachments", policy.id)],
    )


async def pick_policies(
    screen: "RemoteListScreen[Any]", title: str, group_id: str, *, attached: bool
) -> "Sequence[Policy] | None":
    """Pick one policy that is attached to a group or, with `attached=False`, is not."""
    every: RecordList[Policy] = _get(screen, "policies")
    current: RecordList[Policy] = _get(screen, "policies of", f"group:{group_id}")
    by_key = {column.key: column for column in POLICY.columns}
    author = by_key["author"]._replace(wide=False, cell=author_text)

    def records() -> "Sequence[Policy]":
        if attached:
            return current.records
        ids = {policy.id for policy in current.records}
        return [policy for policy in every.records if policy.id not in ids]

    return await screen.pick(
        Picker(
            title,
            POLICY,
            records,
            several=False,
            verb="continue",
            columns=[by_key["name"], author, by_key["description"]._replace(wide=False)],
            tones={"author": lambda record: "warning" if record.get("orphaned") else None},
            empty=_empty((every, current), "No policies to choose from."),
        ),
        [("policies", ""), ("policies of", f"group:{group_id}")],
    )


def _get(screen: "RemoteListScreen[Any]", name: str, subject: str = "") -> RecordList[Any]:
    return screen.workspace.collections.get(name, screen.tenant_id, subject)


def _without(
    principals: "Sequence[Principal]", current: "RecordList[Member] | RecordList[Attachment]"
) -> "list[Principal]":
    """Return the principals that are not in the current list: groups first, then by name."""
    keys = {row.key for row in current.records}
    left = [principal for principal in principals if principal.key not in keys]
    return distinct(sorted(left, key=lambda principal: (principal.type != "group", principal.name.casefold())))


def _as_attachee(group: "Group") -> "Principal":
    from client.models.iam import Principal

    return Principal(type="group", id=group.id, name=group.name, about=group.description)


def _empty(lists: Sequence[RecordList[Any]], text: str) -> Callable[[], str]:
    def empty() -> str:
        failed = next((one.error for one in lists if one.state == "failed" and one.error is not None), None)
        if failed is not None:
            return failed.message
        return text if all(one.known for one in lists) else "Loading …"

    return empty
