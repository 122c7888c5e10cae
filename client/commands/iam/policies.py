"""`frost iam policy`: policies and their attachments."""

from typing import Any

import click

from client.api import analysis, policies
from client.commands import options, output
from client.commands.command import Group, Lazy, leaf
from client.commands.completers import policy_names
from client.commands.formats import json_text
from client.commands.iam import effects, inputs
from client.commands.invocation import Invocation
from client.commands.options import (
    ATTACHEE_TYPES,
    FORCE,
    VERSION_HELP,
    find_id,
    find_named,
    missing,
    missing_version,
    name_argument,
    pair,
)
from client.commands.options import name as checked
from client.commands.parameters import Option
from client.commands.usage_errors import naming_flag
from client.errors import FrostError, usage
from client.tables import iam
from client.tables.columns import Kind
from client.tenancy import check_description
from client.texts.effects import counted

_ATTACH = "client.commands.iam.policies"
_HISTORY = "client.commands.iam.versions"

policy = Group(
    "policy",
    {
        "attach": Lazy(f"{_ATTACH}:attach", "Attach a policy to a key, an identity or a group."),
        "detach": Lazy(f"{_ATTACH}:detach", "Detach a policy from a key, an identity or a group."),
        "attachments": Lazy(f"{_ATTACH}:attachments", "List the attachments of a policy."),
        "check": Lazy(
            "client.commands.iam.simulate:check",
            "Check a policy document without saving it.",
        ),
        "history": Lazy(f"{_HISTORY}:history", "List the versions of a policy, newest first."),
        "diff": Lazy(f"{_HISTORY}:diff", "Compare two versions of a policy, as text and by effect."),
        "rollback": Lazy(f"{_HISTORY}:rollback", "Restore the document of an earlier version."),
    },
    help="Manage access policies and their attachments.",
    person=True,
)

ID = name_argument("policy_id", "POLICY", "the policy", policy_names)


@policy.leaf(
    "create",
    Option(
        ["--name"],
        required=True,
        metavar="NAME",
        help="1 to 128 characters; a name in use causes a warning.",
    ),
    inputs.document_flag(required=True),
    Option(["--description"], metavar="TEXT", help="Description, up to 1,024 characters."),
    examples=(
        "frost iam policy create --name readers --document @readers.json",
        "generate | frost iam policy create --name generated --document -",
    ),
)
def create(run: Invocation, name: str, document_: str, description: str | None) -> None:
    """Create a policy within your own permissions.

    A document that grants more is refused, with counterexamples.
    """
    name = checked(name)
    draft = inputs.read_document(run, document_)
    with inputs.locate_errors(draft), naming_flag("name", "--name"), naming_flag("description", "--description"):
        created = run.call_for_tenant(lambda tenant: policies.create(tenant, name, description or "", draft.text))
    run.output.record(iam.POLICY, created)
    _warn_of_namesakes(run, created)


def _warn_of_namesakes(run: Invocation, record: dict[str, Any]) -> None:
    """Warn if another policy has the same name or a similar one, which is easily confused. Names need not be unique.

    Errors are ignored, since the policy has been saved.
    """
    from client.models.validation import name_key  # only writes need it

    key = name_key(record["name"])
    try:
        answer = run.call_for_tenant(lambda tenant: policies.page(tenant, limit=2, similar_name=record["name"]))
    except FrostError:
        return
    for policy in answer["policies"]:
        if policy["id"] != record["id"] and name_key(policy["name"]) == key:
            equal = policy["name"] == record["name"]
            run.output.warn(
                f'policy {policy["id"]} has the {"" if equal else "similar "}name "{policy["name"]}"{" too" * equal}'
            )
            return


@policy.leaf(
    "get",
    ID,
    Option(["--version", "number"], metavar="N", type=click.IntRange(min=1), help="Show this version."),
    examples=("frost iam policy get readers", "frost iam policy get readers --version 3 -o json"),
)
def get(run: Invocation, policy_id: str, number: int | None) -> None:
    """Show a policy and its document."""
    policy_id = find_id(run, "policy", policy_id)
    if number is None:
        with missing(run, ("policy", policy_id)):
            print_policy(run, iam.POLICY, run.call_for_tenant(lambda tenant: policies.get(tenant, policy_id)))
        return
    with missing_version(run, policy_id, number):
        version = run.call_for_tenant(lambda tenant: policies.version(tenant, policy_id, number))
    print_policy(run, iam.VERSION, version)


@policy.leaf("list", *options.PAGE_FLAGS, examples=("frost iam policy list", "frost iam policy list --all -o wide"))
def list_(run: Invocation, limit: int | None, cursor: str | None, everything: bool) -> None:
    """List the tenant's policies, oldest first."""
    options.listed(
        run,
        iam.POLICY,
        lambda tenant, limit, cursor: policies.page(tenant, limit=limit, cursor=cursor),
        limit=limit,
        cursor=cursor,
        everything=everything,
    )


@policy.leaf(
    "update",
    ID,
    Option(["--name"], metavar="NAME", help="The new name."),
    Option(["--description"], metavar="TEXT", help='The new description; "" clears it.'),
    inputs.document_flag(required=False),
    Option(["--if-version"], metavar="N", type=click.IntRange(min=1), help=VERSION_HELP),
    effects.DRY_RUN,
    examples=(
        "frost iam policy update readers --document @readers.json",
        "frost iam policy update readers --document @readers.json --dry-run",
        "frost iam policy update readers --name readers --if-version 4",
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
    """Change a policy.

    Omitted values do not change. A new document makes you its author: it must stay within your own permissions.
    Earlier versions are kept.
    """
    if name is None and description is None and document_ is None:
        raise usage("nothing to change (frost iam policy update)", "use --name, --description or --document")
    name = None if name is None else checked(name)
    if description is not None:
        check_description(description)
    draft = None if document_ is None else inputs.read_document(run, document_)
    text = None if draft is None else draft.text
    policy_id = find_id(run, "policy", policy_id)
    with missing(run, ("policy", policy_id)), inputs.locate_errors(draft):
        if dry_run:
            _preview_update(run, policy_id, text, if_version)
            return
        with naming_flag("name", "--name"), naming_flag("description", "--description"):
            change = run.change_for_tenant(
                lambda tenant: policies.update(
                    tenant, policy_id, name=name, description=description, document_text=text, version=if_version
                )
            )
    run.output.record(iam.POLICY, change.record)
    if not change.changed:
        run.output.note("nothing changed: same values")
    elif name is not None:
        _warn_of_namesakes(run, change.record)


def _preview_update(run: Invocation, policy_id: str, text: str | None, if_version: int | None) -> None:
    """Print the effect of an update. A new name or description has none.

    Raises:
        FrostError: The update would fail with this error.
    """
    current = run.call_for_tenant(lambda tenant: policies.get(tenant, policy_id))["version"]
    preview: dict[str, Any] = {"principals": [], "refused": None}
    if text is not None:
        preview = dict(
            run.call_for_tenant(
                lambda tenant: analysis.preview(tenant, "updatePolicy", policyId=policy_id, documentText=text)
            )
        )
    if if_version not in (None, current):
        message = f"the current version is {current}, not {if_version}"
        preview["refused"] = {"status": 412, "code": "STALE_VERSION", "message": message}
    effects.show(run, preview)


@policy.leaf(
    "delete",
    ID,
    FORCE,
    effects.DRY_RUN,
    examples=("frost iam policy delete readers", "frost iam policy delete readers --dry-run"),
)
def delete(run: Invocation, policy_id: str, force: bool, dry_run: bool) -> None:
    """Delete a policy, its attachments and its history.

    The operations that keys and identities gain and lose are shown before the confirmation.
    """
    policy, policy_id = find_named(run, "policy", policy_id)
    version = None
    with missing(run, ("policy", policy_id)):
        if dry_run:
            effects.dry_run(run, "deletePolicy", policyId=policy_id)
            return
        if not force:
            version = _confirm_deletion(run, policy_id)
        run.change_for_tenant(lambda tenant: policies.delete(tenant, policy_id, version))
    run.output.done(f"{policy} was deleted", {"id": policy_id, "status": "deleted"})


def _confirm_deletion(run: Invocation, policy_id: str) -> int:
    """Ask for confirmation. Return the version shown, so that only this version is deleted."""
    output.needs_terminal("this deletes a policy", "use --force to skip the confirmation")
    record = run.call_for_tenant(lambda tenant: policies.get(tenant, policy_id))
    preview = effects.preview(run, lambda tenant: analysis.preview(tenant, "deletePolicy", policyId=policy_id))
    others = f"{counted(record['attachmentCount'], 'attachment')} and a version history"
    effects.confirm_deletion(run, preview, f'policy "{record["name"]}"', str(record["name"]), others)
    return int(record["version"])


def print_policy(run: Invocation, kind: Kind, record: dict[str, Any]) -> None:
    """Print a record that has a document: its row, then the document."""
    run.output.record(kind, record)
    if not run.output.structured:
        run.output.text(f"\n{json_text(record['document'])}")


@leaf(
    "attach",
    ID,
    *pair(ATTACHEE_TYPES, required=True, of="of the attachment"),
    effects.DRY_RUN,
    examples=("frost iam policy attach readers --type group --id ops",),
)
def attach(run: Invocation, policy_id: str, kind: str, identifier: str, dry_run: bool) -> None:
    """Attach a policy to a key, an identity or a group.

    The policy applies from their next request on. A key with policies may perform only operations that its scopes,
    its creator and its policies all allow.
    """
    policy, policy_id = find_named(run, "policy", policy_id)
    attachee, identifier = find_named(run, kind, identifier)
    with missing(run, ("policy", policy_id), (kind, identifier)):
        if dry_run:
            effects.dry_run(run, "attach", policyId=policy_id, principalType=kind, principalId=identifier)
            return
        change = run.change_for_tenant(lambda tenant: policies.attach(tenant, policy_id, kind, identifier))
    run.output.done(
        f"{policy} is attached to {attachee} now" if change.changed else "already attached",
        {"policyId": policy_id, "attacheeType": kind, "attacheeId": identifier, "changed": change.changed},
    )


@leaf(
    "detach",
    ID,
    *pair(ATTACHEE_TYPES, required=True, of="of the attachment"),
    effects.DRY_RUN,
    examples=("frost iam policy detach readers --type api_key --id ci",),
)
def detach(run: Invocation, policy_id: str, kind: str, identifier: str, dry_run: bool) -> None:
    """Detach a policy from a key, an identity or a group.

    The policy no longer applies from their next request on.
    """
    policy, policy_id = find_named(run, "policy", policy_id)
    attachee, identifier = find_named(run, kind, identifier)
    unrelated = f"{policy} is not attached to {attachee}"
    see = f"frost iam policy attachments {policy_id}"
    with missing(run, ("policy", policy_id), (kind, identifier), unrelated=unrelated, see=see):
        if dry_run:
            effects.dry_run(run, "detach", policyId=policy_id, principalType=kind, principalId=identifier)
            return
        run.change_for_tenant(lambda tenant: policies.detach(tenant, policy_id, kind, identifier))
    run.output.done(
        f"{policy} is no longer attached to {attachee}",
        {"policyId": policy_id, "attacheeType": kind, "attacheeId": identifier, "status": "detached"},
    )


@leaf(
    "attachments",
    ID,
    *options.PAGE_FLAGS,
    *pair(ATTACHEE_TYPES, required=False, of="of the attachment, together with --id"),
    examples=("frost iam policy attachments readers --all",),
)
def attachments(
    run: Invocation,
    policy_id: str,
    limit: int | None,
    cursor: str | None,
    everything: bool,
    kind: str | None,
    identifier: str | None,
) -> None:
    """List the attachments of a policy.

    --type and --id together select one attachment.
    """
    if (kind is None) is not (identifier is None):
        flag, needed = ("--type", "--id") if identifier is None else ("--id", "--type")
        raise usage(f"{flag} is used together with {needed} (frost iam policy attachments)", f"add {needed}")
    policy_id = find_id(run, "policy", policy_id)
    attachee = None if kind is None or identifier is None else (kind, find_id(run, kind, identifier))
    with missing(run, ("policy", policy_id)):
        options.listed(
            run,
            iam.ATTACHMENT,
            lambda tenant, limit, cursor: policies.attachment_page(
                tenant, policy_id, limit=limit, cursor=cursor, attachee=attachee
            ),
            limit=limit,
            cursor=cursor,
            everything=everything,
        )
