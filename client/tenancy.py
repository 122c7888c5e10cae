"""Select a tenant, and find tenants by id, name or slug."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from client.errors import Exit, FrostError, usage
from client.name_lookup import TENANT, is_id, match
from client.text import safe

if TYPE_CHECKING:
    from client.config.reader import Context
    from client.connection import Connection

VARIABLE = "FROST_TENANT"
ID_NEEDED = "TENANT_ID_NEEDED"
STORED_INVALID = "STORED_TENANT_INVALID"
LONGEST_NAME = 128
MAY_CREATE = ("owner", "admin")
"""Roles in an organization that create its tenants."""


class Selection(NamedTuple):
    """The selected tenant and the source of the selection."""

    tenant_id: str
    source: Literal["flag", "variable", "context", "default"]


def resolve(
    flag: str | None, environ: Mapping[str, str], context: Context, default: Callable[[], str], path: str = ""
) -> Selection:
    """Select a tenant: `--tenant`, `FROST_TENANT`, the tenant of the context, the principal's default tenant.

    Args:
        flag: The value of `--tenant`; None if absent. Empty is an error.
        environ: The environment; an empty variable is ignored.
        context: The current context.
        default: Requests the principal's default tenant; called only if no other source has a tenant.
        path: The configuration file, for errors about a stored tenant.

    Raises:
        FrostError: A value is not an id (exit 2; with code STORED_INVALID for the context), or no tenant (exit 1).
    """
    if flag is not None:
        return Selection(check_id(flag, "--tenant"), "flag")
    if variable := environ.get(VARIABLE):
        return Selection(check_id(variable, f"the variable {VARIABLE}"), "variable")
    if context.tenant:
        return Selection(_check_stored(context.tenant, context.name, path), "context")
    if tenant_id := default():
        return Selection(tenant_id, "default")
    raise FrostError(
        "you have no default tenant and none is selected",
        code="NO_TENANT",
        hint="choose one with: frost tenant use NAME (frost tenant list --all shows them)",
    )


def _check_stored(value: str, context: str, path: str) -> str:
    if not is_id(value):
        name = f"tenant of context {safe(context)}{f' in {safe(path)}' if path else ''}"
        raise usage(
            f"{name}: {safe(value, 60)!r} is not a tenant's id",
            "choose a tenant: frost tenant use NAME (frost tenant list --all shows them)",
            code=STORED_INVALID,
        )
    return value.lower()


def check_id(value: str, name: str) -> str:
    """Return a tenant id in canonical form, lower case with hyphens.

    Raises:
        FrostError: The value is empty or not an id (exit 2); the message has its source, `name`.
    """
    if not value:
        raise usage(f"{name} is empty; expected a tenant id", "omit the flag to use the selected tenant")
    if not is_id(value):
        error = usage(
            f"{name} takes a tenant id, not {safe(value, 60)!r}",
            "to choose a tenant by name: frost tenant use NAME; the ids: frost tenant list",
            code=ID_NEEDED,
        )
        error.details = {"given": value}
        raise error
    return value.lower()


def check_display_name(value: str) -> str:
    """Validate a display name by the platform's rules and return it unchanged.

    Raises:
        FrostError: Not 1 to 128 characters, or with control or formatting characters (exit 2).
    """
    match display_name_fault(value):
        case "empty":
            raise usage(f"--name takes 1 to {LONGEST_NAME} characters, not an empty name")
        case "length":
            length = len(unicodedata.normalize("NFC", value).strip())
            raise usage(f"--name takes 1 to {LONGEST_NAME} characters, not {length}: {safe(value.strip(), 40)!r}")
        case "character":
            raise usage(f"--name must not contain control or formatting characters: {safe(value.strip(), 60)!r}")
    return value


def display_name_fault(value: str) -> Literal["empty", "length", "character"] | None:
    """Return the rule of the platform that a display name violates; None if it is valid."""
    from client.models.validation import has_control  # only writes need it

    name = unicodedata.normalize("NFC", value).strip()
    if not name:
        return "empty"
    if len(name) > LONGEST_NAME:
        return "length"
    return "character" if has_control(name) else None


def check_description(value: str) -> None:
    """Validate a description by the platform's rules.

    Raises:
        FrostError: More than 1,024 characters, or control or formatting characters other than line breaks (exit 2).
    """
    from client.models.validation import LINE_BREAKS, MAX_DESCRIPTION_LENGTH, has_control  # only writes need it

    if len(unicodedata.normalize("NFC", value)) > MAX_DESCRIPTION_LENGTH:
        raise usage(f"--description has at most {MAX_DESCRIPTION_LENGTH} characters")
    if has_control(value, allowed=LINE_BREAKS):
        raise usage("--description must not contain control or formatting characters")


def find(tenants: Sequence[Mapping[str, Any]], argument: str) -> dict[str, Any]:
    """Find a tenant by id, or by display name or slug in any letter case.

    Args:
        tenants: JSON objects of the principal's tenants.
        argument: The user's input.

    Raises:
        FrostError: Not found, with the same message for tenants of others (exit 5), or ambiguous (exit 1).
    """
    if is_id(argument):
        for tenant in tenants:
            if str(tenant["id"]).lower() == argument.lower():
                return dict(tenant)
    if selected := match(TENANT, tenants, argument):
        return selected
    raise FrostError(
        f"no tenant {safe(argument, 130)!r} among your tenants",
        code="NOT_FOUND",
        hint="list your tenants: frost tenant list --all",
        exit_code=Exit.NOT_FOUND,
    )


def persist(connection: Connection, tenant_id: str) -> None:
    """Store the tenant as the selection of the connection's context."""
    from client.config.writer import edit

    with edit(connection.config.path) as document:
        document.context(connection.context.name)["tenant"] = tenant_id


NO_TENANTS = "you have no tenant: ask an owner or admin of an organization, or sign in as another user: frost login"


def way_out(selection: Selection, context: str, path: str, advice: str = "") -> str:
    """Return a message with the refused tenant, the source of its selection and the next step.

    The client never selects another tenant silently.

    Args:
        selection: The refused tenant and its source.
        context: The name of the current context.
        path: The configuration file.
        advice: The next step instead of the usual one, such as `NO_TENANTS`.
    """
    choose = "choose another with: frost tenant use NAME (frost tenant list --all shows them)"
    where, usual = {
        "flag": ("came from --tenant", "list your tenants: frost tenant list --all"),
        "variable": (f"came from {VARIABLE}", "change or unset the variable"),
        "context": (f"is the stored selection (tenant use) of context {safe(context)} in {safe(path)}", choose),
        "default": ("is your default tenant", choose),
    }[selection.source]
    return f"tenant {selection.tenant_id} {where}; {advice or usual}"
