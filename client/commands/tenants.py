"""`frost tenant`: create, current, list, rename, use; and `--organization`.

Default tags and quotas are in the packages `default_tags` and `quotas`.
"""

import os
from collections.abc import Sequence
from typing import Any

import click

from client import tenancy
from client.api import account, tenants
from client.commands.command import Group, Lazy
from client.commands.completers import organization_names, tenant_ids, tenant_words
from client.commands.invocation import Invocation
from client.commands.parameters import Argument, Option
from client.commands.usage_errors import naming_flag
from client.errors import Exit, FrostError, usage
from client.name_lookup import AMBIGUOUS, ORGANIZATION, is_id, match
from client.tables import columns
from client.text import safe


def _remember(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj.organization = value


def _own_or_remembered(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return ctx.obj.organization if value is None else value


def organization_flag(help: str) -> click.Option:
    return Option(
        ["--organization"], metavar="NAME|ID", help=help, shell_complete=organization_names, callback=_own_or_remembered
    )


OF_GROUP = Option(
    ["--organization"],
    metavar="NAME|ID",
    help="Name, slug or ID of the organization for the command after it.",
    shell_complete=organization_names,
    expose_value=False,
    callback=_remember,
)
"""`--organization` between the group and its command. The commands accept the flag too."""


WITHIN_ORGANIZATION = organization_flag("Fail unless the tenant belongs to this organization (name, slug or ID).")


def find_organization_id(run: Invocation, argument: str) -> str:
    """Return the id of the organization that `--organization` names. An id is returned without a request.

    Raises:
        FrostError: The value is empty (exit 2), none of the caller's organizations has the name (exit 5), or several
            have it (exit 1).
    """
    if is_id(argument):
        run.organization_values[argument.lower()] = argument
        return argument.lower()
    if not argument.strip():
        raise usage("--organization is empty; expected the name or the ID of an organization")
    organization = match(ORGANIZATION, run.call(account.organizations())["organizations"], argument)
    if organization is None:
        raise FrostError(
            f"no organization {safe(argument, 130)!r} among your organizations",
            code="NOT_FOUND",
            hint="list your organizations: frost account profile",
            exit_code=Exit.NOT_FOUND,
        )
    run.organization_values[organization["id"]] = argument
    return str(organization["id"])


def check_within(run: Invocation, organization: str | None) -> None:
    """Check that the selected tenant belongs to `--organization`, if set. Raises FrostError (exit 5)."""
    if organization is not None:
        organization_id = find_organization_id(run, organization)
        within(run, run.tenant.tenant_id, organization_id)


def within(run: Invocation, tenant_id: str, organization_id: str) -> None:
    """Check that the caller has a tenant in an organization. Raises FrostError (exit 5)."""
    of_it = run.call(tenants.list_of(organization_id))["tenants"]
    if not any(one["id"] == tenant_id for one in of_it):
        raise FrostError(
            f"tenant {tenant_id} is not one of your tenants in organization"
            f" {safe(run.organization_values.get(organization_id, organization_id), 130)!r}",
            code="NOT_FOUND",
            hint=f"frost tenant list --organization {organization_id}",
            exit_code=Exit.NOT_FOUND,
        )


FEW = 5
"""Maximum number of organizations in a message. The error's details have all."""

tenant = Group(
    "tenant",
    {
        "default-tags": Lazy(
            "client.commands.default_tags.tags:default_tags",
            "Manage the tags that new resources of a tenant get.",
            ("default-tag",),
        ),
        "quota": Lazy(
            "client.commands.quotas.quota:quota",
            "Show quota usage and request changes.",
            ("quotas",),
        ),
        "activity": Lazy(
            "client.commands.activity:activity",
            "List the entries of the audit log, newest first.",
        ),
    },
    help="Manage tenants, their default tags and quotas.",
    params=[OF_GROUP],
)

OF_ONE = "Name, slug or ID of the organization; required if you belong to several."


@tenant.leaf(
    "create",
    Option(["--name"], required=True, metavar="NAME", help="Display name, 1 to 128 characters."),
    organization_flag(OF_ONE),
    examples=('frost tenant create --name "Web Shop" --organization "Aurora Labs"',),
)
def create(run: Invocation, name: str, organization: str | None) -> None:
    """Create a tenant in an organization.

    Returns at once with status `provisioning`; isolation, roles, quotas and the billing account are set up in the
    background. The active tenant does not change.
    """
    _refuse_tenant_flag(run, "create", "the command creates a new tenant")
    name = tenancy.check_display_name(name)
    organization_id = _only_organization(run) if organization is None else find_organization_id(run, organization)
    with naming_flag("displayName", "--name"):
        created = run.call(tenants.create(organization_id, name))
    run.output.record(columns.TENANT, created)
    if created["status"] == "provisioning":
        run.output.note(f"provisioning in the background; see frost tenant list --organization {organization_id}")


@tenant.leaf("current", WITHIN_ORGANIZATION, examples=("frost tenant current", "frost tenant current -o json"))
def current(run: Invocation, organization: str | None) -> None:
    """Show the tenant that commands use, and its source.

    The order is: --tenant, FROST_TENANT, the tenant selected with `tenant use`, your default tenant.
    """
    check_within(run, organization)
    record = run.call_for_tenant(tenants.get)
    run.output.record(columns.TENANT, record, source=run.tenant.source)


@tenant.leaf(
    "list",
    Option(["--all", "everywhere"], is_flag=True, help="List the tenants of all your organizations."),
    organization_flag("Only of this organization (name, slug or ID); default: that of the active tenant."),
    examples=("frost tenant list", "frost tenant list --all -o wide"),
)
def list_(run: Invocation, everywhere: bool, organization: str | None) -> None:
    """List the tenants of one organization or of all.

    Only your tenants are listed; a star marks the active one. Without --organization or --all, and with several
    organizations, the tenants of the active tenant's organization are listed.
    """
    if everywhere and organization is not None:
        raise usage("--all and --organization exclude each other (frost tenant list)", "use one of them")
    wide = run.output.wide
    if organization is not None:
        answer = run.call(tenants.list_of(find_organization_id(run, organization), usage=wide))
    else:
        answer = run.call(tenants.list_all(usage=wide))
    active = _active(run, answer)
    records = answer["tenants"]
    if not records and not everywhere and organization is None:
        _own_organizations(run)  # raises if that is why the list is empty
    if not everywhere and organization is None:
        records = _of_one_organization(run, records, active)
    run.output.records(columns.TENANT, records, marked=active)


@tenant.leaf(
    "rename",
    Argument(["tenant_id"], metavar="TENANT_ID", shell_complete=tenant_ids, help="ID of the tenant."),
    Option(["--name"], required=True, metavar="NAME", help="The new display name, 1 to 128 characters."),
    WITHIN_ORGANIZATION,
    examples=('frost tenant rename 0192f7c1-5a3e-7b60-9d2f-3c5a8e7b1d04 --name "Web Shop EU"',),
)
def rename(run: Invocation, tenant_id: str, name: str, organization: str | None) -> None:
    """Change a tenant's display name. Its ID and slug do not change.

    Requires the role admin or owner in the tenant's organization.
    """
    _refuse_tenant_flag(run, "rename", "TENANT_ID names the tenant")
    name = tenancy.check_display_name(name)
    tenant_id = tenancy.check_id(tenant_id, "TENANT_ID")
    if organization is not None:
        within(run, tenant_id, find_organization_id(run, organization))
    with naming_flag("displayName", "--name"):
        run.output.record(columns.TENANT, _rename(run, tenant_id, name))


def _rename(run: Invocation, tenant_id: str, name: str) -> dict[str, Any]:
    try:
        renamed: dict[str, Any] = run.call(tenants.rename(tenant_id, name))
    except FrostError as error:
        if error.gone or error.code == "TENANT_ACCESS_DENIED":
            error.message = f"TENANT_ID {tenant_id}: {error.message}"
            error.hint = "list your tenants: frost tenant list --all"
        raise
    return renamed


@tenant.leaf(
    "use",
    Argument(["name"], metavar="TENANT", help="Name, slug or ID.", shell_complete=tenant_words),
    organization_flag("Search only this organization (name, slug or ID), if names are ambiguous."),
    examples=('frost tenant use "web shop"', "frost tenant use newsroom"),
)
def use(run: Invocation, name: str, organization: str | None) -> None:
    """Select the active tenant of the current context.

    TENANT is an ID, a display name or a slug, in any letter case, of exactly one of your tenants.
    """
    _refuse_tenant_flag(run, "use", "TENANT names the tenant")
    name = _require_value("TENANT", name)
    if organization is None:
        answer = run.call(tenants.list_all())
    else:
        answer = run.call(tenants.list_of(find_organization_id(run, organization)))
    try:
        chosen = tenancy.find(answer["tenants"], name)
    except FrostError as error:
        organizations = {one["organizationId"] for one in (error.details or {}).get("tenants", [])}
        if error.code == AMBIGUOUS and len(organizations) > 1:
            error.hint += ", or select an organization: --organization NAME"
        raise
    tenancy.persist(run.connection, chosen["id"])
    context = run.connection.context.name
    run.output.done(
        f"{_description(chosen)} is now the active tenant of context {context}", {**chosen, "context": context}
    )
    if os.environ.get(tenancy.VARIABLE):
        run.output.warn(f"{tenancy.VARIABLE} is set and overrides it")
    if chosen["status"] == "provisioning":
        run.output.note("the tenant is still being provisioned")


# --- which organization ----------------------------------------------------------------------------------------------


def _only_organization(run: Invocation) -> str:
    """Return the id of the caller's only organization.

    Roles do not count: a second membership must not change the organization in which a script creates tenants.

    Raises:
        FrostError: The caller belongs to no organization (exit 4) or to several (exit 2).
    """
    organizations = _own_organizations(run)
    if len(organizations) > 1:
        raise _several_organizations(organizations, "id", "name", "select one with --organization NAME")
    return str(organizations[0]["id"])


def _own_organizations(run: Invocation) -> list[dict[str, Any]]:
    """Return the caller's organizations. Raises FrostError (exit 4) if there is none."""
    organizations: list[dict[str, Any]] = run.call(account.organizations())["organizations"]
    if not organizations:
        raise FrostError(
            "you belong to no organization",
            code="NO_ORGANIZATION",
            hint="ask an owner or admin of one to add you",
            exit_code=Exit.NOT_ALLOWED,
        )
    return organizations


def _several_organizations(records: Sequence[columns.Record], id_key: str, name_key: str, hint: str) -> FrostError:
    listed = {str(record[id_key]): str(record[name_key]) for record in records}
    names = [f"{id} ({name})" for id, name in listed.items()][:FEW]
    more = [f"{len(listed) - FEW} more"] if len(listed) > FEW else []
    return FrostError(
        f"you belong to several organizations: {', '.join([*names, *more])}",
        code="ORGANIZATION_NEEDED",
        hint=hint,
        exit_code=Exit.USAGE,
        details={"organizations": [{"id": id, "name": name} for id, name in listed.items()]},
    )


def _of_one_organization(run: Invocation, records: list[dict[str, Any]], active: str) -> list[dict[str, Any]]:
    """Return the tenants of one organization: the only one in the list, else that of the active tenant.

    Raises:
        FrostError: The caller has several organizations, and the active tenant is not in the list (exit 2).
    """
    if len({record["organizationId"] for record in records}) <= 1:
        return records
    chosen = next((record for record in records if record["id"] == active), None)
    if chosen is None:
        raise _several_organizations(
            records, "organizationId", "organizationName", "select one with --organization NAME, or use --all"
        )
    run.output.note(f"organization {chosen['organizationName']}, of the active tenant; use --all for all organizations")
    return [record for record in records if record["organizationId"] == chosen["organizationId"]]


# --- which tenant ----------------------------------------------------------------------------------------------------


def _active(run: Invocation, answer: dict[str, Any]) -> str:
    """Return the id of the tenant that the next command would use, else "". `answer` includes the default tenant."""

    def default() -> str:
        return str(answer.get("defaultTenantId") or "")

    try:
        return tenancy.resolve(run.flags.tenant, os.environ, run.context, default, run.config_path).tenant_id
    except FrostError as error:
        if error.code == tenancy.STORED_INVALID:
            run.output.warn(error.message)
        elif error.code != "NO_TENANT":
            raise
        return ""


def _refuse_tenant_flag(run: Invocation, command: str, reason: str) -> None:
    """Refuse the global `--tenant`, which the command would ignore. Raises FrostError (exit 2)."""
    if run.flags.tenant is not None:
        raise usage(f"frost tenant {command} takes no --tenant: {reason}", "omit --tenant")


def _require_value(flag: str, value: str) -> str:
    if not value.strip():
        raise usage(f"{flag} requires a value")
    return value


def _description(record: columns.Record) -> str:
    return f'"{record["displayName"]}" ({record["id"]})'
