"""Commands (`frost iam …`) equivalent to the IAM actions, for the record under the cursor."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tui.shell.action import ActionContext, Command, line

if TYPE_CHECKING:
    from client.models.iam import (
        AccessOperation,
        AllowedPrincipal,
        Attachment,
        CatalogueOperation,
        Group,
        ListedVersion,
        Member,
        Policy,
    )

T = TypeVar("T")


def of_record(command: Callable[[T], str]) -> Command:
    """Return a command about the record under the cursor; empty without a record."""
    return lambda context: command(context.record) if context.record is not None else ""


def iam(*arguments: str) -> Command:
    @of_record
    def command(record: "Group | Policy") -> str:
        return line("iam", *arguments, record.id)

    return command


def plain(*arguments: str) -> Command:
    """Return a command that does not depend on the record."""
    return lambda _: line("iam", *arguments)


def update(noun: str) -> Command:
    """Return the command that changes name and description of a group or policy."""

    @of_record
    def command(record: "Group | Policy") -> str:
        return line("iam", noun, "update", record.id, "--name", record.name, "--description", record.description)

    return command


@of_record
def who_of_catalogue(operation: "CatalogueOperation") -> str:
    return _who(operation.name)


@of_record
def who_of_access(access: "AccessOperation") -> str:
    return _who(access.operation)


def _who(operation: str) -> str:
    """Return the command that lists the principals that may perform an operation."""
    return line("iam", "who", "--operation", operation, "--target", "*")


@of_record
def access(principal: "Member | AllowedPrincipal") -> str:
    """Return the command that lists the operations of a principal."""
    return _access(principal.key)


def _access(key: str) -> str:
    return line("iam", "access", *key.split(":", 1))


@of_record
def new_member(group: "Group") -> str:
    """Return the command that adds a member to a group."""
    return line("iam", "group", "member", "add", group.id, "--type", "api_key", "--id", "ID")


def member(verb: str) -> Command:
    """Return the command that adds or removes a member of the open group."""

    def command(context: ActionContext) -> str:
        if not context.subject:
            return ""
        member: Member | None = context.record if verb == "remove" else None
        kind, identifier = ("api_key", "ID") if member is None else (member.member_type, member.member_id)
        return line("iam", "group", "member", verb, context.subject, "--type", kind, "--id", identifier)

    return command


@of_record
def attach_policy(policy: "Policy") -> str:
    """Return the command that attaches a policy."""
    return _pair("attach", policy.id, "group", "ID")


def group_policy(verb: str) -> Command:
    """Return the command that attaches a policy to a group, or detaches it."""

    @of_record
    def command(group: "Group") -> str:
        return _pair(verb, "POLICY", "group", group.id)

    return command


def attachment(verb: str) -> Command:
    """Return the command that attaches or detaches the open policy."""

    def command(context: ActionContext) -> str:
        if not context.subject:
            return ""
        attached: Attachment | None = context.record if verb == "detach" else None
        kind, identifier = ("group", "ID") if attached is None else (attached.attachee_type, attached.attachee_id)
        return _pair(verb, context.subject, kind, identifier)

    return command


@of_record
def opened(attached: "Attachment") -> str:
    """Return the command that lists the members of a group, or the operations of a key or identity."""
    is_group = attached.attachee_type == "group"
    return line("iam", "group", "member", "list", attached.attachee_id) if is_group else _access(attached.key)


@of_record
def first_policy(access: "AccessOperation") -> str:
    """Return the command that shows the first policy that allows or denies an operation."""
    return line("iam", "policy", "get", access.policy_id) if access.policy_id else ""


def _pair(verb: str, policy: str, kind: str, identifier: str) -> str:
    return line("iam", "policy", verb, policy, "--type", kind, "--id", identifier)


def version(verb: str, flag: str = "--version") -> Command:
    @of_record
    def command(version: "ListedVersion") -> str:
        return line("iam", "policy", verb, version.policy_id, flag, str(version.version))

    return command
