"""What is not there, and the next step; the platform only says that something is not (checklist G41)."""

from typing import Any

from client.commands.iam_input import Thing
from client.commands.invocation import Invocation
from client.commands.names import ids_and_names
from client.errors import FrostError
from client.text import safe

_WHERE = {
    "policy": "see the policies: frost iam policy list --all",
    "group": "see the groups: frost iam group list --all",
    "user": "people stand with their ids in: frost iam who --operation OPERATION --target '*';"
    " your own id is told by: frost whoami -o json",
}
_BY_TAB = "Tab completes the ids of this tenant, once set up: frost completion --help"


def explain(run: Invocation, error: FrostError, thing: Thing, other: Thing | None, unrelated: str, see: str) -> None:
    """Says which of the things that a command names is not in the tenant, with its id where its name was given.

    The arguments are those of `client.commands.iam_input.missing`.
    """
    if other is None or not _found(run, thing):
        _not_here(run, error, thing)
        return
    if not _not_here(run, error, other) and unrelated:
        error.message = safe(unrelated, 300)
        error.hint = f"see them: {see}"


def explain_version(run: Invocation, error: FrostError, policy_id: str, number: int) -> None:
    """The same for a version of a policy: says which versions it has."""
    policy = _found(run, ("policy", policy_id))
    if policy is None:
        _not_here(run, error, ("policy", policy_id))
        return
    has = f"versions 1 to {policy['version']}" if policy["version"] > 1 else "version 1 only"
    error.message = f"policy {safe(policy_id, 80)} has no version {number}: it has {has}"
    error.hint = f"see them: frost iam policy history {safe(policy_id, 80)}"


def _found(run: Invocation, thing: Thing) -> dict[str, Any] | None:
    """A policy or a group; None when it is not there."""
    from client.api import groups, policies

    kind, identifier = thing
    get = policies.get if kind == "policy" else groups.get
    try:
        found: dict[str, Any] = run.call(get(run.tenant.tenant_id, identifier))
    except FrostError as error:
        if error.gone:
            return None
        raise
    return found


def _not_here(run: Invocation, error: FrostError, thing: Thing) -> bool:
    """One thing is not in the tenant: the id of the only one that has this name, or where ids are shown.

    Returns:
        Whether it was called by its name.
    """
    kind, given = thing
    error.message = f"there is no {kind} {safe(given, 130)} in this tenant"
    ids = _ids_named(run, kind, given)
    if len(ids) == 1:
        error.message = f"{kind} takes an id"
        error.hint = f'that of {kind} "{safe(given, 130)}" is {safe(ids[0], 80)}'
        return True
    if kind == "user" and "@" in given:
        error.message = f"user takes an id, {safe(given, 130)} is an address"
    error.hint = _WHERE.get(kind, _BY_TAB)
    if "list" in error.hint and run.tenant.source == "flag":
        error.hint += f" --tenant {run.tenant.tenant_id}"
    return False


def _ids_named(run: Invocation, kind: str, name: str) -> list[str]:
    """The ids of a tenant's things that have a name, on the first page; none where that cannot be known."""
    from client.tenancy import folded

    try:
        found = ids_and_names(run.call, lambda: run.tenant.tenant_id, kind)
    except FrostError:
        return []
    wanted = folded(name)
    return [identifier for identifier, held in found if folded(held) == wanted]
