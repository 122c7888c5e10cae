"""`frost tenant quota` and `frost tenant quota requests`."""

import click

from client.api import quotas as calls
from client.commands import paging
from client.commands.command import Group, Lazy
from client.commands.invocation import Invocation
from client.commands.quotas import quota_options
from client.commands.tenants import WITHIN_ORGANIZATION, check_within
from client.tables import quotas

quota = Group(
    "quota",
    {
        "request": Lazy("client.commands.quotas.request:request", "Request a new limit for a resource type."),
        "what-if": Lazy("client.commands.quotas.what_if:what_if", "Show which limit a plan would exceed first."),
    },
)
ORG = click.Option(
    ["--org"], is_flag=True, help="Use the organization that owns the tenant; requires an interactive login."
)


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
        organization_id = quota_options.organization_id(run, organization)
        report = calls.quotas_of(run.call(calls.organization_report(organization_id)))
        kind = quotas.ORGANIZATION_QUOTA
    else:
        check_within(run, organization)
        report = quota_options.of_tenant(run)
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
    *paging.FLAGS,
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
        of = quota_options.organization_id(run, organization)
    else:
        check_within(run, organization)
    paging.listed(
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
