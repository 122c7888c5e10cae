"""Commands (`frost iam …`) equivalent to the IAM actions, for the record under the cursor."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from client.tables.columns import Record, kind_and_id
from tui.shell.action import ActionContext, Command, line

if TYPE_CHECKING:
    from client.models.iam import Group, Policy

T = TypeVar("T")


def about_record(command: Callable[[T], str]) -> Command:
    """Return a command about the record under the cursor; empty without a record."""
    return lambda context: command(context.record) if context.record is not None else ""


def iam(*arguments: str) -> Command:
    @about_record
    def command(record: "Group | Policy") -> str:
        return line("iam", *arguments, record.id)

    return command


def plain(*arguments: str) -> Command:
    """Return a command that does not depend on the record."""
    return lambda _: line("iam", *arguments)


def update(noun: str) -> Command:
    """Change name and description of the group or policy."""

    @about_record
    def command(record: "Group | Policy") -> str:
        return line("iam", noun, "update", record.id, "--name", record.name, "--description", record.description)

    return command


def who(field: str) -> Command:
    """List the principals that may perform the operation in the field `named` of the record."""
    return lambda s: (
        line("iam", "who", "--operation", str(s.record[field]), "--target", "*") if s.record is not None else ""
    )


def access(context: ActionContext) -> str:
    """List the operations of a key or identity."""
    return line("iam", "access", *kind_and_id(context.record)) if context.record is not None else ""


@about_record
def new_member(group: "Group") -> str:
    """Add a member to the group under the cursor."""
    return line("iam", "group", "member", "add", group.id, "--type", "api_key", "--id", "ID")


def member(verb: str) -> Command:
    """Add or remove a member of the open group."""

    def command(context: ActionContext) -> str:
        if not context.subject:
            return ""
        kind, identifier = kind_and_id(context.record) if verb == "remove" and context.record else ("api_key", "ID")
        return line("iam", "group", "member", verb, context.subject, "--type", kind, "--id", identifier)

    return command


@about_record
def attach_policy(policy: "Policy") -> str:
    """Attach the policy under the cursor."""
    return _pair("attach", policy.id, "group", "ID")


def group_policy(verb: str) -> Command:
    """Attach a policy to the group under the cursor, or detach one."""

    @about_record
    def command(group: "Group") -> str:
        return _pair(verb, "POLICY", "group", group.id)

    return command


def attachment(verb: str) -> Command:
    """Attach or detach the open policy."""

    def command(context: ActionContext) -> str:
        if not context.subject:
            return ""
        pair = kind_and_id(context.record) if verb == "detach" and context.record is not None else ("group", "ID")
        return _pair(verb, context.subject, *pair)

    return command


def opened(context: ActionContext) -> str:
    """List the members of an attached group, or the operations of an attached key or identity."""
    if context.record is None:
        return ""
    kind, identifier = kind_and_id(context.record)
    return line("iam", "group", "member", "list", identifier) if kind == "group" else access(context)


def first_policy(context: ActionContext) -> str:
    """Show the first policy that allows or denies an operation."""
    policy_id = deciding_policy(context.record or {})
    return line("iam", "policy", "get", policy_id) if policy_id else ""


def deciding_policy(record: Record) -> str:
    """Return the id of the first policy that allows or denies an operation, denying ones first."""
    allowing, denying = record.get("by") or (), record.get("deniedBy") or ()
    grants = (*denying, *allowing) if record.get("access") == "denied" else (*allowing, *denying)
    return next((str(grant["policyId"]) for grant in grants if grant.get("policyId")), "")


def _pair(verb: str, policy: str, kind: str, identifier: str) -> str:
    return line("iam", "policy", verb, policy, "--type", kind, "--id", identifier)


def version(verb: str, flag: str = "--version") -> Command:

    def command(context: ActionContext) -> str:
        if context.record is None:
            return ""
        one = context.record
        return line("iam", "policy", verb, str(one["policyId"]), flag, str(one["version"]))

    return command
