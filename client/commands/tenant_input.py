"""What the commands of tenants take alike: `--organization`, and the tenant that it must be of (checklist G30)."""

import click

from client import tenancy
from client.api import tenants
from client.commands.invocation import Invocation
from client.commands.names import organization_ids
from client.errors import Exit, FrostError


def organization_flag(help: str) -> click.Option:
    return click.Option(["--organization"], metavar="ID", help=help, shell_complete=organization_ids)


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
