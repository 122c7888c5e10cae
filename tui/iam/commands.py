"""Commands (`frost iam …`) equivalent to the IAM actions, for the record under the cursor."""

from client.tables.columns import Record, kind_and_id
from tui.shell.action import ActionContext, Command, line


def iam(*arguments: str) -> Command:
    return lambda s: line("iam", *arguments, str(s.record["id"])) if s.record is not None else ""


def plain(*arguments: str) -> Command:
    """Return a command that does not depend on the record."""
    return lambda _: line("iam", *arguments)


def group_update(context: ActionContext) -> str:
    return _update("group", context.record)


def policy_update(context: ActionContext) -> str:
    return _update("policy", context.record)


def _update(noun: str, record: Record | None) -> str:
    if record is None:
        return ""
    arguments = ("--name", str(record["name"]), "--description", str(record.get("description", "")))
    return line("iam", noun, "update", str(record["id"]), *arguments)


def who(field: str) -> Command:
    """List the principals that may perform the operation in the field `named` of the record."""
    return lambda s: (
        line("iam", "who", "--operation", str(s.record[field]), "--target", "*") if s.record is not None else ""
    )


def access(context: ActionContext) -> str:
    """List the operations of a key or identity."""
    return line("iam", "access", *kind_and_id(context.record)) if context.record is not None else ""


def new_member(context: ActionContext) -> str:
    """Add a member to the group under the cursor."""
    arguments = ("--type", "api_key", "--id", "ID")
    return line("iam", "group", "member", "add", str(context.record["id"]), *arguments) if context.record else ""


def member(verb: str) -> Command:
    """Add or remove a member of the open group."""

    def command(context: ActionContext) -> str:
        if not context.subject:
            return ""
        kind, identifier = kind_and_id(context.record) if verb == "remove" and context.record else ("api_key", "ID")
        return line("iam", "group", "member", verb, context.subject, "--type", kind, "--id", identifier)

    return command


def attachment(verb: str, of: str = "policy") -> Command:
    """Attach or detach a policy; the record is a policy, an attachment or, with `of="group"`, a group."""

    def command(context: ActionContext) -> str:
        record = context.record
        if of == "group":
            return _pair(verb, "POLICY", "group", str(record["id"])) if record is not None else ""
        if context.subject:
            pair = kind_and_id(record) if verb == "detach" and record is not None else ("group", "ID")
            return _pair(verb, context.subject, *pair)
        return _pair(verb, str(record["id"]), "group", "ID") if record is not None else ""

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
