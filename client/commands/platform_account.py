"""`frost platform account`: what the local platform's staff does for accounts (ours; checklist A03, A06)."""

import os

import click

from client.api import platform as calls
from client.commands.frame import Group
from client.commands.invocation import Invocation
from client.connection import Staff
from client.errors import FrostError, usage
from client.records import time_text
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
        found = run.driver(Staff(os.environ, starts=True)).call(calls.restore_account(email))
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
