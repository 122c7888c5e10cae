"""Limits and what is counted against them in the database. Every query carries the tenants or the organization.

This is the one place that counts: reports, requests, creations and the lists of tenants all rest on it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, Table, and_, case, cast, false, func, or_, select

from service.db.engine import insert_unless_there
from service.db.tables import organization_quotas, resources, tenant_quotas, tenants
from service.quotas.rules import NOTHING, Use
from service.world.facts import failing_listings
from service.world.kinds import kinds
from service.world.quotas import QuotaType, defaults, quota_types

Tenants = Collection[str] | Select[Any]
"""Ids of tenants, or the query that chooses them."""
Counted = Mapping[str, Mapping[tuple[str, str | None], Use]]
"""What is in use by (kind, attribute), by tenant; attribute None is the number of resources."""


def limits(connection: Connection, of: Tenants) -> Mapping[str, Mapping[str, int]]:
    """The limits that tenants were given, by resource type, by tenant."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    query = select(tenant_quotas).where(tenant_quotas.c.tenant_id.in_(of))
    for tenant_id, resource_type, limit in connection.execute(query):
        found[tenant_id][resource_type] = limit
    return found


def limits_of(connection: Connection, tenant_id: str) -> dict[str, int]:
    """The limit of a tenant by resource type; the platform's default where none was given, or not yet."""
    return {**defaults(), **limits(connection, [tenant_id]).get(tenant_id, {})}


def counted(connection: Connection, of: Tenants, types: Iterable[QuotaType]) -> Counted:
    """What is there of the kinds that quota types count, in one grouped query that reads each resource once."""
    types = list(types)
    kinds_with: dict[str, list[str]] = defaultdict(list)
    for quota in types:
        if quota.attribute:
            kinds_with[quota.attribute].append(quota.kind)
    counting = {quota.kind for quota in types}
    making = _being_made(counting)
    figures = [func.count(), func.sum(case((making, 1), else_=0))]
    for name, having in kinds_with.items():
        value, has = cast(resources.c.attributes[name].as_string(), BigInteger), resources.c.kind.in_(having)
        # Only where there is one: looking into a document takes time.
        figures += [func.sum(case((has, value))), func.sum(case((and_(has, making), value)))]
    query = (
        select(resources.c.tenant_id, resources.c.kind, *figures)
        .where(resources.c.tenant_id.in_(of), resources.c.kind.in_(counting))
        .group_by(resources.c.tenant_id, resources.c.kind)
    )
    found: dict[str, dict[tuple[str, str | None], Use]] = defaultdict(dict)
    for tenant_id, kind, *numbers in connection.execute(query):
        totals = [int(number or 0) for number in numbers]
        for attribute, total, creating in zip((None, *kinds_with), totals[::2], totals[1::2], strict=True):
            found[tenant_id][kind, attribute] = Use(total, creating)
    return found


def _being_made(counting: Collection[str]) -> ColumnElement[bool]:
    """Whether a resource is in the state of one that is still being made; another word for each kind, none for some."""
    words = {name: word for name in counting if (word := kinds()[name].creating)}
    of_its_kind = or_(
        false(), *(and_(resources.c.kind == kind, resources.c.state == word) for kind, word in words.items())
    )
    # Most are in no such state at all.
    return and_(resources.c.state.in_(set(words.values())), of_its_kind)


def uses(
    connection: Connection, tenant_ids: Collection[str], types: Collection[QuotaType]
) -> dict[str, dict[str, Use | None]]:
    """What tenants use by resource type, by tenant; None while the backend of that kind fails. checklist Q03"""
    found = counted(connection, tenant_ids, types)
    failing = failing_listings(connection)

    def use(tenant_id: str, quota: QuotaType) -> Use | None:
        if (tenant_id, quota.kind) in failing:
            return None
        return found.get(tenant_id, {}).get((quota.kind, quota.attribute), NOTHING)

    return {tenant_id: {quota.resource_type: use(tenant_id, quota) for quota in types} for tenant_id in tenant_ids}


def tenant_ids_of(connection: Connection, organization_id: str) -> list[str]:
    """Every tenant of an organization in the order they were made, also those still being provisioned. checklist Q12"""
    query = select(tenants.c.id).where(tenants.c.organization_id == organization_id)
    return list(connection.scalars(query.order_by(tenants.c.created_at, tenants.c.id)))


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
    for name, default in defaults().items():
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
    added = insert_unless_there(connection, table).values(**row)
    connection.execute(
        added.on_conflict_do_update(index_elements=list(table.primary_key), set_={"limit": added.excluded.limit})
    )
