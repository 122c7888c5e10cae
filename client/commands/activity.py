"""`frost tenant activity`: the audit log of a tenant or an organization."""

from functools import partial

import click

from client.api import activity as calls
from client.commands import options
from client.commands.command import leaf
from client.commands.invocation import Invocation
from client.commands.parameters import Option
from client.commands.quotas.quota import owning_organization_id
from client.commands.tenants import WITHIN_ORGANIZATION, check_within
from client.errors import usage
from client.tables.activity import ACTIVITY, folded_rows
from client.text import safe
from client.transport.call import Call

OUTCOMES = ("done", "refused", "failed")
_HINTS = {
    "--operation": "list the operations with -o wide, in column OPERATION",
    "--actor": "use the address of a member of the organization, or any id; -o wide shows both",
}


@leaf(
    "activity",
    Option(["--operation"], metavar="NAME", help="Audit event (policy.attach) or resource type (policy)."),
    Option(["--actor"], metavar="WHO", help="E-mail address of a member, or ID of a user, key or identity."),
    Option(["--outcome"], type=click.Choice(OUTCOMES), metavar="OUTCOME", help=f"One of: {', '.join(OUTCOMES)}."),
    Option(["--since"], metavar="WHEN", help="Age (2h, 3d), date (its start in local time) or RFC 3339 timestamp."),
    Option(["--target"], metavar="KIND:ID", help="Changed resource, as policy:ID or api_key:ID."),
    Option(["--org"], is_flag=True, help="Show entries of the organization instead of a tenant."),
    *options.PAGE_FLAGS,
    WITHIN_ORGANIZATION,
    person=True,
    examples=(
        "frost tenant activity --since 2d",
        "frost tenant activity --operation policy --outcome refused -o wide",
        "frost tenant activity --actor owner@aurora.example --all -o json",
    ),
)
def activity(
    run: Invocation,
    operation: str | None,
    actor: str | None,
    outcome: str | None,
    since: str | None,
    target: str | None,
    org: bool,
    limit: int | None,
    cursor: str | None,
    everything: bool,
    organization: str | None,
) -> None:
    """List the entries of the audit log, newest first.

    For owners and admins of the tenant's organization. A table has a sentence for each entry, and one for entries of
    the same kind that follow each other; -o wide and -o json have every entry with its operation. Names are those of
    existing resources.
    """
    for flag, value in (("--operation", operation), ("--actor", actor), ("--target", target)):
        if value == "":
            raise usage(f"{flag} requires a value")
    from client import times

    begin = ""
    if since is not None:
        begin = times.past_instant_text(since, "--since")
        run.check_time_zone(since)
    which = calls.ActivityFilter(operation or "", actor or "", outcome or "", begin, target or "")
    if org:
        of = owning_organization_id(run, organization, "entries")
    else:
        check_within(run, organization)

    def page_of(tenant: str, which: calls.ActivityFilter, limit: int | None, cursor: str) -> Call[object]:
        if org:
            return calls.organization_page(of, which, limit=limit, cursor=cursor)
        return calls.page(tenant, which, limit=limit, cursor=cursor)

    number = options.listed(
        run,
        ACTIVITY,
        lambda tenant, limit, cursor: page_of(tenant, which, limit, cursor),
        limit=limit,
        cursor=cursor,
        everything=everything,
        rows=lambda items: folded_rows(items, times.now()),
    )
    if number or cursor:
        return
    for flag, value, alone, what in (
        ("--operation", operation, calls.ActivityFilter(operation=operation or ""), "is named"),
        ("--actor", actor, calls.ActivityFilter(actor=actor or ""), "is by"),
    ):
        # The filter has no match even without the others: it is probably a mistake.
        if value and not run.call_for_tenant(partial(page_of, which=alone, limit=1, cursor=""))["entries"]:
            run.output.note(f"{flag}: no entry {what} {safe(value, 60)}; {_HINTS[flag]}")
