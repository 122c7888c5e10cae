"""`frost tenant quota`: use and limits, requests, and what a plan needs; and arguments of the quota commands."""

from collections.abc import Mapping, Sequence
from typing import Any

from client import quota_rules
from client.api import quotas as calls
from client.api import tenants
from client.commands import options
from client.commands.command import Group, Lazy, leaf
from client.commands.completers import planned_types
from client.commands.invocation import Invocation
from client.commands.parameters import Argument, Option
from client.commands.tenants import WITHIN_ORGANIZATION, check_within, find_organization_id
from client.errors import Exit, FrostError, usage
from client.tables import quotas
from client.tables.columns import quantity
from client.text import safe

quota = Group(
    "quota",
    {
        "request": Lazy("client.commands.quotas.request:request", "Request a new limit for a resource type."),
        "what-if": Lazy("client.commands.quotas.quota:what_if", "Show which limit a plan would exceed first."),
    },
)
ORG = Option(["--org"], is_flag=True, help="Use the organization that owns the tenant; requires an interactive login.")


@quota.alone(
    ORG,
    WITHIN_ORGANIZATION,
    examples=(
        "frost tenant quota",
        "frost tenant quota --org -o wide",
        'frost tenant quota request vcpu 40 --reason "launch"',
    ),
)
def show(run: Invocation, org: bool, organization: str | None) -> None:
    """Show quota usage and request changes.

    An unknown use is shown as —: it is not 0, and the limit still applies. With --org, show the use of the
    organization; ALLOCATED is the sum of its tenants' limits. Memory is counted in MB and shown in GB.
    """
    if org:
        organization_id = owning_organization_id(run, organization)
        report = calls.quotas_of(run.call(calls.organization_report(organization_id)))
        kind = quotas.ORGANIZATION_QUOTA
    else:
        check_within(run, organization)
        report = tenant_quotas(run)
        kind = quotas.QUOTA
    if not run.output.structured and not run.output.wide:
        report = [one for one in report if one["limit"] or one["resourceType"] not in calls.UNREQUESTABLE]
    run.output.records(kind, report)
    over = [one["resourceType"] for one in report if one["used"] is not None and one["used"] > one["limit"]]
    if over:
        run.output.note(f"over the limit: {', '.join(over)}")


@quota.leaf(
    "requests",
    ORG,
    *options.PAGE_FLAGS,
    WITHIN_ORGANIZATION,
    examples=("frost tenant quota requests", "frost tenant quota requests --org -o wide"),
)
def requests(
    run: Invocation, org: bool, limit: int | None, cursor: str | None, everything: bool, organization: str | None
) -> None:
    """List quota requests and decisions, newest first.

    In an interactive login, the organization's requests in review are listed too; with --org, all requests of the
    organization.
    """
    if org:
        of = owning_organization_id(run, organization)
    else:
        check_within(run, organization)
    options.listed(
        run,
        quotas.QUOTA_REQUEST,
        lambda tenant, limit, cursor: (
            calls.organization_request_page(of, limit=limit, cursor=cursor)
            if org
            else calls.request_page(tenant, limit=limit, cursor=cursor)
        ),
        limit=limit,
        cursor=cursor,
        everything=everything,
    )


_ANSWERS = {
    quota_rules.FITS: "fits",
    quota_rules.AT_ONCE: "request it",
    quota_rules.REVIEW: "needs review (--org)",
    quota_rules.SUPPORT: "contact support",
    quota_rules.UNKNOWN: "use unknown",
}


@leaf(
    "what-if",
    Argument(
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
    organization's review, or can be changed only by support. Nothing is requested. Exits with code 1 if the plan does
    not fit, and with 0 if it fits where the use is known.
    """
    additions = _additions(plan)
    check_within(run, organization)
    report = tenant_quotas(run)
    for resource_type in additions:
        find_quota(report, resource_type)
    answer = quota_rules.what_if(report, additions)
    if run.output.structured:
        run.output.document(answer.document())
    else:
        rows = [{**need.wire(), "answer": _ANSWERS[need.answer]} for need in answer.needs]
        run.output.records(quotas.NEED, rows)
    for line in _lines(answer):
        run.output.note(line)
    if answer.fits is False:
        from click.exceptions import Exit as End

        raise End(Exit.REFUSED)


def _additions(plan: Sequence[str]) -> dict[str, int]:
    """Parse a plan to amounts by type. Raises FrostError (exit 2) for an argument not `TYPE=N` or a repeated type."""
    additions: dict[str, int] = {}
    for pair in plan:
        resource_type, equals, amount = pair.partition("=")
        if not equals or not resource_type:
            raise usage(f"a plan is TYPE=N, not {safe(pair, 60)!r}", "like instance=4 (frost tenant quota what-if)")
        if resource_type in additions:
            raise usage(f"{safe(resource_type, 60)} is repeated (frost tenant quota what-if)")
        additions[resource_type] = parse_number(amount, resource_type)
    return additions


def _lines(plan: quota_rules.Plan) -> list[str]:
    lines = []
    if plan.fits:
        lines.append(f"the plan fits {plan.times_text}".rstrip())
    elif plan.fits is None:
        lines.append("the plan fits where the use is known; limits also apply where it is unknown")
    else:
        lines.append("the plan does not fit")
    if plan.first is not None:
        lines.append(f"the first limit to be exceeded is {plan.first}")
    for need in plan.needs:
        if need.answer == quota_rules.AT_ONCE:
            command = f"frost tenant quota request {need.resource_type} {need.least} --reason TEXT"
            lines.append(f"{_short_text(need)}; at once: {command}")
        elif need.answer == quota_rules.REVIEW:
            lines.append(_review_text(need))
        elif need.answer == quota_rules.SUPPORT:
            lines.append(f"the limit of {need.resource_type} can be changed only by support")
    return lines


def _review_text(need: quota_rules.Need) -> str:
    """Explain why a limit cannot be raised without review, and how to request the organization's limit."""
    return (
        f"{_short_text(need)}; {quantity(need.least, need.unit)} is more than the "
        f"{quantity(need.requestable, need.unit)} that need no review; for the organization, whose limit is shown by "
        f"frost tenant quota --org: frost tenant quota request {need.resource_type} NEW_LIMIT --org --reason TEXT"
    )


def _short_text(need: quota_rules.Need) -> str:
    short = f"{quantity(max(need.least - need.limit, 0), need.unit)} of {need.resource_type} short"
    return f"at least {short}; its use is unknown" if need.after is None else short


def parse_number(text: str, name: str) -> int:
    """Parse a whole number in plain digits, 0 to 2^53. Raises FrostError (exit 2)."""
    from client.quota_rules import LARGEST, whole_number

    try:
        return whole_number(text)
    except ValueError as error:
        raise usage(f"{name} takes a whole number in digits, at most {LARGEST}, not {safe(text, 60)!r}") from error


def parse_reason(text: str) -> str:
    """Return a reason in canonical form. Raises FrostError (exit 2) if it is empty or over 500 characters."""
    from client.quota_rules import normalize_reason

    try:
        return normalize_reason(text)
    except ValueError as error:
        raise usage(f"--reason: {error} (frost tenant quota request)") from error


def check_requestable(resource_type: str) -> None:
    """Refuse resource types whose limit only support can change. Raises FrostError (exit 2)."""
    if resource_type in calls.UNREQUESTABLE:
        raise usage(
            f"the limit of {resource_type} cannot be requested", "contact support", code="QUOTA_NOT_REQUESTABLE"
        )


def find_quota(report: Sequence[Mapping[str, Any]], resource_type: str) -> Mapping[str, Any]:
    """Return the quota of a resource type, in exact spelling. Raises FrostError (exit 2) with the known types."""
    for one in report:
        if one["resourceType"] == resource_type:
            return one
    known = list(dict.fromkeys((*(str(one["resourceType"]) for one in report), *(name for name, *_ in calls.IMAGES))))
    near = _nearest(resource_type, known)
    hint = f"did you mean {near}? The types are" if near else "the types are"
    error = usage(
        f"unknown resource type {safe(resource_type, 60)!r}",
        f"{hint}: {safe(', '.join(known), 2000)}",
        code="UNKNOWN_RESOURCE_TYPE",
    )
    error.details = {"known": known}
    raise error


def _nearest(text: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(text.casefold(), known, 1)), "")


def tenant_quotas(run: Invocation) -> list[dict[str, Any]]:
    """Return every quota of the selected tenant, including images."""
    report, limits, usage_ = (run.call_for_tenant(call) for call in (calls.report, calls.limits, calls.usage))
    return calls.complete(report, limits, usage_)


def owning_organization_id(run: Invocation, flag_value: str | None, what: str = "quotas") -> str:
    """Return the organization of `--org`: `--organization` if set, else the owner of the selected tenant.

    Args:
        run: The command.
        flag_value: The value of `--organization`.
        what: The requested data, for the error.

    Raises:
        FrostError: There is no such organization (exit 5), or only a person may look it up (exit 4): no other scope
            would help.
    """
    if flag_value is not None:
        return find_organization_id(run, flag_value)
    try:
        return str(run.call_for_tenant(tenants.get)["organizationId"])
    except FrostError as error:
        if error.code != "INSUFFICIENT_SCOPE":
            raise
        refused = FrostError(
            f"the {what} of an organization require an interactive login",
            code="SESSION_REQUIRED",
            hint="use an interactive login: frost login",
            exit_code=Exit.NOT_ALLOWED,
        )
        run.point_to_person(refused)
        raise refused from error
