"""`frost platform account|operations|review`: administration of the local platform by its operator."""

import os
from typing import Any

import click

from client.api import platform as calls
from client.commands.command import Group
from client.commands.completers import review_ids
from client.commands.invocation import Invocation
from client.commands.options import an_id
from client.commands.parameters import Argument, Option
from client.connection import Staff
from client.errors import Exit, FrostError, usage
from client.tables import columns, quotas
from client.tables.columns import time_text
from client.tables.quotas import amount_text
from client.text import safe
from client.transport.call import MAX_PAGE_SIZE

account = Group("account", help="Manage the accounts of the local platform.")


@account.leaf(
    "restore",
    Argument(["email"], metavar="EMAIL", help="E-mail address of the deleted account."),
    examples=("frost platform account restore member@aurora.example",),
)
def restore(run: Invocation, email: str) -> None:
    """Restore a deleted account within 30 days.

    Ended sessions and revoked API keys are not restored. Only the owner of the platform's socket may use this
    command.
    """
    if not email.strip():
        raise usage("EMAIL is empty; expected the address of an account (frost platform account restore)")
    try:
        restored = run.driver(Staff(os.environ, starts=True)).ask_json(calls.restore_account(email))
    except FrostError as error:
        _explain(error, safe(email, 130))
        raise
    run.output.done(f"account {restored['email']} is restored; sign in again and create new API keys", restored)


def _explain(error: FrostError, email: str) -> None:
    if error.gone:
        error.message = f"account {email} not found on this platform"
        error.hint = "use the full address of the account"
    elif error.code == "ACCOUNT_NOT_DELETED":
        error.message = f"the account {email} is not deleted"
    elif error.code == "RESTORE_WINDOW_PASSED":
        until = time_text((error.details or {}).get("restorableUntil"))
        error.message = f"the deletion of {email} could only be reversed until {until}"


operations = Group("operations")


@operations.alone(examples=("frost platform operations -o wide",))
def listed(run: Invocation) -> None:
    """List the operations of the local platform, open ones first.

    An open operation without progress for a minute is marked as stalled.
    """
    records = run.driver(Staff(os.environ)).ask_json(calls.operations())["operations"]
    run.output.records(columns.OPERATION, records)


@operations.leaf(
    "cancel",
    Argument(["operation_id"], metavar="OPERATION_ID", help="Operation ID or run ID of an open operation."),
    examples=("frost platform operations cancel apply-default-tags-4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5",),
)
def cancel(run: Invocation, operation_id: str) -> None:
    """Cancel an open operation of any tenant.

    An operation ID selects the latest run of the operation. Earlier changes are kept: an apply can be undone or
    repeated. A cancelled provisioning restarts with the platform.
    """
    try:
        operation: dict[str, Any] = run.driver(Staff(os.environ)).ask_json(calls.cancel_operation(operation_id))
    except FrostError as error:
        if error.exit_code is Exit.NOT_FOUND:
            error.message = f"operation {safe(operation_id, 130)} not found"
            error.hint = "list the operations: frost platform operations -o wide"
        raise
    label = f"operation {safe(operation.get('operationId'), 120)}, run {safe(operation.get('runId'), 60)}"
    run.output.done(f"cancelled {label} of tenant {safe(operation.get('tenantId'), 60)}", operation)


review = Group("review", help="Review quota requests of organizations.")
REQUEST_ID = Argument(
    ["request_id"], metavar="REQUEST_ID", callback=an_id, help="ID from the list.", shell_complete=review_ids
)
NOTE = Option(["--note"], metavar="TEXT", help="Note for the requester, up to 500 characters.")
STATUSES = ("pending", "approved", "rejected", "all")


@review.leaf(
    "list",
    Option(
        ["--status"],
        type=click.Choice(STATUSES),
        default="pending",
        metavar="STATUS",
        help="pending (the default), approved, rejected or all.",
    ),
    examples=("frost platform review list", "frost platform review list --status all -o wide"),
)
def list_requests(run: Invocation, status: str) -> None:
    """List the quota requests of organizations, newest first."""
    driver = run.driver(Staff(os.environ, starts=True))
    requests = []
    trail = run.page_trail()
    while trail.cursor is not None:
        answer = driver.ask_json(
            calls.quota_request_page("" if status == "all" else status, limit=MAX_PAGE_SIZE, cursor=trail.cursor)
        )
        requests += answer["requests"]
        trail.advance(answer, "requests")
    run.output.records(quotas.REVIEWED, requests)


@review.leaf(
    "approve", REQUEST_ID, NOTE, examples=("frost platform review approve 0192f7c1-5a3e-7b60-9d2f-3c5a8e7b1d04",)
)
def approve(run: Invocation, request_id: str, note: str | None) -> None:
    """Approve a request. The organization gets the new limit at once."""
    _decide(run, request_id, note, approved=True)


@review.leaf(
    "reject",
    REQUEST_ID,
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
        request = run.driver(Staff(os.environ, starts=True)).ask_json(call)["request"]
    except FrostError as error:
        if error.gone:
            error.message = f"quota request {safe(request_id, 60)} of an organization not found"
            error.hint = "frost platform review list"
        elif error.code == "QUOTA_REQUEST_DECIDED":
            error.message = f"the request is already {safe((error.details or {}).get('status'), 40)}"
        raise
    run.output.record(quotas.REVIEWED, request)
    limit = amount_text(request["limit"], request.get("unit"))
    where = safe(request.get("organizationName") or request.get("organizationId"), 80)
    if approved:
        run.output.note(f"{request['resourceType']} of {where} is {limit} now")
    else:
        run.output.note(f"{request['resourceType']} of {where} does not change")
