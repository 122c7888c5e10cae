"""Quota limits: their SQL, their use, including resources being created, and the check for a new resource."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    case,
    cast,
    false,
    func,
    or_,
    select,
    true,
)

from service.catalogue.resource_types import Kind, QuotaType, default_limits, kinds, quota_types
from service.db.dialect import upsert_insert
from service.db.statements import failing_listings, lock_tenant
from service.db.tables import organization_quotas, resources, tenant_quotas, tenants
from service.errors import ApiError
from service.principal import Principal
from service.principals.grants import enterable_tenant_ids

# Resource types by their names in the compute API.
COMPUTE_NAMES: Mapping[str, str] = {
    "instances": "instance",
    "vcpus": "vcpu",
    "ramMb": "ram",
    "volumes": "volume",
    "volumeStorageGb": "volume_storage",
    "images": "image",
    "imageStorageGb": "image_storage",
}
# Reported by the compute API only.
IMAGES = frozenset({"image", "image_storage"})
Tenants = Collection[str] | Select[Any]
"""Ids of tenants, or a query for them."""
Counting = tuple[str, str | None]
"""A kind and the attribute to sum; None for the number of resources."""
Counted = Mapping[str, Mapping[Counting, int]]
"""Use by tenant, then by kind and attribute."""


@dataclass(frozen=True, slots=True)
class Use:
    """Use of a quota in its unit; `total` includes `creating`, the part being created."""

    total: int
    creating: int


def sum_uses(uses: Sequence[Use | None]) -> Use | None:
    """Return the sum; None if any use is unknown."""
    counted = [use for use in uses if use is not None]
    if len(counted) < len(uses):
        return None
    return Use(sum(use.total for use in counted), sum(use.creating for use in counted))


def require_within_limit(quota: QuotaType, limit: int, used: int, amount: int, *, known: bool = True) -> None:
    """Check that a new resource fits within a limit.

    Args:
        used: Use, including resources being created.
        amount: Use by the new resource.
        known: False if the backend cannot be read; then the use is not shown.

    Raises:
        ApiError: 403 QUOTA_EXCEEDED.
    """
    if used + amount <= limit:
        return
    if limit == 0:
        message = f"this tenant has no allowance for {quota.title}"
    elif known:
        message = f"this would exceed the quota of {quota.title}: {used} of {limit} in use, {amount} wanted"
    else:
        message = f"this would exceed the quota of {quota.title}: the limit is {limit}, {amount} wanted"
    raise ApiError(
        403,
        "QUOTA_EXCEEDED",
        message,
        details={
            "resourceType": quota.resource_type,
            "limit": limit,
            "used": used if known else None,
            "wanted": amount,
        },
        hint=f"an owner or admin can request a new limit: frost tenant quota request {quota.resource_type}",
    )


@dataclass(frozen=True, slots=True)
class Tightest:
    """The quota nearest to its limit; `used` is None if unknown."""

    resource_type: str
    used: int | None
    limit: int
    unit: str


def tightest(
    limits: Mapping[str, int],
    counted: Mapping[tuple[str, str | None], int],
    types: Mapping[str, QuotaType],
    unknown: Collection[str] = (),
) -> Tightest | None:
    """Return the quota with the largest share in use; None without limits and use.

    Args:
        limits: By resource type. A limit of 0 is ignored unless in use.
        counted: Use by kind and attribute; attribute None is the number of resources.
        types: Quota types by resource type; the first of equals is returned.
        unknown: Kinds with unknown use, returned only if there is no other.
    """
    best: tuple[Fraction, Tightest] | None = None
    first_unknown: Tightest | None = None
    for name, quota in types.items():
        limit = limits.get(name, 0)
        used = counted.get((quota.kind, quota.attribute), 0)
        if quota.kind in unknown:
            if limit and first_unknown is None:
                first_unknown = Tightest(name, None, limit, quota.unit)
        elif limit or used:
            # Use above a limit of 0 exceeds any share.
            share = Fraction(used, limit) if limit else Fraction(used * 10**9)
            if best is None or share > best[0]:
                best = (share, Tightest(name, used, limit, quota.unit))
    return best[1] if best else first_unknown


def stored_limits(connection: Connection, tenant_ids: Tenants) -> Mapping[str, Mapping[str, int]]:
    """Return the stored limits by tenant and resource type."""
    by_tenant: dict[str, dict[str, int]] = defaultdict(dict)
    query = select(tenant_quotas).where(tenant_quotas.c.tenant_id.in_(tenant_ids))
    for tenant_id, resource_type, limit in connection.execute(query):
        by_tenant[tenant_id][resource_type] = limit
    return by_tenant


def limits_of(connection: Connection, tenant_id: str) -> dict[str, int]:
    """Return a tenant's limits, stored or default, by resource type."""
    return {**default_limits(), **stored_limits(connection, [tenant_id]).get(tenant_id, {})}


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
    limits = limits_of(connection, tenant_id)
    usage = counted(connection, [tenant_id], types).get(tenant_id, {})
    known = (tenant_id, kind.name) not in failing_listings(connection)
    for quota in types:
        used = usage.get((quota.kind, quota.attribute), 0)
        require_within_limit(quota, limits[quota.resource_type], used, amounts[quota], known=known)


def _types(kind: Kind) -> list[QuotaType]:
    return [quota for quota in quota_types().values() if quota.kind == kind.name]
