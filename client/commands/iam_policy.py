"""`frost iam policy`: the policies themselves (contract: iam policy; checklist O)."""

from typing import Any

import click

from client import records_iam
from client.api import policies, trials
from client.commands import asking, document, effects, paging
from client.commands.formats import json_text
from client.commands.frame import Group, Lazy
from client.commands.iam_input import FORCE, VERSION_HELP, an_id, missing, missing_version
from client.commands.iam_input import name as checked
from client.commands.invocation import Invocation
from client.commands.names import policy_ids
from client.commands.usage import naming_flag
from client.errors import FrostError, usage
from client.records import Kind

_ATTACH = "client.commands.iam_attach"
_HISTORY = "client.commands.iam_history"

policy = Group(
    "policy",
    {
        "attach": Lazy(f"{_ATTACH}:attach", "Attach a policy to a key, an identity or a group."),
        "detach": Lazy(f"{_ATTACH}:detach", "Detach a policy from a key, an identity or a group."),
        "attachments": Lazy(f"{_ATTACH}:attachments", "List what a policy is attached to."),
        "check": Lazy(
            "client.commands.iam_check:check", "Check a document as saving it would, without saving it.", ours=True
        ),
        "history": Lazy(f"{_HISTORY}:history", "List what a policy was, newest first.", ours=True),
        "diff": Lazy(f"{_HISTORY}:diff", "Compare two versions, as text and in effect.", ours=True),
        "rollback": Lazy(f"{_HISTORY}:rollback", "Take the document of an earlier version back.", ours=True),
    },
    help="Access policies and their attachments.",
    person=True,
)

ID = click.Argument(["policy_id"], metavar="POLICY_ID", callback=an_id, shell_complete=policy_ids)


@policy.leaf(
    "create",
    click.Option(
        ["--name"],
        required=True,
        metavar="NAME",
        help="1 to 128 characters; one that is taken brings a warning.",
    ),
    document.flag(required=True),
    click.Option(["--description"], metavar="TEXT", help="What it is for, up to 1,024 characters."),
    examples=(
        "frost iam policy create --name readers --document @readers.json",
        "generate | frost iam policy create --name generated --document -",
    ),
)
def create(run: Invocation, name: str, document_: str, description: str | None) -> None:
    """Create a policy, within what you hold yourself.

    A document that would grant more is refused with examples of what it would.
    """
    name = checked(name)
    draft = document.given(run, document_)
    with document.named(draft), naming_flag("name", "--name"), naming_flag("description", "--description"):
        made = run.call_for_tenant(lambda tenant: policies.create(tenant, name, description or "", draft.text))
    run.output.record(records_iam.POLICY, made)
    _warn_of_namesakes(run, made)


def _warn_of_namesakes(run: Invocation, made: dict[str, Any]) -> None:
    """Names need not be unique (contract: Access policy), but two of one name are easily taken for each other.

    The policy is saved by now: what cannot be found out is no failure of the command.
    """
    try:
        answer = run.call_for_tenant(lambda tenant: policies.page(tenant, limit=2, name=made["name"]))
    except FrostError:
        return
    for one in answer["policies"]:
        if one["name"] == made["name"] and one["id"] != made["id"]:
            run.output.warn(f'policy {one["id"]} is named "{one["name"]}" too')
            return


@policy.leaf(
    "get",
    ID,
    click.Option(
        ["--version", "number"], metavar="N", type=click.IntRange(min=1), help="What it was in this version (frost)."
    ),
    examples=("frost iam policy get POLICY_ID", "frost iam policy get POLICY_ID --version 3 -o json"),
)
def get(run: Invocation, policy_id: str, number: int | None) -> None:
    """Show one policy with its document."""
    if number is None:
        with missing(run, ("policy", policy_id)):
            shown(run, records_iam.POLICY, run.call_for_tenant(lambda tenant: policies.get(tenant, policy_id)))
        return
    with missing_version(run, policy_id, number):
        found = run.call_for_tenant(lambda tenant: policies.version(tenant, policy_id, number))
    shown(run, records_iam.VERSION, found)


@policy.leaf("list", *paging.FLAGS, examples=("frost iam policy list", "frost iam policy list --all -o wide"))
def list_(run: Invocation, limit: int | None, cursor: str | None, everything: bool) -> None:
    """List the tenant's policies, in the order they were made."""
    paging.listed(
        run,
        records_iam.POLICY,
        lambda tenant, limit, cursor: policies.page(tenant, limit=limit, cursor=cursor),
        limit=limit,
        cursor=cursor,
        everything=everything,
    )


@policy.leaf(
    "update",
    ID,
    click.Option(["--name"], metavar="NAME", help="The new name."),
    click.Option(["--description"], metavar="TEXT", help='The new description; "" clears it.'),
    document.flag(required=False),
    click.Option(["--if-version"], metavar="N", type=click.IntRange(min=1), help=VERSION_HELP),
    effects.DRY_RUN,
    examples=(
        "frost iam policy update POLICY_ID --document @readers.json",
        "frost iam policy update POLICY_ID --document @readers.json --dry-run",
        "frost iam policy update POLICY_ID --name readers --if-version 4",
    ),
)
def update(
    run: Invocation,
    policy_id: str,
    name: str | None,
    description: str | None,
    document_: str | None,
    if_version: int | None,
    dry_run: bool,
) -> None:
    """Change a policy; what is not given stays.

    A new document makes you its author: it must stay within what you hold. The former ones are kept.
    """
    if name is None and description is None and document_ is None:
        raise usage("nothing to change (frost iam policy update)", "give --name, --description or --document")
    name = None if name is None else checked(name)
    draft = None if document_ is None else document.given(run, document_)
    text = None if draft is None else draft.text
    with missing(run, ("policy", policy_id)), document.named(draft):
        if dry_run:
            _update_played(run, policy_id, text, if_version)
            return
        with naming_flag("name", "--name"), naming_flag("description", "--description"):
            made = run.change_for_tenant(
                lambda tenant: policies.update(
                    tenant, policy_id, name=name, description=description, document_text=text, version=if_version
                )
            )
    run.output.record(records_iam.POLICY, made.record)
    if not made.changed:
        run.output.note("nothing changed: it is like that already")
    elif name is not None:
        _warn_of_namesakes(run, made.record)


def _update_played(run: Invocation, policy_id: str, text: str | None, if_version: int | None) -> None:
    """The effect of an update; that of a name or a description is none."""
    now = run.call_for_tenant(lambda tenant: policies.get(tenant, policy_id))["version"]
    if if_version not in (None, now):
        run.output.warn(f"it is version {now} by now: with --if-version {if_version} the change would be refused")
    if text is None:
        effects.told(run, {"principals": []})
    else:
        effects.dry_run(run, "updatePolicy", policyId=policy_id, documentText=text)


@policy.leaf(
    "delete",
    ID,
    FORCE,
    effects.DRY_RUN,
    examples=("frost iam policy delete POLICY_ID", "frost iam policy delete POLICY_ID --dry-run"),
)
def delete(run: Invocation, policy_id: str, force: bool, dry_run: bool) -> None:
    """Delete a policy, its attachments and its history.

    What keys and identities gain and lose by it is said before you are asked.
    """
    version = None
    with missing(run, ("policy", policy_id)):
        if dry_run:
            effects.dry_run(run, "deletePolicy", policyId=policy_id)
            return
        if not force:
            version = _confirmed(run, policy_id)
        run.change_for_tenant(lambda tenant: policies.delete(tenant, policy_id, version))
    run.output.done(f"policy {policy_id} is deleted", {"id": policy_id, "status": "deleted"})


def _confirmed(run: Invocation, policy_id: str) -> int:
    """Ask; the version that was shown, so that only what was confirmed is deleted."""
    asking.needs_terminal("this deletes a policy", "--force does it without a question")
    found = run.call_for_tenant(lambda tenant: policies.get(tenant, policy_id))
    preview = effects.preview(run, lambda tenant: trials.preview(tenant, "deletePolicy", policyId=policy_id))
    beside = (
        f"{effects.counted(found['attachmentCount'], 'attachment')} and {effects.counted(found['version'], 'version')}"
    )
    effects.confirm_deletion(run, preview, f'policy "{found["name"]}"', str(found["name"]), beside)
    return int(found["version"])


def shown(run: Invocation, kind: Kind, found: dict[str, Any]) -> None:
    """A record that has a document: its row, and the document below it."""
    run.output.record(kind, found)
    if not run.output.structured:
        run.output.text(f"\n{json_text(found['document'])}")
