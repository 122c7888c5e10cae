"""`frost account api-key update`: change a key without replacing it."""

import click

from client.api import keys
from client.commands.account import key_refusals
from client.commands.account.key_create import RequestsAMinute, typed_scopes, unenforced, warn_unenforced
from client.commands.account.keys import ID, named, own_key
from client.commands.command import leaf
from client.commands.completers import scope_names
from client.commands.invocation import Invocation
from client.errors import usage
from client.tables import account as tables_account


@leaf(
    "update",
    ID,
    click.Option(["--name"], metavar="NAME", help="2 to 100 characters."),
    click.Option(["--description"], metavar="TEXT", help='New description; "" clears it.'),
    click.Option(
        ["--scopes"],
        multiple=True,
        metavar="SCOPE,…",
        help="New scopes, at least one; repeat or separate with commas.",
        shell_complete=scope_names,
    ),
    click.Option(["--rate-limit"], type=RequestsAMinute(), metavar="N", help="Requests per minute, at most 60000."),
    person=True,
    examples=(
        "frost account api-key update ci --name ci-2",
        "frost account api-key update ci --scopes compute:read,storage:read",
    ),
)
def update(
    run: Invocation,
    key_name: str,
    name: str | None,
    description: str | None,
    scopes: tuple[str, ...],
    rate_limit: int | None,
) -> None:
    """Change a key's name, description, scopes or rate limit.

    Omitted values do not change. The change applies from the key's next request on. Secret and expiry do not
    change.
    """
    if name is None and description is None and not scopes and rate_limit is None:
        raise usage("nothing to change (frost account api-key update)", "give a flag, such as --name")
    scope_list = typed_scopes(scopes, "update") if scopes else None
    key = own_key(run, key_name)
    of_no_service = unenforced(run, scope_list) if scope_list else []
    with key_refusals.explained(None):
        change = run.change(
            keys.update(
                key["tenantId"],
                key["id"],
                name=name,
                description=description,
                scopes=scope_list,
                rate_limit=rate_limit,
            )
        )
    run.output.record(tables_account.API_KEY, change.record)
    run.output.note(f"key {named(change.record)} is changed" if change.changed else "nothing changed: same values")
    if scope_list and of_no_service:
        warn_unenforced(run, scope_list, of_no_service)
