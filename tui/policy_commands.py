"""The commands that the actions about policies are equal to (`frost iam …`), for the record under the cursor."""

from tui.action import Command, Record, Situation, kind_and_id, line


def iam(*words: str) -> Command:
    """A command of one record, by its id."""
    return lambda s: line("iam", *words, str(s.record["id"])) if s.record is not None else ""


def plain(*words: str) -> Command:
    """One that is the same for every record."""
    return lambda _: line("iam", *words)


def group_update(situation: Situation) -> str:
    """Renaming a group, or describing it otherwise."""
    return _update("group", situation.record)


def policy_update(situation: Situation) -> str:
    """The same of a policy."""
    return _update("policy", situation.record)


def _update(noun: str, record: Record | None) -> str:
    if record is None:
        return ""
    words = ("--name", str(record["name"]), "--description", str(record.get("description", "")))
    return line("iam", noun, "update", str(record["id"]), *words)


def who(named: str) -> Command:
    """Who may do an operation, by the member of the record that names it."""
    return lambda s: (
        line("iam", "who", "--operation", str(s.record[named]), "--target", "*") if s.record is not None else ""
    )


def access(situation: Situation) -> str:
    """What a key or an identity may do."""
    return line("iam", "access", *kind_and_id(situation.record)) if situation.record is not None else ""


def new_member(situation: Situation) -> str:
    """Adding to the group under the cursor."""
    words = ("--type", "api_key", "--id", "ID")
    return line("iam", "group", "member", "add", str(situation.record["id"]), *words) if situation.record else ""


def member(verb: str) -> Command:
    """Adding to the group that is open, or removing from it."""

    def command(situation: Situation) -> str:
        if not situation.subject:
            return ""
        kind, identifier = kind_and_id(situation.record) if verb == "remove" and situation.record else ("api_key", "ID")
        return line("iam", "group", "member", verb, situation.subject, "--type", kind, "--id", identifier)

    return command


def attachment(verb: str, of: str = "policy") -> Command:
    """Attaching and detaching, told from the policy's side or from the group's."""

    def command(situation: Situation) -> str:
        record = situation.record
        if of == "group":
            return _pair(verb, "POLICY", "group", str(record["id"])) if record is not None else ""
        if situation.subject:
            pair = kind_and_id(record) if verb == "detach" and record is not None else ("group", "ID")
            return _pair(verb, situation.subject, *pair)
        return _pair(verb, str(record["id"]), "group", "ID") if record is not None else ""

    return command


def opened(situation: Situation) -> str:
    """What an attachment leads to: a group's members, or what a key or an identity may do."""
    if situation.record is None:
        return ""
    kind, identifier = kind_and_id(situation.record)
    return line("iam", "group", "member", "list", identifier) if kind == "group" else access(situation)


def first_policy(situation: Situation) -> str:
    """The first policy that has a part in an operation."""
    record = situation.record or {}
    policies = [
        str(one["policyId"]) for one in (*record.get("by", ()), *record.get("deniedBy", ())) if "policyId" in one
    ]
    return line("iam", "policy", "get", policies[0]) if policies else ""


def _pair(verb: str, policy: str, kind: str, identifier: str) -> str:
    return line("iam", "policy", verb, policy, "--type", kind, "--id", identifier)


def version(verb: str, flag: str = "--version") -> Command:
    """A command of one version of a policy."""

    def command(situation: Situation) -> str:
        if situation.record is None:
            return ""
        one = situation.record
        return line("iam", "policy", verb, str(one["policyId"]), flag, str(one["version"]))

    return command
