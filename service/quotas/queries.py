"""SQL of quota limits."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Select, Table, func, select

from service.catalogue.quota_types import default_limits, quota_types
from service.db.dialect import upsert_insert
from service.db.tables import organization_quotas, tenant_quotas, tenants
from service.principal import Principal
from service.principals.grants import enterable_tenant_ids

Tenants = Collection[str] | Select[Any]
"""Ids of tenants, or a query for them."""


def limits(connection: Connection, tenant_ids: Tenants) -> Mapping[str, Mapping[str, int]]:
    """Return the stored limits by tenant and resource type."""
    by_tenant: dict[str, dict[str, int]] = defaultdict(dict)
    query = select(tenant_quotas).where(tenant_quotas.c.tenant_id.in_(tenant_ids))
    for tenant_id, resource_type, limit in connection.execute(query):
        by_tenant[tenant_id][resource_type] = limit
    return by_tenant


def limits_of(connection: Connection, tenant_id: str) -> dict[str, int]:
    """Return a tenant's limits, stored or default, by resource type."""
    return {**default_limits(), **limits(connection, [tenant_id]).get(tenant_id, {})}


def tenant_ids_of(connection: Connection, organization_id: str) -> list[str]:
    """Return the tenants of an organization, oldest first, including those being provisioned."""
    query = select(tenants.c.id).where(tenants.c.organization_id == organization_id)
    return list(connection.scalars(query.order_by(tenants.c.created_at, tenants.c.id)))


def tenant_names(connection: Connection, principal: Principal, organization_id: str) -> dict[str, str]:
    """Return the display names, by id, of the tenants that a principal may enter."""
    query = select(tenants.c.id, tenants.c.display_name).where(
        tenants.c.organization_id == organization_id, tenants.c.id.in_(enterable_tenant_ids(principal))
    )
    return {row.id: row.display_name for row in connection.execute(query)}


def allocated(connection: Connection, organization_id: str) -> dict[str, int]:
    """Return the sums of the tenants' limits, stored or default, by resource type."""
    in_organization = tenants.c.organization_id == organization_id
    number = connection.scalar(select(func.count()).select_from(tenants).where(in_organization)) or 0
    query = (
        select(tenant_quotas.c.resource_type, func.sum(tenant_quotas.c.limit), func.count())
        .join(tenants)
        .where(in_organization)
        .group_by(tenant_quotas.c.resource_type)
    )
    stored = {resource_type: (int(total), rows) for resource_type, total, rows in connection.execute(query)}
    sums = {}
    for name, default in default_limits().items():
        total, rows = stored.get(name, (0, 0))
        sums[name] = total + (number - rows) * default
    return sums


def organization_limits(connection: Connection, organization_id: str) -> dict[str, int | None]:
    """Return the limits by resource type; None if the type cannot be requested."""
    query = select(organization_quotas).where(organization_quotas.c.organization_id == organization_id)
    stored = {resource_type: limit for _, resource_type, limit in connection.execute(query)}
    return {name: stored.get(name, quota.organization) for name, quota in quota_types().items()}


def set_limit(connection: Connection, tenant_id: str, resource_type: str, limit: int) -> None:
    """Set a limit of a tenant. Provisioning does not overwrite it."""
    _put(connection, tenant_quotas, {"tenant_id": tenant_id, "resource_type": resource_type, "limit": limit})


def set_organization_limit(connection: Connection, organization_id: str, resource_type: str, limit: int) -> None:
    row = {"organization_id": organization_id, "resource_type": resource_type, "limit": limit}
    _put(connection, organization_quotas, row)


def _put(connection: Connection, table: Table, row: Mapping[str, Any]) -> None:
    statement = upsert_insert(connection, table).values(**row)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=list(table.primary_key), set_={"limit": statement.excluded.limit}
        )
    )
