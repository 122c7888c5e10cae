"""Limits in the database. Every query carries the tenants or the organization."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Select, Table, func, select

from service.authz.entitlement import enterable_tenant_ids
from service.catalogue.quota_types import default_limits, quota_types
from service.db.dialect import upsert_insert
from service.db.tables import organization_quotas, tenant_quotas, tenants
from service.principal import Principal

Tenants = Collection[str] | Select[Any]
"""Ids of tenants, or the query that chooses them."""


def limits(connection: Connection, of: Tenants) -> Mapping[str, Mapping[str, int]]:
    """The limits that tenants were given, by resource type, by tenant."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    query = select(tenant_quotas).where(tenant_quotas.c.tenant_id.in_(of))
    for tenant_id, resource_type, limit in connection.execute(query):
        found[tenant_id][resource_type] = limit
    return found


def limits_of(connection: Connection, tenant_id: str) -> dict[str, int]:
    """The limit of a tenant by resource type; the platform's default where none was given, or not yet."""
    return {**default_limits(), **limits(connection, [tenant_id]).get(tenant_id, {})}


def tenant_ids_of(connection: Connection, organization_id: str) -> list[str]:
    """Every tenant of an organization in the order they were made, also those still being provisioned. checklist Q12"""
    query = select(tenants.c.id).where(tenants.c.organization_id == organization_id)
    return list(connection.scalars(query.order_by(tenants.c.created_at, tenants.c.id)))


def tenant_names(connection: Connection, caller: Principal, organization_id: str) -> dict[str, str]:
    """Return the display names of an organization's tenants that a caller may enter, by tenant id."""
    query = select(tenants.c.id, tenants.c.display_name).where(
        tenants.c.organization_id == organization_id, tenants.c.id.in_(enterable_tenant_ids(caller))
    )
    return {row.id: row.display_name for row in connection.execute(query)}


def allocated(connection: Connection, organization_id: str) -> dict[str, int]:
    """The limits of all tenants of an organization together, by resource type.

    One that is still being provisioned counts with the defaults it is about to get.
    """
    inside = tenants.c.organization_id == organization_id
    number = connection.scalar(select(func.count()).select_from(tenants).where(inside)) or 0
    query = (
        select(tenant_quotas.c.resource_type, func.sum(tenant_quotas.c.limit), func.count())
        .join(tenants)
        .where(inside)
        .group_by(tenant_quotas.c.resource_type)
    )
    given = {resource_type: (int(total), rows) for resource_type, total, rows in connection.execute(query)}
    together = {}
    for name, default in default_limits().items():
        total, rows = given.get(name, (0, 0))
        together[name] = total + (number - rows) * default
    return together


def organization_limits(connection: Connection, organization_id: str) -> dict[str, int | None]:
    """The limit of an organization by resource type; None for what nobody can request."""
    query = select(organization_quotas).where(organization_quotas.c.organization_id == organization_id)
    changed = {resource_type: limit for _, resource_type, limit in connection.execute(query)}
    return {name: changed.get(name, quota.organization) for name, quota in quota_types().items()}


def set_limit(connection: Connection, tenant_id: str, resource_type: str, limit: int) -> None:
    """Give a tenant another limit; provisioning leaves it as it is then."""
    _put(connection, tenant_quotas, {"tenant_id": tenant_id, "resource_type": resource_type, "limit": limit})


def set_organization_limit(connection: Connection, organization_id: str, resource_type: str, limit: int) -> None:
    """Give an organization another limit."""
    row = {"organization_id": organization_id, "resource_type": resource_type, "limit": limit}
    _put(connection, organization_quotas, row)


def _put(connection: Connection, table: Table, row: Mapping[str, Any]) -> None:
    added = upsert_insert(connection, table).values(**row)
    connection.execute(
        added.on_conflict_do_update(index_elements=list(table.primary_key), set_={"limit": added.excluded.limit})
    )
