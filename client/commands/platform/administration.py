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

account = Group("account", help="Manage the accounts of the local platform.")


@account.leaf(
    "restore",
    click.Argument(["email"], metavar="EMAIL", help="E-mail address of the deleted account."),
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
        found = run.driver(Staff(os.environ, starts=True)).ask_json(calls.restore_account(email))
    except FrostError as error:
        _explain(error, safe(email, 130))
        raise
    run.output.done(f"account {found['email']} is restored; sign in again and create new API keys", found)


def _explain(error: FrostError, email: str) -> None:
    if error.gone:
        error.message = f"account {email} not found on this platform"
        error.hint = "give the full address that the account signs in with"
    elif error.code == "ACCOUNT_NOT_DELETED":
        error.message = f"the account {email} is not deleted"
    elif error.code == "RESTORE_WINDOW_PASSED":
        until = time_text((error.details or {}).get("restorableUntil"))
        error.message = f"the deletion of {email} could be reversed until {until}"


operations = Group("operations")


@operations.alone(examples=("frost platform operations -o wide",))
def listed(run: Invocation) -> None:
    """List the operations of the local platform, open ones first.

    An open operation without progress for a minute is marked as stalled.
    """
    found = run.driver(Staff(os.environ)).ask_json(calls.operations())["operations"]
    run.output.records(columns.OPERATION, found)


@operations.leaf(
    "cancel",
    click.Argument(["operation_id"], metavar="OPERATION_ID"),
    examples=("frost platform operations cancel apply-default-tags-4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5",),
)
def cancel(run: Invocation, operation_id: str) -> None:
    """Cancel an open operation of any tenant.

    OPERATION_ID is an operation id, which selects its latest run, or a run id. Changes made so far are kept: an
    apply can be undone or repeated. A cancelled provisioning restarts with the platform.
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
