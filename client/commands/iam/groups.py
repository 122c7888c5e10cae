"""`frost iam group`: groups and their members."""

import click

from client.api import analysis, groups
from client.commands import options, output
from client.commands.command import Group, Lazy
from client.commands.completers import group_names
from client.commands.iam import effects
from client.commands.invocation import Invocation
from client.commands.options import FORCE, MEMBER_TYPES, VERSION_HELP, find_id, find_named, missing, name_argument, pair
from client.commands.options import name as checked
from client.commands.parameters import Option
from client.commands.usage_errors import naming_flag
from client.errors import usage
from client.tables import iam
from client.text import safe
from client.texts.effects import counted

group = Group(
    "group",
    {"member": Lazy("client.commands.iam.groups:member", "Manage the members of a group.", ("members",))},
    help="Manage groups of API keys and workload identities.",
    person=True,
)

ID = name_argument("group_id", "GROUP", "the group", group_names)
_MAX_NAMED_MEMBERS = 10
DESCRIPTION = "Description, up to 1,024 characters."


@group.leaf(
    "create",
    Option(["--name"], required=True, metavar="NAME", help="1 to 128 characters, unique in the tenant."),
    Option(["--description"], metavar="TEXT", help=DESCRIPTION),
    examples=('frost iam group create --name ops --description "on call"',),
)
def create(run: Invocation, name: str, description: str | None) -> None:
    """Create an empty group."""
    name = checked(name)
    with naming_flag("name", "--name"), naming_flag("description", "--description"):
        created = run.call_for_tenant(lambda tenant: groups.create(tenant, name, description or ""))
    run.output.record(iam.GROUP, created)


@group.leaf("get", ID, examples=("frost iam group get ops -o json",))
def get(run: Invocation, group_id: str) -> None:
    """Show a group and its members.

    The table shows the first members; -o json and -o yaml have up to 200 as type and ID. `frost iam group member
    list` lists all of them.
    """
    group_id = find_id(run, "group", group_id)
    with missing(run, ("group", group_id)):
        record = run.call_for_tenant(lambda tenant: groups.get(tenant, group_id))
        run.output.record(iam.GROUP, record)
        if run.output.structured:
            if record.get("membersTruncated"):
                listed, total = len(record["members"]), record["memberCount"]
                run.output.note(f"members: the first {listed} of {total}; all: {_all_members(group_id)}")
        elif record["memberCount"]:
            _show_members(run, group_id, record["memberCount"])


def _show_members(run: Invocation, group_id: str, total: int) -> None:
    """Print the first members by name."""
    page = run.call_for_tenant(lambda tenant: groups.member_page(tenant, group_id, limit=_MAX_NAMED_MEMBERS))["members"]
    head = "members:" if total <= len(page) else f"members, the first {len(page)} of {total}:"
    run.output.lines(["", head])
    run.output.records(iam.MEMBER, page)
    if total > len(page):
        run.output.note(f"all: {_all_members(group_id)}")


def _all_members(group_id: str) -> str:
    return f"frost iam group member list {safe(group_id, 80)} --all"


@group.leaf("list", *options.PAGE_FLAGS, examples=("frost iam group list", "frost iam group list --all -o json"))
def list_(run: Invocation, limit: int | None, cursor: str | None, everything: bool) -> None:
    """List the tenant's groups, oldest first."""
    options.listed(
        run,
        iam.GROUP,
        lambda tenant, limit, cursor: groups.page(tenant, limit=limit, cursor=cursor),
        limit=limit,
        cursor=cursor,
        everything=everything,
    )


@group.leaf(
    "update",
    ID,
    Option(["--name"], metavar="NAME", help="The new name."),
    Option(["--description"], metavar="TEXT", help='The new description; "" clears it.'),
    Option(["--if-version"], metavar="N", type=click.IntRange(min=1), help=VERSION_HELP),
    examples=("frost iam group update ops --name operations",),
)
def update(run: Invocation, group_id: str, name: str | None, description: str | None, if_version: int | None) -> None:
    """Change a group's name or description.

    Omitted values do not change.
    """
    if name is None and description is None:
        raise usage("nothing to change (frost iam group update)", "use --name or --description")
    name = None if name is None else checked(name)
    group_id = find_id(run, "group", group_id)
    with missing(run, ("group", group_id)), naming_flag("name", "--name"), naming_flag("description", "--description"):
        change = run.change_for_tenant(
            lambda tenant: groups.update(tenant, group_id, name=name, description=description, version=if_version)
        )
    run.output.record(iam.GROUP, change.record)
    if not change.changed:
        run.output.note("nothing changed: same values")


@group.leaf(
    "delete",
    ID,
    FORCE,
    effects.DRY_RUN,
    examples=("frost iam group delete ops", "frost iam group delete ops --dry-run"),
)
def delete(run: Invocation, group_id: str, force: bool, dry_run: bool) -> None:
    """Delete a group, its memberships and policy attachments.

    Members and policies are not deleted. The operations that members gain and lose are shown before the
    confirmation.
    """
    group, group_id = find_named(run, "group", group_id)
    version = None
    with missing(run, ("group", group_id)):
        if dry_run:
            effects.dry_run(run, "deleteGroup", groupId=group_id)
            return
        if not force:
            version = _confirm_deletion(run, group_id)
        run.change_for_tenant(lambda tenant: groups.delete(tenant, group_id, version))
    run.output.done(f"{group} was deleted", {"id": group_id, "status": "deleted"})


def _confirm_deletion(run: Invocation, group_id: str) -> int:
    """Ask for confirmation. Return the version shown, so that only this version is deleted."""
    output.needs_terminal("this deletes a group", "use --force to skip the confirmation")
    record = run.call_for_tenant(lambda tenant: groups.get(tenant, group_id))
    preview = effects.preview(run, lambda tenant: analysis.preview(tenant, "deleteGroup", groupId=group_id))
    members, attached = record["memberCount"], record["policyCount"]
    others = f"{counted(members, 'membership')} and {counted(attached, 'policy attachment')}"
    effects.confirm_deletion(run, preview, f'group "{record["name"]}"', str(record["name"]), others)
    return int(record["version"])


member = Group("member", help="Manage the members of a group.")


@member.leaf(
    "add",
    ID,
    *pair(MEMBER_TYPES, required=True, of="of the member"),
    effects.DRY_RUN,
    examples=("frost iam group member add ops --type api_key --id ci",),
)
def add(run: Invocation, group_id: str, kind: str, identifier: str, dry_run: bool) -> None:
    """Add an API key or a workload identity to a group.

    The group's policies apply from the member's next request on.
    """
    group, group_id = find_named(run, "group", group_id)
    member, identifier = find_named(run, kind, identifier)
    with missing(run, ("group", group_id), (kind, identifier)):
        if dry_run:
            effects.dry_run(run, "addMember", groupId=group_id, principalType=kind, principalId=identifier)
            return
        change = run.change_for_tenant(lambda tenant: groups.add_member(tenant, group_id, kind, identifier))
    run.output.done(
        f"{member} is a member of {group} now" if change.changed else "already a member",
        {"groupId": group_id, "memberType": kind, "memberId": identifier, "changed": change.changed},
    )


@member.leaf("list", ID, *options.PAGE_FLAGS, examples=("frost iam group member list ops",))
def list_members(run: Invocation, group_id: str, limit: int | None, cursor: str | None, everything: bool) -> None:
    """List a group's members, in the order they were added."""
    group_id = find_id(run, "group", group_id)
    with missing(run, ("group", group_id)):
        options.listed(
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
    *pair(MEMBER_TYPES, required=True, of="of the member"),
    effects.DRY_RUN,
    examples=("frost iam group member remove ops --type api_key --id ci",),
)
def remove(run: Invocation, group_id: str, kind: str, identifier: str, dry_run: bool) -> None:
    """Remove an API key or a workload identity from a group.

    The group's policies no longer apply from the member's next request on.
    """
    group, group_id = find_named(run, "group", group_id)
    member, identifier = find_named(run, kind, identifier)
    unrelated = f"{member} is not a member of {group}"
    see = f"frost iam group member list {group_id}"
    with missing(run, ("group", group_id), (kind, identifier), unrelated=unrelated, see=see):
        if dry_run:
            effects.dry_run(run, "removeMember", groupId=group_id, principalType=kind, principalId=identifier)
            return
        run.change_for_tenant(lambda tenant: groups.remove_member(tenant, group_id, kind, identifier))
    run.output.done(
        f"{member} is no longer a member of {group}",
        {"groupId": group_id, "memberType": kind, "memberId": identifier, "status": "removed"},
    )
