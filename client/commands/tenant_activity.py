"""`frost tenant activity` (ours): what was done in a tenant or an organization, and what was refused there."""

import re
from datetime import timedelta
from functools import partial

import click

from client import clock
from client.api import activity as calls
from client.commands import paging, quota_input
from client.commands.frame import leaf
from client.commands.invocation import Invocation
from client.commands.tenant_input import BESIDE, check_within
from client.core import Call
from client.errors import usage
from client.records_activity import ACTIVITY
from client.text import safe

OUTCOMES = ("done", "refused", "failed")
_AGE = re.compile(r"([0-9]+)([smhdw])", re.ASCII)
_HINTS = {
    "--operation": "without --operation the column WHAT says what they are called",
    "--actor": "an address finds who is a member of the organization, an id anybody; -o wide shows both",
}
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@leaf(
    "activity",
    click.Option(["--operation"], metavar="NAME", help="One (policy.attach), or all on a kind of thing (policy)."),
    click.Option(["--actor"], metavar="WHO", help="E-mail of a member, or the id of a person, a key or an identity."),
    click.Option(["--outcome"], type=click.Choice(OUTCOMES), metavar="OUTCOME", help=f"One of: {', '.join(OUTCOMES)}."),
    click.Option(["--since"], metavar="WHEN", help="2h, 3d, a date (its beginning here) or an RFC 3339 timestamp."),
    click.Option(["--target"], metavar="KIND:ID", help="What it was done to, as policy:ID or api_key:ID."),
    click.Option(["--org"], is_flag=True, help="Of the organization itself, outside of its tenants."),
    *paging.FLAGS,
    BESIDE,
    ours=True,
    person=True,
    examples=(
        "frost tenant activity --since 2d",
        "frost tenant activity --operation policy --outcome refused -o wide",
        "frost tenant activity --actor astrid@aurora.example --all -o json",
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
    """List who did what, and what was refused, newest first.

    The audit log of the tenant, for owners and admins of its organization. Names are those of what is still there;
    what was deleted is told by its id.
    """
    for flag, value in (("--operation", operation), ("--actor", actor), ("--target", target)):
        if value == "":
            raise usage(f"{flag} needs a value, an empty one was given")
    begin = since_text(since) if since is not None else ""
    which = calls.Which(operation or "", actor or "", outcome or "", begin, target or "")
    if org:
        of = quota_input.organization_id(run, organization, "entries")
    else:
        check_within(run, organization)

    def page_of(tenant: str, which: calls.Which, limit: int | None, cursor: str) -> Call:
        if org:
            return calls.organization_page(of, which, limit=limit, cursor=cursor)
        return calls.page(tenant, which, limit=limit, cursor=cursor)

    number = paging.listed(
        run,
        ACTIVITY,
        lambda tenant, limit, cursor: page_of(tenant, which, limit, cursor),
        limit=limit,
        cursor=cursor,
        everything=everything,
    )
    if number or cursor:
        return
    for flag, value, alone, what in (
        ("--operation", operation, calls.Which(operation=operation or ""), "is called"),
        ("--actor", actor, calls.Which(actor=actor or ""), "is by"),
    ):
        # Alone it finds nothing either: more likely a slip than that nothing was ever done.
        if value and not run.call_for_tenant(partial(page_of, which=alone, limit=1, cursor=""))["entries"]:
            run.output.note(f"{flag}: no entry {what} {safe(value, 60)}; {_HINTS[flag]}")


def _ago(text: str, number: str, seconds: int) -> str:
    from client import expiry

    try:
        return expiry.wire(clock.now() - timedelta(seconds=int(number) * seconds))
    except (ValueError, OverflowError):  # before the first year, or more digits than a number has
        raise usage(f"--since: {safe(text, 60)} is too long ago; leave --since out for everything") from None


def since_text(text: str) -> str:
    """What was typed as an instant of the wire: so long ago, a day from its beginning here, or a timestamp.

    Raises:
        FrostError: It is none of them (exit 2).
    """
    from datetime import UTC, date, datetime, time

    from client import expiry

    try:
        if ago := _AGE.fullmatch(text):
            return _ago(text, ago[1], _SECONDS[ago[2]])
        if expiry.is_date(text):
            midnight = datetime.combine(date.fromisoformat(text), time.min)
            return expiry.wire(datetime.fromtimestamp(midnight.timestamp(), UTC))
        if expiry.is_timestamp(text):
            return expiry.wire(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):
        pass  # no such day or time
    raise usage(
        f"--since: {safe(text, 60)!r} is no age (30m, 2h, 3d), no date (YYYY-MM-DD) and no RFC 3339 timestamp"
        " (2027-01-31T12:00:00Z)"
    )
