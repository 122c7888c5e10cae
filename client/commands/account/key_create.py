"""`frost account api-key create|rotate|update`: create, replace and change keys.

A new key may become a context: its secret is saved in the credential store and never shown.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import click

from client import times
from client.api import account, keys
from client.commands.account.keys import ID, key_errors, named, own_key, still_active
from client.commands.command import leaf
from client.commands.completers import context_names, scope_names
from client.commands.invocation import Invocation
from client.commands.parameters import Option
from client.errors import FrostError, usage
from client.models.validation import MAX_API_KEY_NAME, MAX_RATE_LIMIT, MIN_API_KEY_NAME, parse_rate_limit
from client.tables import account as tables_account
from client.tables.columns import time_text
from client.text import safe


class RequestsAMinute(click.ParamType["int"]):
    """A rate limit in requests per minute. The platform checks the maximum."""

    name = "requests"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        limit = parse_rate_limit(str(value))
        if limit is None:
            numbers = f"a whole number of requests per minute, 1 to {MAX_RATE_LIMIT}"
            self.fail(f'takes {numbers}, not "{safe(value, 40)}"', param, ctx)
        return limit


EXPIRES = Option(
    ["--expires"],
    metavar="DATE|TIME",
    help="YYYY-MM-DD, the end of that day in local time, or RFC 3339; default in 365 days, at most 2 years.",
)


@leaf(
    "create",
    Option(["--name"], required=True, metavar="NAME", help=f"{MIN_API_KEY_NAME} to {MAX_API_KEY_NAME} characters."),
    Option(
        ["--scopes"],
        multiple=True,
        metavar="SCOPE,…",
        help="Scopes, at least one, such as compute:read or compute:*; repeat or separate with commas.",
        shell_complete=scope_names,
    ),
    Option(["--description"], metavar="TEXT", help="Description, up to 1,024 characters."),
    EXPIRES,
    Option(
        ["--rate-limit"],
        type=RequestsAMinute(),
        metavar="N",
        help="N requests at once and N a minute more; default 600, at most 60000.",
    ),
    Option(
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
    run.check_time_zone(expires or "")
    if save_context is not None:
        check_new_context(run, save_context)
    of_no_service = unenforced(run, scope_list)
    with key_errors(expires):
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
        save_as_context(run, save_context, created)
    if expires is not None and times.is_date(expires):
        run.output.note(
            f"the key expires at the end of {expires} in local time: {time_text(created['apiKey']['expiresAt'])}"
        )
    if of_no_service:
        warn_unenforced(run, scope_list, of_no_service)


@leaf(
    "rotate",
    ID,
    EXPIRES,
    Option(
        ["--overlap"],
        metavar="TIME",
        default="24h",
        help="How long the old key stays valid: 30m, 24h, 7d; 0 revokes it at once. Default 24h.",
    ),
    Option(
        ["--update-context"],
        multiple=True,
        metavar="NAME",
        help="Store the new key in context NAME, which has the old one; repeatable. Shown only if it cannot be stored.",
        shell_complete=context_names,
    ),
    person=True,
    examples=(
        "frost account api-key rotate ci",
        "frost account api-key rotate ci --overlap 7d",
        "frost account api-key rotate nightly --update-context nightly",
    ),
)
def rotate(run: Invocation, key_name: str, expires: str | None, overlap: str, update_context: Sequence[str]) -> None:
    """Replace a key with a new one that has the same permissions.

    The new key has the name, scopes, rate limit, groups and policies of the old one. Both are valid until the
    overlap ends; then the old key expires. A context that has the old key is changed only by --update-context.
    """
    until = None if expires is None else times.instant(expires)
    run.check_time_zone(expires or "")
    both = _overlap(overlap)
    old = own_key(run, key_name, active=True)
    if update_context:
        from client.contexts import require_api_key  # only a key that a context has needs it

        for name in update_context:
            require_api_key(run.config, name, str(run.connection.endpoint), str(old.get("keyPrefix", "")))
    retires = _retirement(old, both)
    with key_errors(expires):
        created = run.call(
            keys.rotate(
                old["tenantId"],
                old["id"],
                expires_at=None if until is None else times.wire(until),
                retire_at=None if retires is None else times.wire(retires),
            )
        )
    notices = _update_contexts(run, update_context, created) if update_context else []
    try:
        if not both:
            with still_active(old["id"]):
                created["replaced"] = run.call(keys.revoke(old["tenantId"], old["id"]))
    finally:
        if update_context:
            _show_stored(run, update_context, {**created, "contexts": list(update_context)})
        else:
            _show(run, created)  # also after an error: the secret cannot be shown again
        for notice in notices:
            run.output.warn(notice)
    replaced = created["replaced"]
    ends = "is revoked" if replaced["status"] == "revoked" else f"works until {time_text(replaced['expiresAt'])}"
    grants = created.get("grants", 0)
    of_them = "group or policy" if grants == 1 else "groups and policies"
    copied = f"; the new one has its {grants} {of_them}" if grants else ""
    run.output.note(f"the old key {old['id']} {ends}{copied}")
    if others := _contexts_with(run, old):
        from client.contexts import old_key_notice

        run.output.note(old_key_notice(others, secret_shown=not update_context))


def _contexts_with(run: Invocation, key: dict[str, Any]) -> list[str]:
    """Return the contexts that have a key; none if the configuration is damaged, as the rotation has succeeded."""
    from client import contexts
    from client.config import reader

    with suppress(FrostError):
        prefix = str(key.get("keyPrefix", ""))
        return contexts.find_by_api_key(reader.load(run.config.path), str(run.connection.endpoint), prefix)
    return []


def _update_contexts(run: Invocation, names: Sequence[str], created: dict[str, Any]) -> list[str]:
    """Store the new key of a rotation in contexts. Return notices.

    Raises:
        FrostError: A context has another endpoint now, or the config file or the keyring is not writable. The key is
            printed then, since it would be lost.
    """
    from client import contexts

    stored = contexts.store_api_key(run.config, names, created["key"])
    if not stored.errors:
        return stored.notices
    _show(run, {**created, "contexts": stored.contexts})
    for notice in stored.notices:
        run.output.warn(notice)
    raise contexts.not_stored(stored)


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
        FrostError: No scopes (exit 2).
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
    served = {scope["scope"]: scope.get("enforced", True) for scope in run.call(account.scopes())["scopes"]}
    return [scope for scope in requested if not served.get(scope, scope.count(":") != 2)]


def warn_unenforced(run: Invocation, requested: Sequence[str], of_no_service: Sequence[str]) -> None:
    """Warn about the effect of scopes that no service enforces."""
    names = ", ".join(safe(scope, 100) for scope in of_no_service)
    all_of_them = len(of_no_service) == len(requested)
    so = "every request of this key is denied" if all_of_them else "these scopes allow nothing"
    run.output.warn(f"no service enforces {names}: {so}; services ask for <service>:read and <service>:write")


_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def _overlap(text: str) -> timedelta:
    if text == "0":
        return timedelta()
    match = re.fullmatch(r"([0-9]{1,5})([mhd])", text)
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


@leaf(
    "update",
    ID,
    Option(["--name"], metavar="NAME", help=f"{MIN_API_KEY_NAME} to {MAX_API_KEY_NAME} characters."),
    Option(["--description"], metavar="TEXT", help='New description; "" clears it.'),
    Option(
        ["--scopes"],
        multiple=True,
        metavar="SCOPE,…",
        help="New scopes, at least one; repeat or separate with commas.",
        shell_complete=scope_names,
    ),
    Option(
        ["--rate-limit"],
        type=RequestsAMinute(),
        metavar="N",
        help="N requests at once and N a minute more; at most 60000.",
    ),
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
        raise usage("nothing to change (frost account api-key update)", "use a flag, such as --name")
    scope_list = typed_scopes(scopes, "update") if scopes else None
    key = own_key(run, key_name)
    of_no_service = unenforced(run, scope_list) if scope_list else []
    with key_errors(None):
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
    run.output.note(f"key {named(change.record)} was changed" if change.changed else "nothing changed: same values")
    if scope_list and of_no_service:
        warn_unenforced(run, scope_list, of_no_service)


def check_new_context(run: Invocation, name: str) -> None:
    """Refuse a name that no new context can have. Raises FrostError (exit 2, 6)."""
    from client import contexts  # only keys for a new context need it

    contexts.check_new(run.config, name)


def save_as_context(run: Invocation, name: str, created: dict[str, Any]) -> None:
    """Create the context and print the key. A key whose secret cannot be stored is deleted, since it would be lost.

    Raises:
        FrostError: The config file or the keyring is not writable.
    """
    from client import contexts
    from client.auth import credential_store
    from client.config import reader

    key = created["apiKey"]
    try:
        contexts.add_new(run.config, name, str(run.connection.endpoint), key["tenantId"])
        try:
            notices = credential_store.save_api_key(run.config, name, created["key"])
        except FrostError:
            contexts.remove(reader.load(run.config.path), name)
            raise
    except FrostError as error:
        error.message = f"the new key could not be stored: {error.message}"
        _delete_again(run, key, error)
        raise
    _show_stored(run, [name], {"apiKey": key, "context": name})
    for notice in notices:
        run.output.warn(notice)


def _show_stored(run: Invocation, names: Sequence[str], document: dict[str, Any]) -> None:
    """Print a key that contexts have, without its secret."""
    if run.output.structured:
        run.output.document({member: value for member, value in document.items() if member != "key"})
    else:
        run.output.record(tables_account.API_KEY, document["apiKey"])
        for name in names:
            run.output.note(f"context {safe(name)} has the key; use it with: frost config use-context {safe(name)}")


def _delete_again(run: Invocation, key: dict[str, Any], error: FrostError) -> None:
    try:
        run.call(keys.delete(key["tenantId"], key["id"]))
    except FrostError:
        error.message += f"; key {key['id']} still exists"
        error.hint = f"frost account api-key delete {key['id']}"
    else:
        error.message += "; the key was deleted"
