"""Which tenant is operated on, and why; finding one by id, name or slug.

Source: contract: Client conventions, tenant use; checklist G20 to G29, T18 to T32.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from client.errors import Exit, FrostError, usage
from client.text import safe, width

if TYPE_CHECKING:
    from client.config import Context
    from client.connection import Connection

VARIABLE = "FROST_TENANT"
AMBIGUOUS = "AMBIGUOUS_NAME"
ID_NEEDED = "TENANT_ID_NEEDED"
STORED_INVALID = "STORED_TENANT_INVALID"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_LISTED = 10
LONGEST_NAME = 128


class Selection(NamedTuple):
    """The tenant the next command uses, and which of the four places named it."""

    tenant_id: str
    source: Literal["flag", "variable", "context", "default"]


def resolve(
    flag: str | None, environ: Mapping[str, str], context: Context, default: Callable[[], str], path: str = ""
) -> Selection:
    """The order of the contract: `--tenant`, `FROST_TENANT`, the context's selection, the caller's default tenant.

    Args:
        flag: `--tenant` as given, None when not; given but empty is a mistake (checklist G27).
        environ: Where the variable is read; an empty one counts as not set (checklist G26).
        context: The context in use.
        default: Asks the platform for the caller's default tenant; called only when nothing else names one.
        path: The config file, for the error about a stored tenant.

    Raises:
        FrostError: A value that is not an id (exit 2; of a context: STORED_INVALID), or no tenant at all (exit 1).
    """
    if flag is not None:
        return Selection(check_id(flag, "--tenant"), "flag")
    if variable := environ.get(VARIABLE):
        return Selection(check_id(variable, f"the variable {VARIABLE}"), "variable")
    if context.tenant:
        return Selection(_check_stored(context.tenant, context.name, path), "context")
    if found := default():
        return Selection(found, "default")
    raise FrostError(
        "you have no default tenant and none is selected",
        code="NO_TENANT",
        hint="choose one with: frost tenant use NAME (frost tenant list --all shows them)",
    )


def _check_stored(value: str, context: str, path: str) -> str:
    if not _UUID.fullmatch(value):
        place = f"tenant of context {safe(context)}{f' in {safe(path)}' if path else ''}"
        raise usage(
            f"{place}: {safe(value, 60)!r} is not a tenant's id",
            "choose a tenant: frost tenant use NAME (frost tenant list --all shows them)",
            code=STORED_INVALID,
        )
    return value.lower()


def check_id(value: str, name: str) -> str:
    """`value` as a tenant id in its canonical form, lower case with hyphens.

    Raises:
        FrostError: It is empty or not an id (exit 2); `name` says where it came from (checklist G24, G25, G27).
    """
    if not value:
        raise usage(f"{name} is empty; it takes a tenant's id", "leave it out to use the selected tenant")
    if not _UUID.fullmatch(value):
        error = usage(
            f"{name} takes a tenant's id, not {safe(value, 60)!r}",
            "to choose a tenant by its name: frost tenant use NAME; the ids: frost tenant list",
            code=ID_NEEDED,
        )
        error.details = {"given": value}
        raise error
    return value.lower()


def check_organization_id(value: str) -> str:
    """`value` as an organization's id in its canonical form.

    Raises:
        FrostError: It is empty or not an id (exit 2).
    """
    if not _UUID.fullmatch(value):
        raise usage(
            f"--organization takes an organization's id, not {safe(value, 60)!r}"
            if value
            else "--organization is empty",
            "the ids: frost whoami -o wide, or frost tenant list --all -o wide",
        )
    return value.lower()


def check_display_name(value: str) -> str:
    """Return the value of `--name` unless the platform would refuse it.

    Raises:
        FrostError: Not 1 to 128 characters, or control or formatting characters among them (exit 2).
    """
    from client.models.names import has_control  # not on the path of a read

    name = unicodedata.normalize("NFC", value).strip()
    if not name:
        raise usage(f"--name takes 1 to {LONGEST_NAME} characters, an empty one was given")
    if len(name) > LONGEST_NAME:
        raise usage(f"--name takes 1 to {LONGEST_NAME} characters, {len(name)} were given: {safe(name, 40)!r}")
    if has_control(name):
        raise usage(f"--name must not hold control or formatting characters: {safe(name, 60)!r}")
    return value


def find(tenants: Sequence[Mapping[str, Any]], argument: str) -> dict[str, Any]:
    """The one tenant that `argument` names: its id, else its display name or slug in any letter case.

    Names are compared as canonical caseless text (Unicode), so `É` matches however it was typed, and look-alike
    letters of another script do not (checklist T21 to T27, T32).

    Args:
        tenants: Records of the tenants the caller is entitled to.
        argument: As typed.

    Raises:
        FrostError: No such tenant, in the same words whether it exists for others or not (exit 5), or several (exit 1).
    """
    if _UUID.fullmatch(argument):
        for tenant in tenants:
            if str(tenant["id"]).lower() == argument.lower():
                return dict(tenant)
    wanted = folded(argument)
    found = [one for one in tenants if wanted in (folded(str(one["displayName"])), folded(str(one["slug"])))]
    if len(found) == 1:
        return dict(found[0])
    if found:
        raise _ambiguous(found, argument)
    raise FrostError(
        f"there is no tenant {safe(argument, 130)!r} that you may use",
        code="NOT_FOUND",
        hint="see the ones you may use: frost tenant list --all",
        exit_code=Exit.NOT_FOUND,
    )


def persist(connection: Connection, tenant_id: str) -> None:
    """Makes the tenant the selection of the connection's context, in the file (checklist T20, T28)."""
    from client.config_edit import edit

    with edit(connection.config.path) as document:
        document.context(connection.context.name)["tenant"] = tenant_id


NO_TENANTS = (
    "you may use no tenant: ask an owner or admin of an organization, or sign in as another person: frost login"
)


def way_out(selection: Selection, context: str, path: str, advice: str = "") -> str:
    """Which tenant was refused, where its selection is, and what to do: it is never exchanged silently (T30).

    Args:
        selection: The tenant and what named it.
        context: The name of the context in use.
        path: The config file.
        advice: What to do, when it is not the usual: `NO_TENANTS` for who has no other one to choose.
    """
    choose = "choose another with: frost tenant use NAME (frost tenant list --all shows them)"
    where, usual = {
        "flag": ("came from --tenant", "see the tenants you may use: frost tenant list --all"),
        "variable": (f"came from {VARIABLE}", "change or unset the variable"),
        "context": (f"is the stored selection (tenant use) of context {safe(context)} in {safe(path)}", choose),
        "default": ("is your default tenant", choose),
    }[selection.source]
    return f"tenant {selection.tenant_id} {where}; {advice or usual}"


def folded(text: str) -> str:
    """A name as names are compared: canonical caseless form (Unicode, section 3.13, D145)."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def _ambiguous(found: Sequence[Mapping[str, Any]], argument: str) -> FrostError:
    members = ("id", "displayName", "slug", "organizationId", "organizationName")
    return FrostError(
        f"{safe(argument, 130)!r} is the name or slug of {len(found)} tenants",
        code=AMBIGUOUS,
        hint="name it by its id: frost tenant use ID",
        details={
            "count": len(found),
            "tenants": [{member: one[member] for member in members} for one in found[:_LISTED]],
        },
    )


def ambiguous_lines(error: FrostError) -> list[str]:
    """The tenants that an ambiguous name could mean, a line each: id, slug and organization in columns."""
    details = error.details or {}
    found = details.get("tenants", [])
    rows = [(safe(one["id"], 40), safe(one["slug"], 80), safe(one["organizationName"], 60)) for one in found]
    slugs = max((width(slug) for _, slug, _ in rows), default=0)
    lines = [f"  {id}  {slug}{' ' * (slugs - width(slug))}  {organization}" for id, slug, organization in rows]
    more = details.get("count", 0) - len(found)
    return [*lines, f"  and {more} more"] if more > 0 else lines
