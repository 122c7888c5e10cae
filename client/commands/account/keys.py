"""`frost account api-key`: the caller's API keys, and the errors of their commands."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from client.api import account, keys, tenants
from client.commands import output
from client.commands.command import Group, Lazy
from client.commands.completers import own_key_names
from client.commands.invocation import Invocation
from client.commands.options import name_argument
from client.commands.output import Fact
from client.commands.parameters import Option
from client.errors import Exit, FrostError
from client.name_lookup import API_KEY, folded, is_id, match
from client.tables import account as tables_account
from client.tables import columns
from client.tables.columns import time_text
from client.text import safe

_MAKING = "client.commands.account.key_create"

api_key = Group(
    "api-key",
    {
        "create": Lazy(f"{_MAKING}:create", "Create an API key. The secret is shown once."),
        "update": Lazy(
            f"{_MAKING}:update",
            "Change a key's name, description, scopes or rate limit.",
        ),
        "rotate": Lazy(f"{_MAKING}:rotate", "Replace a key with a new one that has the same permissions."),
    },
    help="Manage your API keys.",
)

YES = Option(
    ["--yes"], is_flag=True, help="Do not ask for confirmation; required if standard input is a file or has data."
)
_SKIP = "use --yes to skip the confirmation"
ID = name_argument("key_name", "KEY", "one of your keys", own_key_names)


@api_key.leaf("get", ID, examples=("frost account api-key get ci -o json",))
def get(run: Invocation, key_name: str) -> None:
    """Show one of your keys, without its secret.

    An API key may show itself.
    """
    key = own_key(run, key_name)
    facts: list[Fact] = [
        ("id", key["id"]),
        ("name", key["name"]),
        ("description", key.get("description", "")),
        ("tenant", f"{key.get('tenantName', '')} · {key.get('tenantId', '')}"),
        ("status", key["status"]),
        ("scopes", tables_account.scopes_text(key)),
        ("rate limit", f"{key['rateLimit']} requests per minute" if key.get("rateLimit") else ""),
        ("prefix", key.get("keyPrefix", "")),
        ("created", time_text(key.get("createdAt"))),
        ("expires", time_text(key.get("expiresAt"))),
        ("last used", time_text(key.get("lastUsedAt"))),
    ]
    if key.get("revokedAt"):
        facts.append(("revoked", time_text(key["revokedAt"])))
    if run.output.wide:
        facts += [
            ("creator", f"{key.get('creatorName', '')} <{key.get('creatorEmail', '')}>"),
            ("creator id", str(key.get("creatorId", ""))),
        ]
    run.output.facts(key, facts)


@api_key.leaf("list", person=True, examples=("frost account api-key list", "frost account api-key list -o wide"))
def list_(run: Invocation) -> None:
    """List your keys in all your tenants, newest first.

    Includes revoked and expired keys until they are deleted. --tenant selects one tenant.
    """
    own = _own_keys(run)
    if not own and run.flags.tenant:
        run.call_for_tenant(tenants.get)  # raises FrostError if the tenant does not exist
    run.output.records(tables_account.API_KEY, own)


@api_key.leaf("revoke", ID, YES, person=True, examples=("frost account api-key revoke ci",))
def revoke(run: Invocation, key_name: str, yes: bool) -> None:
    """Revoke a key permanently. Its next request is refused.

    The key stays in the list as revoked. On a terminal, the command asks for confirmation.
    """
    if not yes:
        output.refuse_unread_answer("this revokes an API key", _SKIP)
    key = own_key(run, key_name)
    if not yes and key["status"] != "revoked":
        output.confirm_on_terminal(run.talk, f"Permanently revoke {_description(key)}?")
    change = run.change(keys.revoke(key["tenantId"], key["id"]))
    message = f"key {named(key)} was revoked; its next request is denied" if change.changed else "already revoked"
    run.output.done(message, change.record)


@api_key.leaf("delete", ID, YES, person=True, examples=("frost account api-key delete ci",))
def delete(run: Invocation, key_name: str, yes: bool) -> None:
    """Delete a key permanently, with its memberships and attachments.

    Its next request is refused. On a terminal, the command asks for confirmation.
    """
    if not yes:
        output.refuse_unread_answer("this deletes an API key", _SKIP)
    key = own_key(run, key_name)
    if not yes:
        output.confirm_on_terminal(
            run.talk, f"Permanently delete {_description(key)}, with its memberships and attachments?"
        )
    run.call(keys.delete(key["tenantId"], key["id"]))
    run.output.done(f"key {named(key)} was deleted", {"id": key["id"], "status": "deleted"})


@api_key.leaf("scopes", examples=("frost account api-key scopes", "frost account api-key scopes -o wide"))
def scopes(run: Invocation) -> None:
    """List the scopes that a key can have.

    -o wide shows the operations of each scope, and the scopes that no service enforces: a key with only such scopes
    is denied everything.
    """
    served = run.call(account.scopes())["scopes"]
    run.output.records(tables_account.SCOPE, [one for one in served if one["scope"] != "*"])


def own_key(run: Invocation, key_name: str, *, active: bool = False) -> dict[str, Any]:
    """Return a key of the caller by id or name, in any tenant unless `--tenant` is set.

    Args:
        run: The command.
        key_name: The user's input.
        active: Whether a name selects the active keys only, if there is one: a rotated key has the name of the old one.

    Raises:
        FrostError: The caller has no such key (exit 5), or several keys have the name (exit 1).
    """
    if run.connection.credential().kind == "api_key":
        return _current_key(run, key_name)
    own = _own_keys(run)
    if is_id(key_name):
        record = next((key for key in own if key["id"] == key_name.lower()), None)
    else:
        record = match(API_KEY, own, key_name, prefer=_is_active if active else None)
    if record is None:
        raise FrostError(
            f"you have no API key {_quote(key_name)}{f' in tenant {run.flags.tenant}' if run.flags.tenant else ''}",
            code="NOT_FOUND",
            hint="list your keys: frost account api-key list",
            exit_code=Exit.NOT_FOUND,
        )
    return record


def _is_active(key: Mapping[str, Any]) -> bool:
    return bool(key["status"] == "active")


def _current_key(run: Invocation, key_name: str) -> dict[str, Any]:
    """Return the key of the context in use. An API key may read only itself."""
    key_id = key_name if is_id(key_name) else str((run.me.get("credential") or {}).get("id"))
    try:
        key: dict[str, Any] = run.call(keys.get(run.me["tenantId"], key_id))
        if key_id is not key_name and folded(key["name"]) != folded(key_name):
            raise FrostError("another name", code="NOT_FOUND", exit_code=Exit.NOT_FOUND, gone=True)
    except FrostError as error:
        if error.gone:
            error.message = f"the API key in use can read only its own record, not {_quote(key_name)}"
            run.point_to_person(error)
        raise
    return key


def _quote(key_name: str) -> str:
    """Return an id unchanged, and a name as `named "ci"`."""
    return key_name if is_id(key_name) else f'named "{safe(key_name, 130)}"'


def _description(key: columns.Record) -> str:
    """Describe a key with its id, tenant and last use."""
    used = f"last used {time_text(key['lastUsedAt'])}" if key.get("lastUsedAt") else "never used"
    tenant = safe(key.get("tenantName") or key.get("tenantId"), 130)
    return f'key "{safe(key["name"], 130)}" ({key["id"]}, tenant {tenant}, {used})'


def named(key: columns.Record) -> str:
    """Return the name and the id of a key for a sentence."""
    return f'"{safe(key["name"], 130)}" ({key["id"]})'


def _own_keys(run: Invocation) -> list[dict[str, Any]]:
    """Return the caller's keys, of one tenant if `--tenant` is set."""
    records: list[dict[str, Any]] = run.call(keys.own())["apiKeys"]
    if run.flags.tenant is None:
        return records
    return [record for record in records if record["tenantId"] == run.tenant.tenant_id]


_FLAGS = {
    "name": "--name",
    "description": "--description",
    "scopes": "--scopes",
    "rateLimit": "--rate-limit",
    "expiresAt": "--expires",
}


@contextmanager
def key_errors(expires: str | None) -> Iterator[None]:
    """Add the flag at fault to an error.

    Args:
        expires: The value of `--expires`; None without the flag.
    """
    try:
        yield
    except FrostError as error:
        from client.texts.refusals import key_problem, may_exist

        details = error.details or {}
        if error.code == "API_KEY_EXPIRY_IN_PAST" and expires is None:
            error.message = "the overlap has already ended according to the platform's clock"
            now = time_text(details.get("now"))
            error.hint = f"the platform's time is {now}; set this machine's clock, or use --overlap 0"
            raise
        problem = key_problem(error)
        flag = _FLAGS.get(problem.member)
        error.message = f"{flag}: {problem.message}" if flag else problem.message
        if error.code == "SECRET_ALREADY_SHOWN":
            error.hint = f"frost account api-key delete {safe(details.get('apiKeyId'), 80)}"
        elif may_exist(error):
            error.hint = "the key may have been created; list your keys: frost account api-key list"
        raise


@contextmanager
def still_active(key_id: str) -> Iterator[None]:
    """Report, if revoking the old key fails, that the new key exists."""
    try:
        yield
    except FrostError as error:
        error.message = f"the new key was created, but the old one is still valid: {error.message}"
        error.hint = f"frost account api-key revoke {key_id}"
        raise
