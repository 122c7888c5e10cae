"""What the commands of tenants take alike: `--organization`, and the tenant that it must be of (checklist G30)."""

import click

from client import tenancy
from client.api import tenants
from client.commands.invocation import Invocation
from client.commands.names import organization_ids
from client.errors import Exit, FrostError


def _remember(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj.organization = value


def _own_or_remembered(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return ctx.obj.organization if value is None else value


def organization_flag(help: str) -> click.Option:
    return click.Option(
        ["--organization"], metavar="ID", help=help, shell_complete=organization_ids, callback=_own_or_remembered
    )


OF_GROUP = click.Option(
    ["--organization"],
    metavar="ID",
    help="For the command that follows: the organization, by id.",
    shell_complete=organization_ids,
    expose_value=False,
    callback=_remember,
)
"""`--organization` between a group's word and its command; every command of the group takes the flag itself."""


BESIDE = organization_flag("Refuse a tenant that is not of this organization, by id.")


def check_within(run: Invocation, organization: str | None) -> None:
    """Refuse to go on when the tenant in use is not of the organization named beside it."""
    if organization is not None:
        organization_id = tenancy.check_organization_id(organization)
        within(run, run.tenant.tenant_id, organization_id)


def within(run: Invocation, tenant_id: str, organization_id: str) -> None:
    """Refuse a tenant that is not of the organization named beside it."""
    of_it = run.call(tenants.list_of(organization_id))["tenants"]
    if not any(one["id"] == tenant_id for one in of_it):
        raise FrostError(
            f"tenant {tenant_id} is not one of yours in organization {organization_id}",
            code="NOT_FOUND",
            hint=f"frost tenant list --organization {organization_id}",
            exit_code=Exit.NOT_FOUND,
        )
