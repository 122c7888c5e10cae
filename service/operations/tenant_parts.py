"""What each provisioning step adds for a tenant. Every statement may run again and then changes nothing."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, select

from service.db.engine import insert_unless_there
from service.db.tables import (
    billing_accounts,
    isolation_projects,
    organizations,
    tenant_quotas,
    tenant_roles,
    tenants,
)
from service.world.quotas import defaults
from service.world.roles import roles

# The column takes 120 characters, two slugs may have 64 + 48, and the id's 8 keep the cut name unique.
NAME_OF_ORGANIZATION = 62


def isolation(connection: Connection, tenant_id: str, at: datetime) -> None:
    """A project that nothing of another tenant reaches: `<organization>-<tenant>-<first 8 of the id>`."""
    slugs = connection.execute(
        select(organizations.c.slug.label("organization"), tenants.c.slug.label("tenant"))
        .join_from(tenants, organizations)
        .where(tenants.c.id == tenant_id)
    ).one()
    name = f"{slugs.organization[:NAME_OF_ORGANIZATION]}-{slugs.tenant}-{tenant_id[:8]}"
    _add(connection, isolation_projects, [{"tenant_id": tenant_id, "name": name, "created_at": at}])


def standard_roles(connection: Connection, tenant_id: str, at: datetime) -> None:
    """Every role of the platform, usable in the tenant."""
    _add(connection, tenant_roles, [{"tenant_id": tenant_id, "role": role, "created_at": at} for role in roles()])


def default_quotas(connection: Connection, tenant_id: str, at: datetime) -> None:
    """The platform's defaults; a limit somebody has set already stays. checklist T07"""
    _add(
        connection,
        tenant_quotas,
        [{"tenant_id": tenant_id, "resource_type": kind, "limit": limit} for kind, limit in defaults().items()],
    )


def billing_account(connection: Connection, tenant_id: str, at: datetime) -> None:
    """The account the tenant's use is billed to; its number follows from the tenant's id."""
    number = f"BA-{tenant_id.replace('-', '')[:12].upper()}"
    _add(connection, billing_accounts, [{"tenant_id": tenant_id, "account_number": number, "created_at": at}])


WORK: Mapping[str, Callable[[Connection, str, datetime], None]] = {
    "isolation": isolation,
    "roles": standard_roles,
    "quotas": default_quotas,
    "billing_account": billing_account,
}


def _add(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Inserts the rows that are not there yet, by primary key; any other conflict is an error."""
    statement = insert_unless_there(connection, table).on_conflict_do_nothing(index_elements=list(table.primary_key))
    connection.execute(statement, rows)
