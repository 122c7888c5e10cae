"""`frost account api-key create|rotate`: commands that return a secret."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from client import times
from client.api import account, keys
from client.commands.account import key_refusals
from client.commands.account.keys import ID, own_key
from client.commands.command import leaf
from client.commands.completers import scope_names
from client.commands.invocation import Invocation
from client.errors import FrostError, usage
from client.tables import account as tables_account
from client.tables.columns import time_text
from client.text import safe

_MOST_DIGITS = 9


class RequestsAMinute(click.ParamType["int"]):
    """A rate limit in requests per minute. The platform checks the maximum."""

    name = "requests"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text)):
            self.fail(f'takes a whole number of requests a minute from 1 on, not "{text}"', param, ctx)
        return int(text)


EXPIRES = click.Option(
    ["--expires"],
    metavar="DATE|TIME",
    help="YYYY-MM-DD, the end of that day in local time, or RFC 3339; default in 365 days, at most 2 years.",
)


@leaf(
    "create",
    click.Option(["--name"], required=True, metavar="NAME", help="2 to 100 characters."),
    click.Option(
        ["--scopes"],
        multiple=True,
        metavar="SCOPE,…",
        help="Scopes, at least one, such as compute:read or compute:*; repeat or separate with commas.",
        shell_complete=scope_names,
    ),
    click.Option(["--description"], metavar="TEXT", help="Description, up to 1,024 characters."),
    EXPIRES,
    click.Option(
        ["--rate-limit"], type=RequestsAMinute(), metavar="N", help="Requests per minute; default 600, at most 60000."
    ),
    click.Option(
        ["--save-context"],
        metavar="NAME",
        help="Create a context NAME that uses the key. The secret is stored and never shown.",
    ),
    person=True,
    examples=(
        "frost account api-key create --name ci --scopes compute:read,storage:read",
        "frost account api-key create --name deploy --scopes 'compute:*' --expires 2027-01-31",
        "frost account api-key create --name nightly --scopes storage:write --save-context nightly",
    ),
)
def create(
    run: Invocation,
    name: str,
    scopes: tuple[str, ...],
    description: str | None,
    expires: str | None,
    rate_limit: int | None,
    save_context: str | None,
) -> None:
    """Create an API key. The secret is shown once.

    The key belongs to the selected tenant and never exceeds your own permissions, now or later. `frost account
    api-key scopes` lists the available scopes. With --quiet, only the secret is printed.
    """
    scope_list = typed_scopes(scopes, "create")
    until = None if expires is None else times.instant(expires)
    if save_context is not None:
        from client.commands.account import key_context

        key_context.check(run, save_context)
    of_no_service = unenforced(run, scope_list)
    with key_refusals.explained(expires):
        created = run.call_for_tenant(
            lambda tenant: keys.create(
                tenant,
                name,
                scope_list,
                description=description or "",
                expires_at=None if until is None else times.wire(until),
                rate_limit=rate_limit,
            )
        )
    if save_context is None:
        _show(run, created)
    else:
        key_context.save(run, save_context, created)
    if expires is not None and times.is_date(expires):
        run.output.note(
            f"it expires at the end of {expires} in local time: {time_text(created['apiKey']['expiresAt'])}"
        )
    if of_no_service:
        warn_unenforced(run, scope_list, of_no_service)


@leaf(
    "rotate",
    ID,
    EXPIRES,
    click.Option(
        ["--overlap"],
        metavar="TIME",
        default="24h",
        help="How long the old key stays valid: 30m, 24h, 7d; 0 revokes it at once. Default 24h.",
    ),
    person=True,
    examples=("frost account api-key rotate ci", "frost account api-key rotate ci --overlap 7d"),
)
def rotate(run: Invocation, key_name: str, expires: str | None, overlap: str) -> None:
    """Replace a key with a new one that has the same permissions.

    The new key has the name, scopes, rate limit, groups and policies of the old one. Both are valid until the
    overlap ends; then the old key expires.
    """
    until = None if expires is None else times.instant(expires)
    both = _overlap(overlap)
    old = own_key(run, key_name, active=True)
    retires = _retirement(old, both)
    with key_refusals.explained(expires):
        created = run.call(
            keys.rotate(
                old["tenantId"],
                old["id"],
                expires_at=None if until is None else times.wire(until),
                retire_at=None if retires is None else times.wire(retires),
            )
        )
    try:
        if not both:
            with key_refusals.still_active(old["id"]):
                created["replaced"] = run.call(keys.revoke(old["tenantId"], old["id"]))
    finally:
        _show(run, created)  # also after an error: the secret cannot be shown again
    replaced = created["replaced"]
    ends = "is revoked" if replaced["status"] == "revoked" else f"works until {time_text(replaced['expiresAt'])}"
    grants = created.get("grants", 0)
    of_them = "group or policy" if grants == 1 else "groups and policies"
    taken = f"; the new one has its {grants} {of_them}" if grants else ""
    run.output.note(f"the old key {old['id']} {ends}{taken}")


def _show(run: Invocation, created: dict[str, Any]) -> None:
    """Print the key, then the secret on its own line; with --quiet only the secret.

    If the output fails, a warning reports that the secret is lost.
    """
    try:
        if run.output.structured:
            run.output.document(created)
            return
        if run.output.quiet:
            run.output.lines([str(created["key"])])
            return
        run.output.record(tables_account.API_KEY, created["apiKey"])
        run.output.lines(["", "key (shown once):", str(created["key"])])
    except (FrostError, BrokenPipeError):
        key_id = created["apiKey"]["id"]
        run.output.warn(
            f"key {key_id} was created, but its secret could not be written and cannot be shown again;"
            f" delete it: frost account api-key delete {key_id}"
        )
        raise


def typed_scopes(values: Sequence[str], command: str) -> list[str]:
    """Return the scopes of all flags, without duplicates. They are not corrected, so that no other scope is granted.

    Raises:
        FrostError: There are no scopes (exit 2).
    """
    scopes = list(dict.fromkeys(scope for text in values for scope in text.split(",") if scope))
    if not scopes:
        raise usage(
            f"--scopes: at least one scope is required (frost account api-key {command})",
            "list them with: frost account api-key scopes",
        )
    return scopes


def unenforced(run: Invocation, requested: Sequence[str]) -> list[str]:
    """Return the scopes that no service enforces, including unknown ones in three parts."""
    served = {one["scope"]: one.get("enforced", True) for one in run.call(account.scopes())["scopes"]}
    return [scope for scope in requested if not served.get(scope, scope.count(":") != 2)]


def warn_unenforced(run: Invocation, requested: Sequence[str], of_no_service: Sequence[str]) -> None:
    """Warn about the effect of scopes that no service enforces."""
    names = ", ".join(safe(scope, 100) for scope in of_no_service)
    all_of_them = len(of_no_service) == len(requested)
    so = "every request of this key is denied" if all_of_them else "nothing is allowed by it"
    run.output.warn(f"no service enforces {names}: {so}; services ask for <service>:read and <service>:write")


_OVERLAP = r"([0-9]{1,5})([mhd])"
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def _overlap(text: str) -> timedelta:
    if text == "0":
        return timedelta()
    match = re.fullmatch(_OVERLAP, text)
    if match is None:
        raise usage(
            f"--overlap takes a time such as 30m, 24h or 7d, or 0, not {safe(text, 40)!r}",
            "see frost account api-key rotate --help",
        )
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _retirement(old: dict[str, Any], both: timedelta) -> datetime | None:
    """Return when the old key retires; None if it expires earlier or is revoked immediately."""
    ends = times.now() + both
    own = old.get("expiresAt")
    if not both or (own and datetime.fromisoformat(own) <= ends):
        return None
    return ends
