"""`frost platform account|operations`: administration of the local platform by its operator."""

import os
from typing import Any

import click

from client.api import platform as calls
from client.commands.command import Group
from client.commands.invocation import Invocation
from client.connection import Staff
from client.errors import Exit, FrostError, usage
from client.tables import columns
from client.tables.columns import time_text
from client.text import safe

account = Group("account", help="Accounts of the local platform.", ours=True)


@account.leaf(
    "restore",
    click.Argument(["email"], metavar="EMAIL", help="The address of the deleted account."),
    ours=True,
    examples=("frost platform account restore member@aurora.example",),
)
def restore(run: Invocation, email: str) -> None:
    """Bring a deleted account back, within 30 days.

    Its sessions stay ended and its API keys stay revoked. Only who owns the platform's socket may do it.
    """
    if not email.strip():
        raise usage("EMAIL is empty; it takes the address of an account (frost platform account restore)")
    try:
        found = run.driver(Staff(os.environ, starts=True)).ask_json(calls.restore_account(email))
    except FrostError as error:
        _explain(error, safe(email, 130))
        raise
    run.output.done(f"account {found['email']} is back; it signs in again and makes new API keys", found)


def _explain(error: FrostError, email: str) -> None:
    if error.gone:
        error.message = f"there is no account {email} on this platform"
        error.hint = "it is the whole address that the account signs in with"
    elif error.code == "ACCOUNT_NOT_DELETED":
        error.message = f"the account {email} is not deleted"
    elif error.code == "RESTORE_WINDOW_PASSED":
        until = time_text((error.details or {}).get("restorableUntil"))
        error.message = f"the deletion of {email} could be reversed until {until}"


operations = Group("operations", ours=True)


@operations.alone(examples=("frost platform operations -o wide",))
def listed(run: Invocation) -> None:
    """List the durable operations of the local platform, open ones first.

    An open operation that has not moved for a minute is marked as stalled.
    """
    found = run.driver(Staff(os.environ)).ask_json(calls.operations())["operations"]
    run.output.records(columns.OPERATION, found)


@operations.leaf(
    "cancel",
    click.Argument(["operation_id"], metavar="OPERATION_ID"),
    ours=True,
    examples=("frost platform operations cancel apply-default-tags-4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5",),
)
def cancel(run: Invocation, operation_id: str) -> None:
    """Cancel an open operation of any tenant.

    OPERATION_ID is an operation id, which means its latest run, or a run id. What the operation changed until then is
    kept: an apply can be undone or started again. A cancelled provisioning is started again with the platform.
    """
    try:
        found: dict[str, Any] = run.driver(Staff(os.environ)).ask_json(calls.cancel_operation(operation_id))
    except FrostError as error:
        if error.exit_code is Exit.NOT_FOUND:
            error.message = f"operation {safe(operation_id, 130)} not found"
            error.hint = "list the operations: frost platform operations -o wide"
        raise
    named = f"operation {safe(found.get('operationId'), 120)}, run {safe(found.get('runId'), 60)}"
    run.output.done(f"cancelled {named} of tenant {safe(found.get('tenantId'), 60)}", found)
