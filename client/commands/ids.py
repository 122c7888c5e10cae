"""Parameters of the group and policy commands (ids, types, names), and errors for missing objects."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from client.commands.completers import ids_and_names, principal_ids
from client.commands.invocation import Invocation
from client.errors import FrostError, usage
from client.tenancy import check_display_name
from client.text import safe
from client.transport.request import path

MEMBER_TYPES = ("api_key", "workload_identity")
ATTACHEE_TYPES = (*MEMBER_TYPES, "group")
PRINCIPAL_TYPES = (*MEMBER_TYPES, "user")
FORCE = click.Option(["--force"], is_flag=True, help="Do not ask for confirmation; required without a terminal.")
Thing = tuple[str, str]
"""A type (policy, group, api_key, workload_identity, user) and an id from the command line."""
VERSION_HELP = "Fail if the version is another one; nothing is changed then."


def pair(types: Sequence[str], *, required: bool, verb: str) -> tuple[click.Option, click.Option]:
    """Return `--type` and `--id`, which together name a principal or a group."""
    return (
        click.Option(
            ["--type", "kind"], required=required, type=click.Choice(types), help=f"What {verb}: {', '.join(types)}."
        ),
        click.Option(
            ["--id", "identifier"],
            required=required,
            metavar="ID",
            callback=an_id,
            help="Id of the principal.",
            shell_complete=principal_ids,
        ),
    )


def name(value: str) -> str:
    """Return a display name in canonical form. Raises FrostError (exit 2) if it is invalid."""
    return check_display_name(value)


def an_id(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return an id that is safe in the path of a request.

    Raises:
        FrostError: The id is empty or has characters that no id has (exit 2).
    """
    if value is None or ctx.resilient_parsing:
        return value
    name = param.opts[0] if isinstance(param, click.Option) else str(param.metavar)
    if not value:
        raise usage(f"{name} is empty; it takes an id")
    try:
        path("{}", value)
    except FrostError as error:
        raise usage(f"{name}: {error.message}") from error
    return value


def text_of(value: str | None, flag: str) -> str | None:
    """Return an option's value. Raises FrostError (exit 2) if it is empty."""
    if value is not None and not value.strip():
        raise usage(f"{flag} needs a value, an empty one was given")
    return value


@contextmanager
def missing(
    run: Invocation, thing: Thing, other: Thing | None = None, *, unrelated: str = "", see: str = ""
) -> Iterator[None]:
    """Where something is not in the tenant, has the refusal say which of the things that a command names.

    Args:
        thing: What the command is about; a policy or a group where there is another.
        other: What it was to be brought together with.
        unrelated: What is wrong when `thing` is there, for commands that part the two.
        see: The command that shows what is together with `thing`.
    """
    try:
        yield
    except FrostError as error:
        if error.gone:
            explain(run, error, thing, other, unrelated, see)
        raise


@contextmanager
def missing_version(run: Invocation, policy_id: str, number: int) -> Iterator[None]:
    """The same for a version of a policy."""
    try:
        yield
    except FrostError as error:
        if error.gone:
            explain_version(run, error, policy_id, number)
        raise


_WHERE = {
    "policy": "list the policies: frost iam policy list --all",
    "group": "list the groups: frost iam group list --all",
    "user": "list users with: frost iam who --operation OPERATION --target '*'; your own id: frost whoami -o json",
}


_BY_TAB = "shell completion lists the ids of this tenant: frost completion --help"


def explain(run: Invocation, error: FrostError, thing: Thing, other: Thing | None, unrelated: str, see: str) -> None:
    """Name the missing object in an error, with its id if the user typed its name.

    The arguments are those of `missing`.
    """
    if other is None or not _existing(run, thing):
        _not_here(run, error, thing)
        return
    if not _not_here(run, error, other) and unrelated:
        error.message = safe(unrelated, 300)
        error.hint = f"list them: {see}"


def explain_version(run: Invocation, error: FrostError, policy_id: str, number: int) -> None:
    """Name the missing version of a policy in an error, and the versions that exist."""
    policy = _existing(run, ("policy", policy_id))
    if policy is None:
        _not_here(run, error, ("policy", policy_id))
        return
    has = f"versions 1 to {policy['version']}" if policy["version"] > 1 else "version 1"
    error.message = f"policy {safe(policy_id, 80)} has no version {number}, only {has}"
    error.hint = f"list them: frost iam policy history {safe(policy_id, 80)}"


def _existing(run: Invocation, thing: Thing) -> dict[str, Any] | None:
    """Return a policy or a group; None if it does not exist."""
    from client.api import groups, policies

    kind, identifier = thing
    get = policies.get if kind == "policy" else groups.get
    try:
        record: dict[str, Any] = run.call(get(run.tenant.tenant_id, identifier))
    except FrostError as error:
        if error.gone:
            return None
        raise
    return record


def _not_here(run: Invocation, error: FrostError, thing: Thing) -> bool:
    """Name a missing object in an error. The hint has the id of the only object of that name, or shows how to list ids.

    Returns:
        Whether exactly one object has that name.
    """
    kind, identifier = thing
    error.message = f"{kind} {safe(identifier, 130)} not found in this tenant"
    ids = _ids_named(run, kind, identifier)
    if len(ids) == 1:
        error.message = f"{kind} takes an id"
        error.hint = f'the id of {kind} "{safe(identifier, 130)}" is {safe(ids[0], 80)}'
        return True
    if kind == "user" and "@" in identifier:
        error.message = f"user takes an id, {safe(identifier, 130)} is an address"
    error.hint = _WHERE.get(kind, _BY_TAB)
    if "list" in error.hint and run.tenant.source == "flag":
        error.hint += f" --tenant {run.tenant.tenant_id}"
    return False


def _ids_named(run: Invocation, kind: str, name: str) -> list[str]:
    """Return the ids of a tenant's objects with a name, from the first page; empty if they are not readable."""
    from client.tenancy import folded

    try:
        pairs = ids_and_names(run.call, lambda: run.tenant.tenant_id, kind)
    except FrostError:
        return []
    folded_name = folded(name)
    return [identifier for identifier, name_of_it in pairs if folded(name_of_it) == folded_name]
