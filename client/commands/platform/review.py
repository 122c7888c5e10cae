"""`frost platform review`: review quota requests of organizations."""

import os

import click

from client.api import platform as calls
from client.commands.command import Group
from client.commands.completers import review_ids
from client.commands.ids import an_id
from client.commands.invocation import Invocation
from client.connection import Staff
from client.errors import FrostError
from client.tables import quotas
from client.tables.quotas import amount_text
from client.text import safe
from client.transport.call import MAX_PAGE_SIZE, cursors, next_cursor

review = Group("review", help="Review quota requests of organizations.")
ID = click.Argument(
    ["request_id"], metavar="REQUEST_ID", callback=an_id, help="Id from the list.", shell_complete=review_ids
)
NOTE = click.Option(["--note"], metavar="TEXT", help="Note for the requester, up to 500 characters.")
STATUSES = ("pending", "approved", "rejected", "all")


@review.leaf(
    "list",
    click.Option(
        ["--status"],
        type=click.Choice(STATUSES),
        default="pending",
        metavar="STATUS",
        help="pending (the default), approved, rejected or all.",
    ),
    examples=("frost platform review list", "frost platform review list --status all -o wide"),
)
def list_(run: Invocation, status: str) -> None:
    """List the quota requests of organizations, newest first."""
    driver = run.driver(Staff(os.environ, starts=True))
    found = []
    trail = cursors()
    cursor: str | None = next(trail)
    while cursor is not None:
        answer = driver.ask_json(
            calls.quota_request_page("" if status == "all" else status, limit=MAX_PAGE_SIZE, cursor=cursor)
        )
        found += answer["requests"]
        try:
            cursor = trail.send(next_cursor(answer))
        except StopIteration:
            cursor = None
    run.output.records(quotas.REVIEWED, found)


@review.leaf("approve", ID, NOTE, examples=("frost platform review approve 0192f7c1-5a3e-7b60-9d2f-3c5a8e7b1d04",))
def approve(run: Invocation, request_id: str, note: str | None) -> None:
    """Approve a request. The organization gets the new limit at once."""
    _decide(run, request_id, note, approved=True)


@review.leaf(
    "reject",
    ID,
    NOTE,
    aliases=("deny",),
    examples=('frost platform review reject 0192f7c1-5a3e-7b60-9d2f-3c5a8e7b1d04 --note "not before June"',),
)
def reject(run: Invocation, request_id: str, note: str | None) -> None:
    """Reject a request. The limit does not change."""
    _decide(run, request_id, note, approved=False)


def _decide(run: Invocation, request_id: str, note: str | None, *, approved: bool) -> None:
    call = calls.review_quota(request_id, approve=approved, note=note)
    try:
        made = run.driver(Staff(os.environ, starts=True)).ask_json(call)["request"]
    except FrostError as error:
        if error.gone:
            error.message = f"quota request {safe(request_id, 60)} of an organization not found"
            error.hint = "frost platform review list"
        elif error.code == "QUOTA_REQUEST_DECIDED":
            error.message = f"the request is already {safe((error.details or {}).get('status'), 40)}"
        raise
    run.output.record(quotas.REVIEWED, made)
    limit = amount_text(made["limit"], made.get("unit"))
    where = safe(made.get("organizationName") or made.get("organizationId"), 80)
    if approved:
        run.output.note(f"{made['resourceType']} of {where} is {limit} now")
    else:
        run.output.note(f"{made['resourceType']} of {where} does not change")
