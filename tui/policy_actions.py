"""The actions of the places about policies: the catalogue, groups, policies, and what is inside of them."""

from collections.abc import Mapping

from tui.action import Action, Command, Reason, Record, Situation, kind_and_id, line

PERSON_NEEDED = "this context works with an API key; groups and policies need a person who is signed in"


# --- reasons ---------------------------------------------------------------------------------------------------------


def _readable(situation: Situation) -> str:
    if situation.keyed:
        return PERSON_NEEDED
    return "" if situation.tenant else "no tenant is in use"


def _on_one(situation: Situation) -> str:
    return _readable(situation) or ("" if situation.record is not None else "nothing is selected")


def _change(situation: Situation) -> str:
    return situation.read_only or _readable(situation)


def _change_one(situation: Situation) -> str:
    return situation.read_only or _on_one(situation)


def _has_policies(situation: Situation) -> str:
    none = situation.record is not None and not situation.record.get("policyCount")
    return _change_one(situation) or ("no policy is attached to it" if none else "")


def _earlier_version(situation: Situation) -> str:
    newest = situation.record is not None and situation.record.get("newest")
    return _change_one(situation) or ("this is the version in force" if newest else "")


def _person(situation: Situation) -> str:
    """Only keys and identities are members; a person's rights come from the role."""
    record = situation.record
    group = record is not None and kind_and_id(record)[0] == "group"
    return _on_one(situation) or ("a group does nothing itself; open it to see its members" if group else "")


def _by_policy(situation: Situation) -> str:
    record = situation.record
    policies = (
        [] if record is None else [g for g in (*record.get("by", ()), *record.get("deniedBy", ())) if g.get("policyId")]
    )
    return _on_one(situation) or ("" if policies else "no policy has a part in it")


# --- commands --------------------------------------------------------------------------------------------------------


def _iam(*words: str, key: str = "id") -> Command:
    return lambda s: line("iam", *words, str(s.record[key])) if s.record is not None else ""


def _plain(*words: str) -> Command:
    return lambda _: line("iam", *words)


def _group_update(situation: Situation) -> str:
    return _update("group", situation.record)


def _policy_update(situation: Situation) -> str:
    return _update("policy", situation.record)


def _update(noun: str, record: Record | None) -> str:
    if record is None:
        return ""
    words = ("--name", str(record["name"]), "--description", str(record.get("description", "")))
    return line("iam", noun, "update", str(record["id"]), *words)


def _who(situation: Situation) -> str:
    if situation.record is None:
        return ""
    return line("iam", "who", "--operation", str(situation.record["name"]), "--target", "*")


def _access(situation: Situation) -> str:
    return line("iam", "access", *kind_and_id(situation.record)) if situation.record is not None else ""


def _member(verb: str) -> Command:
    def command(situation: Situation) -> str:
        if not situation.subject:
            return ""
        kind, identifier = kind_and_id(situation.record) if verb == "remove" and situation.record else ("api_key", "ID")
        return line("iam", "group", "member", verb, situation.subject, "--type", kind, "--id", identifier)

    return command


def _attachment(verb: str, of: str = "policy") -> Command:
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


def _pair(verb: str, policy: str, kind: str, identifier: str) -> str:
    return line("iam", "policy", verb, policy, "--type", kind, "--id", identifier)


def _version(verb: str) -> Command:
    def command(situation: Situation) -> str:
        if situation.record is None:
            return ""
        return line(
            "iam", "policy", verb, str(situation.record["policyId"]), "--version", str(situation.record["version"])
        )

    return command


# --- the table -------------------------------------------------------------------------------------------------------


def _action(
    id: str,
    title: str,
    keys: str = "",
    word: str = "",
    *,
    reason: Reason,
    command: Command = lambda _: "",
    help: str = "",
    dialog: bool = False,
    named: bool = False,
) -> Action:
    """A row; what changes something is told by its reason."""
    writes = reason in (_change, _change_one, _has_policies, _earlier_version)
    return Action(id, title, tuple(keys.split()), word, reason, command, help, dialog, named, writes)


POLICY_ACTIONS: tuple[Action, ...] = (
    _action(
        "policies.edit",
        "Open in the editor",
        "e",
        "edit",
        reason=_on_one,
        command=_iam("policy", "get"),
        help="Try it, change it, see what that gives and takes; Enter does the same",
        named=True,
    ),
    _action(
        "policies.create",
        "New policy",
        "n",
        "new",
        reason=_change,
        command=_plain("policy", "create", "--name", "NAME", "--document", "@policy.json"),
        help="Opens the editor on a document to start from",
        named=True,
    ),
    _action(
        "policies.attach",
        "Attach policy",
        "a",
        "attach",
        reason=_change_one,
        command=_attachment("attach"),
        dialog=True,
        help="To keys, workload identities or groups; what it gives is shown first",
    ),
    _action(
        "policies.attachments",
        "Attachments",
        "t",
        "attached",
        reason=_on_one,
        command=_iam("policy", "attachments"),
        help="What it is attached to; detach there",
        named=True,
    ),
    _action(
        "policies.versions",
        "Versions",
        "v",
        "versions",
        reason=_on_one,
        command=_iam("policy", "history"),
        help="What it was, what changed in text and in effect, and the way back",
        named=True,
    ),
    _action("policies.fold", "Fold the rules", "f", reason=_on_one, help="Each rule on two lines, or all of it"),
    _action(
        "policies.rename",
        "Rename or describe policy",
        "N",
        reason=_change_one,
        command=_policy_update,
        dialog=True,
        help="The document and its attachments stay as they are",
    ),
    _action(
        "policies.delete",
        "Delete policy",
        "delete",
        reason=_change_one,
        command=_iam("policy", "delete"),
        dialog=True,
        help="With its attachments and versions, for good; what is lost is shown first",
    ),
    _action(
        "groups.open",
        "Open group",
        "o",
        "members",
        reason=_on_one,
        command=_iam("group", "member", "list"),
        help="Its members; Enter does the same",
        named=True,
    ),
    _action(
        "groups.create",
        "New group",
        "n",
        "new",
        reason=_change,
        command=_plain("group", "create", "--name", "NAME"),
        dialog=True,
        named=True,
    ),
    _action(
        "groups.edit",
        "Rename or describe group",
        "e",
        "edit",
        reason=_change_one,
        command=_group_update,
        dialog=True,
    ),
    _action(
        "groups.add",
        "Add members",
        "m",
        "add",
        reason=_change_one,
        dialog=True,
        command=lambda s: (
            line("iam", "group", "member", "add", str(s.record["id"]), "--type", "api_key", "--id", "ID")
            if s.record
            else ""
        ),
        help="API keys and workload identities; what they gain is shown first",
    ),
    _action(
        "groups.attach",
        "Attach a policy to the group",
        "a",
        "attach",
        reason=_change_one,
        command=_attachment("attach", "group"),
        dialog=True,
        help="What its members gain and lose is shown first",
    ),
    _action(
        "groups.detach",
        "Detach a policy from the group",
        "",
        reason=_has_policies,
        command=_attachment("detach", "group"),
        dialog=True,
        help="What its members gain and lose is shown first",
    ),
    _action(
        "groups.delete",
        "Delete group",
        "delete",
        reason=_change_one,
        command=_iam("group", "delete"),
        dialog=True,
        help="With its membership and attachments, for good; what is lost is shown first",
    ),
    _action(
        "catalogue.who",
        "Who may do this",
        "w",
        "who may",
        reason=_on_one,
        command=_who,
        dialog=True,
        named=True,
        help="Everybody who may, with the path; Enter does the same",
    ),
    _action(
        "members.access",
        "What may it do",
        "w",
        "may do",
        reason=_person,
        command=_access,
        help="Every operation with the path group, policy, rule; Enter does the same",
        named=True,
    ),
    _action(
        "members.add",
        "Add members",
        "n",
        "add",
        reason=_change,
        command=_member("add"),
        dialog=True,
        help="API keys and workload identities; what they gain is shown first",
    ),
    _action(
        "members.remove",
        "Remove from the group",
        "delete",
        "remove",
        reason=_change_one,
        command=_member("remove"),
        dialog=True,
        help="Those marked, or the one under the cursor; what they lose is shown first",
    ),
    _action(
        "attachments.open",
        "What it is attached to",
        "o",
        "open",
        reason=_on_one,
        command=lambda s: "",
        help="A group's members, or what a key or identity may do; Enter does the same",
        named=True,
    ),
    _action(
        "attachments.attach",
        "Attach policy",
        "n",
        "attach",
        reason=_change,
        command=_attachment("attach"),
        dialog=True,
        help="To keys, workload identities or groups; what it gives is shown first",
    ),
    _action(
        "attachments.detach",
        "Detach policy",
        "delete",
        "detach",
        reason=_change_one,
        command=_attachment("detach"),
        dialog=True,
        help="From those marked, or the one under the cursor; what they lose is shown first",
    ),
    _action(
        "versions.difference",
        "Difference to now",
        "v",
        "difference",
        reason=_on_one,
        command=_version("diff"),
        dialog=True,
        help="In text and in effect for each operation; Enter does the same",
        named=True,
    ),
    _action(
        "versions.roll_back",
        "Roll back to this version",
        "b",
        "roll back",
        reason=_earlier_version,
        command=_version("rollback"),
        dialog=True,
        help="Its document becomes the newest version; what that changes is shown first",
    ),
    _action(
        "who.access",
        "What may it do",
        "w",
        "may do",
        reason=_person,
        command=_access,
        help="Every operation with the path; Enter does the same",
        named=True,
    ),
    _action(
        "access.policy",
        "Go to the policy",
        "o",
        "policy",
        reason=_by_policy,
        help="The policy that has the first word in it; Enter does the same",
        named=True,
    ),
    _action(
        "access.who",
        "Who else may do this",
        "w",
        "who may",
        reason=_on_one,
        command=lambda s: _who_of(s.record),
        dialog=True,
    ),
)


def _who_of(record: Mapping[str, object] | None) -> str:
    return line("iam", "who", "--operation", str(record["operation"]), "--target", "*") if record is not None else ""
