"""`frost iam access` and `frost iam who`: effective permissions, and the policies that grant them."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from client.api import analysis
from client.commands.command import leaf
from client.commands.completers import operation_names, principal_names
from client.commands.iam import inputs
from client.commands.invocation import Invocation
from client.commands.options import PRINCIPAL_TYPES, find_id, missing, name_or_id
from client.commands.parameters import Argument, Option
from client.tables import iam


@leaf(
    "access",
    Argument(["kind"], metavar="TYPE", type=click.Choice(PRINCIPAL_TYPES), help=", ".join(PRINCIPAL_TYPES)),
    Argument(
        ["identifier"],
        metavar="PRINCIPAL",
        callback=name_or_id,
        help="Name or ID of the key or workload identity; ID of the user.",
        shell_complete=principal_names,
    ),
    person=True,
    examples=("frost iam access api_key ci", "frost iam access user USER_ID -o wide"),
)
def access(run: Invocation, kind: str, identifier: str) -> None:
    """List the operations that a principal may perform, and why.

    A principal is an API key, a workload identity or a user of this tenant. The name of a workload identity is
    NAMESPACE/SERVICE_ACCOUNT. `iam who` shows the IDs of users. `conditional` operations depend on the target or on
    context of the request; -o wide shows on which. `denied` operations are allowed by one policy rule and always
    denied by another.

    Operations that are granted by no role, scope or policy are omitted. Writing policies is not an operation: every
    member of the organization may write policies within their own permissions.
    """
    identifier = find_id(run, kind, identifier)
    with missing(run, (kind, identifier)):
        answer = run.call_for_tenant(lambda tenant: analysis.access(tenant, kind, identifier))
    if run.output.structured:
        run.output.document(answer)
        return
    for line in _summary(answer):
        run.output.note(line)
    run.output.records(iam.ACCESS, answer["operations"])


def _summary(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the principal, its limits, its policies with their paths, and the numbers of operations."""
    principal = answer["principal"]
    works = "" if principal.get("works", True) else ", revoked or expired: every request is denied"
    yield f"{principal['type']} {principal.get('name') or principal['id']}{works}"
    for limit in answer.get("limits") or ():
        yield f"  {limit.get('kind')}: {limit.get('detail') or 'none'}"
    for policy in answer["policies"]:
        through = iam.paths_text(policy.get("paths") or (), policy.get("pathsTotal") or 0)
        text = f"  policy {policy.get('policyName')} version {policy.get('version')} {through}".rstrip()
        if policy.get("unreadable"):
            text += ", unreadable: denies everything"
        elif policy.get("orphaned"):
            text += ", without effect: the author has no permissions here any more"
        yield text
    counts = {"allowed": 0, "conditional": 0, "denied": 0}
    for operation in answer["operations"]:
        counts[operation["access"]] = counts.get(operation["access"], 0) + 1
    yield f"  operations: {', '.join(f'{number} {word}' for word, number in counts.items())}"


@leaf(
    "who",
    Option(
        ["--operation"], required=True, metavar="OPERATION", help="svc:resource:action.", shell_complete=operation_names
    ),
    Option(["--target"], required=True, metavar="TARGET", help="A resource's name (FRN), or * for all."),
    *inputs.REQUEST_FLAGS,
    person=True,
    examples=("frost iam who --operation compute:instances:delete --target '*'",),
)
def who(run: Invocation, operation: str, target: str, **facts: Any) -> None:
    """List the principals that may perform an operation, and why.

    Omitted values are unknown, as in `iam simulate`. Principals that are allowed only for some targets or values are
    listed last, as `conditional`; -o wide shows the conditions.
    """
    operation, target = inputs.operation(operation), inputs.target(target)
    known = inputs.facts(**facts)
    answer = run.call_for_tenant(lambda tenant: analysis.who(tenant, operation, target, known))
    allowed, total, examined = answer["principals"], answer["total"], answer["examined"]
    # Earlier versions of the platform list unconditional principals only.
    perhaps = answer.get("conditional") or []
    more = answer.get("conditionalTotal") or 0
    counts = {"total": total, "conditionalTotal": more, "examined": examined}
    run.output.records(iam.WHO, [*allowed, *perhaps], more_members=counts)
    under = f", {more} more conditionally" if more else ""
    run.output.note(f"{total} of {examined} principals are allowed{under}")
    if len(allowed) < total:
        run.output.warn(f"only the first {len(allowed)} of {total} allowed principals are listed")
    if len(perhaps) < more:
        run.output.warn(f"the first {len(perhaps)} of {more} conditionally allowed principals are listed")
