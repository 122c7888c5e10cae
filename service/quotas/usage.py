"""Use of quotas, including resources being created, and the check for a new resource."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import BigInteger, ColumnElement, Connection, and_, case, cast, false, func, or_, select, true

from service.catalogue.quota_types import QuotaType, quota_types
from service.catalogue.resource_types import Kind, kinds
from service.db.platform_state import failing_listings
from service.db.statements import lock_tenant
from service.db.tables import resources
from service.quotas import limits as quotas_limits
from service.quotas import queries
from service.quotas.limits import Use
from service.quotas.queries import Tenants

Counting = tuple[str, str | None]
"""A kind and the attribute to sum; None for the number of resources."""
Counted = Mapping[str, Mapping[Counting, int]]
"""Use by tenant, then by kind and attribute."""


def counted(connection: Connection, tenant_ids: Tenants, types: Iterable[QuotaType]) -> Counted:
    by_tenant = _count_by_type(connection, tenant_ids, types, [true()])
    return {
        tenant_id: {counting: total for counting, (total,) in totals.items()} for tenant_id, totals in by_tenant.items()
    }


def uses(
    connection: Connection, tenant_ids: Collection[str], types: Collection[QuotaType]
) -> dict[str, dict[str, Use | None]]:
    """Return the use by tenant and resource type; None if the backend cannot be read."""
    by_tenant = _count_by_type(
        connection, tenant_ids, types, [true(), _is_being_created({quota.kind for quota in types})]
    )
    failing = failing_listings(connection)

    def use(tenant_id: str, quota: QuotaType) -> Use | None:
        if (tenant_id, quota.kind) in failing:
            return None
        return Use(*by_tenant.get(tenant_id, {}).get((quota.kind, quota.attribute), (0, 0)))

    return {tenant_id: {quota.resource_type: use(tenant_id, quota) for quota in types} for tenant_id in tenant_ids}


def _count_by_type(
    connection: Connection, tenant_ids: Tenants, types: Iterable[QuotaType], conditions: Sequence[ColumnElement[bool]]
) -> Mapping[str, Mapping[Counting, tuple[int, ...]]]:
    """Return a number per condition. Reads each resource once."""
    counting: set[str] = set()
    kinds_with: dict[str | None, list[str]] = defaultdict(list)
    for quota in types:
        counting.add(quota.kind)
        kinds_with[quota.attribute].append(quota.kind)
    figures: list[ColumnElement[int]] = []
    for name, having in kinds_with.items():
        for condition in conditions:
            if name is None:
                figures.append(func.count(case((condition, 1))))
            else:
                # Only for kinds with the attribute, because reading JSON is slow.
                value = cast(resources.c.attributes[name].as_string(), BigInteger)
                figures.append(func.sum(case((and_(resources.c.kind.in_(having), condition), value))))
    query = (
        select(resources.c.tenant_id, resources.c.kind, *figures)
        .where(resources.c.tenant_id.in_(tenant_ids), resources.c.kind.in_(counting))
        .group_by(resources.c.tenant_id, resources.c.kind)
    )
    by_tenant: dict[str, dict[Counting, tuple[int, ...]]] = defaultdict(dict)
    for tenant_id, kind, *numbers in connection.execute(query):
        for position, (name, having) in enumerate(kinds_with.items()):
            if kind in having:
                group = numbers[position * len(conditions) :][: len(conditions)]
                by_tenant[tenant_id][kind, name] = tuple(int(number or 0) for number in group)
    return by_tenant


def _is_being_created(counting: Collection[str]) -> ColumnElement[bool]:
    """Match resources being created; the name of the state depends on the kind."""
    states = {name: state for name in counting if (state := kinds()[name].creating)}
    of_kind = or_(
        false(), *(and_(resources.c.kind == kind, resources.c.state == state) for kind, state in states.items())
    )
    # Excludes most resources with a single comparison.
    return and_(resources.c.state.in_(set(states.values())), of_kind)


def counted_attributes(kind: Kind) -> dict[str, int]:
    """Return the attributes that quotas sum, with their defaults."""
    return {quota.attribute: quota.unless_said for quota in _types(kind) if quota.attribute}


def require_quota(connection: Connection, tenant_id: str, kind: Kind, attributes: Mapping[str, int]) -> None:
    """Check that a new resource keeps within the limits of the tenant.

    Locks the tenant until the end of the transaction, which must write the resource, so that concurrent creations are
    included. If the backend cannot be read, the stored use decides but is not shown.

    Raises:
        ApiError: 403 QUOTA_EXCEEDED.
    """
    amounts = {quota: 1 if quota.attribute is None else attributes[quota.attribute] for quota in _types(kind)}
    types = [quota for quota, amount in amounts.items() if amount]
    if not types:
        return
    lock_tenant(connection, tenant_id)
    limits = queries.limits_of(connection, tenant_id)
    usage = counted(connection, [tenant_id], types).get(tenant_id, {})
    known = (tenant_id, kind.name) not in failing_listings(connection)
    for quota in types:
        used = usage.get((quota.kind, quota.attribute), 0)
        quotas_limits.require_within_limit(quota, limits[quota.resource_type], used, amounts[quota], known=known)


def _types(kind: Kind) -> list[QuotaType]:
    return [quota for quota in quota_types().values() if quota.kind == kind.name]
