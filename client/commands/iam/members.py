"""`frost iam group member`: the members of a group."""

from client.api import groups
from client.commands import paging
from client.commands.command import Group
from client.commands.iam import effects
from client.commands.iam.groups import ID
from client.commands.ids import MEMBER_TYPES, find_id, missing, pair
from client.commands.invocation import Invocation
from client.tables import iam

member = Group("member", help="Manage the members of a group.")


@member.leaf(
    "add",
    ID,
    *pair(MEMBER_TYPES, required=True, verb="is added"),
    effects.DRY_RUN,
    examples=("frost iam group member add ops --type api_key --id ci",),
)
def add(run: Invocation, group_id: str, kind: str, identifier: str, dry_run: bool) -> None:
    """Add an API key or a workload identity to a group.

    The group's policies apply from the member's next request on.
    """
    group_id = find_id(run, "group", group_id)
    identifier = find_id(run, kind, identifier)
    with missing(run, ("group", group_id), (kind, identifier)):
        if dry_run:
            effects.dry_run(run, "addMember", groupId=group_id, principalType=kind, principalId=identifier)
            return
        change = run.change_for_tenant(lambda tenant: groups.add_member(tenant, group_id, kind, identifier))
    run.output.done(
        f"{kind} {identifier} is a member of group {group_id} now" if change.changed else "already a member",
        {"groupId": group_id, "memberType": kind, "memberId": identifier, "changed": change.changed},
    )


@member.leaf("list", ID, *paging.FLAGS, examples=("frost iam group member list ops",))
def list_(run: Invocation, group_id: str, limit: int | None, cursor: str | None, everything: bool) -> None:
    """List a group's members, in the order they were added."""
    group_id = find_id(run, "group", group_id)
    with missing(run, ("group", group_id)):
        paging.listed(
            run,
            iam.MEMBER,
            lambda tenant, limit, cursor: groups.member_page(tenant, group_id, limit=limit, cursor=cursor),
            limit=limit,
            cursor=cursor,
            everything=everything,
        )


@member.leaf(
    "remove",
    ID,
    *pair(MEMBER_TYPES, required=True, verb="is removed"),
    effects.DRY_RUN,
    examples=("frost iam group member remove ops --type api_key --id ci",),
)
def remove(run: Invocation, group_id: str, kind: str, identifier: str, dry_run: bool) -> None:
    """Remove an API key or a workload identity from a group.

    The group's policies no longer apply from the member's next request on.
    """
    group_id = find_id(run, "group", group_id)
    identifier = find_id(run, kind, identifier)
    unrelated = f"{kind} {identifier} is not a member of group {group_id}"
    see = f"frost iam group member list {group_id}"
    with missing(run, ("group", group_id), (kind, identifier), unrelated=unrelated, see=see):
        if dry_run:
            effects.dry_run(run, "removeMember", groupId=group_id, principalType=kind, principalId=identifier)
            return
        run.change_for_tenant(lambda tenant: groups.remove_member(tenant, group_id, kind, identifier))
    run.output.done(
        f"{kind} {identifier} is no longer a member of group {group_id}",
        {"groupId": group_id, "memberType": kind, "memberId": identifier, "status": "removed"},
    )
