"""`frost iam policy attach|detach|attachments` (contract: Attachment; checklist H)."""

from client import records_iam
from client.api import policies
from client.commands import effects, paging
from client.commands.frame import leaf
from client.commands.iam_input import ATTACHEE_TYPES, missing, pair
from client.commands.iam_policy import ID
from client.commands.invocation import Invocation
from client.errors import usage


@leaf(
    "attach",
    ID,
    *pair(ATTACHEE_TYPES, required=True, verb="it is attached to"),
    effects.DRY_RUN,
    examples=("frost iam policy attach POLICY_ID --type group --id GROUP_ID",),
)
def attach(run: Invocation, policy_id: str, kind: str, identifier: str, dry_run: bool) -> None:
    """Attach a policy to a key, an identity or a group.

    It counts from their next request on. A key with a policy may do only what its scopes, its creator and its
    policies all allow.
    """
    with missing(run, ("policy", policy_id), (kind, identifier)):
        if dry_run:
            effects.dry_run(run, "attach", policyId=policy_id, principalType=kind, principalId=identifier)
            return
        made = run.change_for_tenant(lambda tenant: policies.attach(tenant, policy_id, kind, identifier))
    run.output.done(
        f"policy {policy_id} is attached to {kind} {identifier} now" if made.changed else "already attached",
        {"policyId": policy_id, "attacheeType": kind, "attacheeId": identifier, "changed": made.changed},
    )


@leaf(
    "detach",
    ID,
    *pair(ATTACHEE_TYPES, required=True, verb="it is detached from"),
    effects.DRY_RUN,
    examples=("frost iam policy detach POLICY_ID --type api_key --id KEY_ID",),
)
def detach(run: Invocation, policy_id: str, kind: str, identifier: str, dry_run: bool) -> None:
    """Detach a policy from a key, an identity or a group.

    It no longer counts from their next request on.
    """
    unrelated = f"policy {policy_id} is not attached to {kind} {identifier}"
    see = f"frost iam policy attachments {policy_id}"
    with missing(run, ("policy", policy_id), (kind, identifier), unrelated=unrelated, see=see):
        if dry_run:
            effects.dry_run(run, "detach", policyId=policy_id, principalType=kind, principalId=identifier)
            return
        run.change_for_tenant(lambda tenant: policies.detach(tenant, policy_id, kind, identifier))
    run.output.done(
        f"policy {policy_id} is no longer attached to {kind} {identifier}",
        {"policyId": policy_id, "attacheeType": kind, "attacheeId": identifier, "status": "detached"},
    )


@leaf(
    "attachments",
    ID,
    *paging.FLAGS,
    *pair(ATTACHEE_TYPES, required=False, verb="to look for, together with --id"),
    examples=("frost iam policy attachments POLICY_ID --all",),
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
    """List what a policy is attached to.

    --type and --id together ask for one.
    """
    attachee = None
    if kind is not None and identifier is not None:
        attachee = (kind, identifier)
    elif kind is not None or identifier is not None:
        given, needed = ("--type", "--id") if identifier is None else ("--id", "--type")
        raise usage(f"{given} is used together with {needed} (frost iam policy attachments)", f"add {needed}")
    with missing(run, ("policy", policy_id)):
        paging.listed(
            run,
            records_iam.ATTACHMENT,
            lambda tenant, limit, cursor: policies.attachment_page(
                tenant, policy_id, limit=limit, cursor=cursor, attachee=attachee
            ),
            limit=limit,
            cursor=cursor,
            everything=everything,
        )
