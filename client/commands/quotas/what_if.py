"""`frost tenant quota what-if`: the first limit that a plan exceeds, and the requests that it needs."""

from collections.abc import Sequence

import click

from client import quota_rules
from client.commands.command import leaf
from client.commands.completers import planned_types
from client.commands.invocation import Invocation
from client.commands.quotas import quota_options
from client.commands.tenants import WITHIN_ORGANIZATION, check_within
from client.errors import usage
from client.tables import quotas
from client.tables.columns import quantity
from client.text import safe

_ANSWERS = {
    quota_rules.FITS: "fits",
    quota_rules.AT_ONCE: "request it",
    quota_rules.REVIEW: "needs review (--org)",
    quota_rules.SUPPORT: "contact support",
    quota_rules.UNKNOWN: "use unknown",
}


@leaf(
    "what-if",
    click.Argument(
        ["plan"],
        metavar="TYPE=N…",
        nargs=-1,
        required=True,
        help="Amount to add to a resource type, in its unit (MB for ram, GB for storage).",
        shell_complete=planned_types,
    ),
    WITHIN_ORGANIZATION,
    examples=("frost tenant quota what-if instance=4 vcpu=16 ram=65536",),
)
def what_if(run: Invocation, plan: tuple[str, ...], organization: str | None) -> None:
    """Show which limit a plan would exceed first.

    Shows for each type whether the plan fits. If not, shows whether the limit can be raised at once, needs the
    organization's review, or can be changed only by support. Nothing is requested.
    """
    additions = _additions(plan)
    check_within(run, organization)
    report = quota_options.of_tenant(run)
    for resource_type in additions:
        quota_options.the_quota(report, resource_type)
    answer = quota_rules.what_if(report, additions)
    if run.output.structured:
        run.output.document(answer.document())
    else:
        rows = [{**need.document(), "answer": _ANSWERS[need.answer]} for need in answer.needs]
        run.output.records(quotas.NEED, rows)
    for line in _lines(answer):
        run.output.note(line)


def _additions(plan: Sequence[str]) -> dict[str, int]:
    """Parse a plan to amounts by type. Raises FrostError (exit 2) for an argument not `TYPE=N` or a repeated type."""
    additions: dict[str, int] = {}
    for pair in plan:
        resource_type, equals, amount = pair.partition("=")
        if not equals or not resource_type:
            raise usage(f"a plan is TYPE=N, not {safe(pair, 60)!r}", "like instance=4 (frost tenant quota what-if)")
        if resource_type in additions:
            raise usage(f"{safe(resource_type, 60)} is given twice (frost tenant quota what-if)")
        additions[resource_type] = quota_options.number(amount, resource_type)
    return additions


def _lines(plan: quota_rules.Plan) -> list[str]:
    lines = []
    if plan.fits:
        lines.append(f"it fits, {plan.times:,} times over" if plan.times else "it fits")
    elif plan.fits is None:
        lines.append("it fits as far as the use is known; limits apply to unknown use too")
    else:
        lines.append("it does not fit")
    if plan.first is not None:
        lines.append(f"the first limit to be exceeded is {plan.first}")
    for need in plan.needs:
        if need.answer == quota_rules.AT_ONCE and need.after is not None:
            command = f"frost tenant quota request {need.resource_type} {need.after} --reason TEXT"
            lines.append(f"{quantity(need.short, need.unit)} of {need.resource_type} short; at once: {command}")
        elif need.answer == quota_rules.REVIEW:
            lines.append(_reviewed(need))
        elif need.answer == quota_rules.SUPPORT:
            lines.append(f"the limit of {need.resource_type} can be changed only by support")
    return lines


def _reviewed(need: quota_rules.Need) -> str:
    """Explain why a limit cannot be raised without review, and how to request the organization's limit."""
    least = need.addition if need.after is None else need.after
    short = quantity(max(least - need.limit, 0), need.unit)
    return (
        f"{short} of {need.resource_type} short; {quantity(least, need.unit)} is more than the "
        f"{quantity(need.requestable, need.unit)} that need no review; for the organization, whose limit is shown by "
        f"frost tenant quota --org: frost tenant quota request {need.resource_type} NEW_LIMIT --org --reason TEXT"
    )
