"""Actions of the IAM screens."""

from client.tables.columns import kind_and_id
from tui.iam import commands
from tui.shell.action import PERSON_NEEDED, Action, ActionContext, Command, Reason

# --- reasons ---------------------------------------------------------------------------------------------------------


def _readable(context: ActionContext) -> str:
    if context.keyed:
        return PERSON_NEEDED
    return "" if context.tenant else "no tenant is in use"


def _on_one(context: ActionContext) -> str:
    return _readable(context) or ("" if context.record is not None else "nothing is selected")


def _change(context: ActionContext) -> str:
    return context.read_only or _readable(context)


def _change_one(context: ActionContext) -> str:
    return context.read_only or _on_one(context)


def _has_policies(context: ActionContext) -> str:
    none = context.record is not None and not context.record.get("policyCount")
    return _change_one(context) or ("no policy is attached to it" if none else "")


def _earlier_version(context: ActionContext) -> str:
    newest = context.record is not None and context.record.get("newest")
    return _change_one(context) or ("this is the version in force" if newest else "")


def _person(context: ActionContext) -> str:
    """A group performs no operations itself; its members do."""
    record = context.record
    group = record is not None and kind_and_id(record)[0] == "group"
    return _on_one(context) or ("a group does nothing itself; open it to see its members" if group else "")


def _by_policy(context: ActionContext) -> str:
    record = context.record
    policies = (
        [] if record is None else [g for g in (*record.get("by", ()), *record.get("deniedBy", ())) if g.get("policyId")]
    )
    return _on_one(context) or ("" if policies else "no policy has a part in it")


# --- actions ---------------------------------------------------------------------------------------------------------


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
    marked: bool = False,
) -> Action:
    """Create an action. Its `reason` determines whether it writes."""
    writes = reason in (_change, _change_one, _has_policies, _earlier_version)
    return Action(id, title, tuple(keys.split()), word, reason, command, help, dialog, named, writes, marked)


POLICY_ACTIONS: tuple[Action, ...] = (
    _action(
        "policies.edit",
        "Open in the editor",
        "e",
        "edit",
        reason=_on_one,
        command=commands.iam("policy", "get"),
        help="Try it, change it, see what that gives and takes; Enter does the same",
        named=True,
    ),
    _action(
        "policies.create",
        "New policy",
        "n",
        "new",
        reason=_change,
        command=commands.plain("policy", "create", "--name", "NAME", "--document", "@policy.json"),
        help="Opens the editor on a document to start from",
        named=True,
    ),
    _action(
        "policies.attach",
        "Attach policy",
        "a",
        "attach",
        reason=_change_one,
        command=commands.attachment("attach"),
        dialog=True,
        help="To keys, workload identities or groups; what it gives is shown first",
    ),
    _action(
        "policies.attachments",
        "Attachments",
        "t",
        "attached",
        reason=_on_one,
        command=commands.iam("policy", "attachments"),
        help="What it is attached to; detach there",
        named=True,
    ),
    _action(
        "policies.versions",
        "Versions",
        "v",
        "versions",
        reason=_on_one,
        command=commands.iam("policy", "history"),
        help="What it was, what changed in text and in effect, and the way back",
        named=True,
    ),
    _action("policies.fold", "Fold the rules", "f", reason=_on_one, help="Each rule on two lines, or all of it"),
    _action(
        "policies.rename",
        "Rename or describe policy",
        "N",
        reason=_change_one,
        command=commands.policy_update,
        dialog=True,
        help="The document and its attachments stay as they are",
    ),
    _action(
        "policies.delete",
        "Delete policy",
        "delete",
        reason=_change_one,
        command=commands.iam("policy", "delete"),
        dialog=True,
        help="With its attachments and versions, for good; what is lost is shown first",
    ),
    _action(
        "groups.open",
        "Open group",
        "o",
        "members",
        reason=_on_one,
        command=commands.iam("group", "member", "list"),
        help="Its members; Enter does the same",
        named=True,
    ),
    _action(
        "groups.create",
        "New group",
        "n",
        "new",
        reason=_change,
        command=commands.plain("group", "create", "--name", "NAME"),
        dialog=True,
        named=True,
    ),
    _action(
        "groups.edit",
        "Rename or describe group",
        "e",
        "edit",
        reason=_change_one,
        command=commands.group_update,
        dialog=True,
    ),
    _action(
        "groups.add",
        "Add members",
        "m",
        "add",
        reason=_change_one,
        dialog=True,
        command=commands.new_member,
        help="API keys and workload identities; what they gain is shown first",
    ),
    _action(
        "groups.attach",
        "Attach a policy to the group",
        "a",
        "attach",
        reason=_change_one,
        command=commands.attachment("attach", "group"),
        dialog=True,
        help="What its members gain and lose is shown first",
    ),
    _action(
        "groups.detach",
        "Detach a policy from the group",
        "",
        reason=_has_policies,
        command=commands.attachment("detach", "group"),
        dialog=True,
        help="What its members gain and lose is shown first",
    ),
    _action(
        "groups.delete",
        "Delete group",
        "delete",
        reason=_change_one,
        command=commands.iam("group", "delete"),
        dialog=True,
        help="With its membership and attachments, for good; what is lost is shown first",
    ),
    _action(
        "catalogue.who",
        "Who may do this",
        "w",
        "who may",
        reason=_on_one,
        command=commands.who("name"),
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
        command=commands.access,
        help="Every operation with the path group, policy, rule; Enter does the same",
        named=True,
    ),
    _action(
        "members.add",
        "Add members",
        "n",
        "add",
        reason=_change,
        command=commands.member("add"),
        dialog=True,
        help="API keys and workload identities; what they gain is shown first",
    ),
    _action(
        "members.remove",
        "Remove from the group",
        "delete",
        "remove",
        reason=_change_one,
        command=commands.member("remove"),
        dialog=True,
        marked=True,
        help="Those marked, or the one under the cursor; what they lose is shown first",
    ),
    _action(
        "attachments.open",
        "What it is attached to",
        "o",
        "open",
        reason=_on_one,
        command=commands.opened,
        help="A group's members, or what a key or identity may do; Enter does the same",
        named=True,
    ),
    _action(
        "attachments.attach",
        "Attach policy",
        "n",
        "attach",
        reason=_change,
        command=commands.attachment("attach"),
        dialog=True,
        help="To keys, workload identities or groups; what it gives is shown first",
    ),
    _action(
        "attachments.detach",
        "Detach policy",
        "delete",
        "detach",
        reason=_change_one,
        command=commands.attachment("detach"),
        dialog=True,
        marked=True,
        help="From those marked, or the one under the cursor; what they lose is shown first",
    ),
    _action(
        "versions.difference",
        "Difference to now",
        "v",
        "difference",
        reason=_on_one,
        command=commands.version("diff", "--from"),
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
        command=commands.version("rollback"),
        dialog=True,
        help="Its document becomes the newest version; what that changes is shown first",
    ),
    _action(
        "who.access",
        "What may it do",
        "w",
        "may do",
        reason=_person,
        command=commands.access,
        help="Every operation with the path; Enter does the same",
        named=True,
    ),
    _action(
        "access.policy",
        "Go to the policy",
        "o",
        "policy",
        reason=_by_policy,
        command=commands.first_policy,
        help="The policy that has the first word in it; Enter does the same",
        named=True,
    ),
    _action(
        "access.who",
        "Who else may do this",
        "w",
        "who may",
        reason=_on_one,
        command=commands.who("operation"),
        dialog=True,
    ),
)
