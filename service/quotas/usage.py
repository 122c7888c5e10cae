"""What is in use: counted from the inventory, in one place, for reports, requests, creations and lists of tenants.

What is being created is in use already. Every query carries the tenants.

Whether a tenant has room for one resource more, exact however many are created at once. checklist Q04, Q09
"""

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
"""A kind and the attribute that is summed; None: the resources themselves are counted."""
Counted = Mapping[str, Mapping[Counting, int]]
"""What is in use by what is counted, by tenant."""


def counted(connection: Connection, of: Tenants, types: Iterable[QuotaType]) -> Counted:
    """What is there of the kinds that quota types count, what is being created included."""
    found = _counted(connection, of, types, [true()])
    return {tenant_id: {counting: total for counting, (total,) in here.items()} for tenant_id, here in found.items()}


def uses(
    connection: Connection, tenant_ids: Collection[str], types: Collection[QuotaType]
) -> dict[str, dict[str, Use | None]]:
    """What tenants use by resource type, by tenant; None while the backend of that kind fails. checklist Q03"""
    found = _counted(connection, tenant_ids, types, [true(), _being_made({quota.kind for quota in types})])
    failing = failing_listings(connection)

    def use(tenant_id: str, quota: QuotaType) -> Use | None:
        if (tenant_id, quota.kind) in failing:
            return None
        return Use(*found.get(tenant_id, {}).get((quota.kind, quota.attribute), (0, 0)))

    return {tenant_id: {quota.resource_type: use(tenant_id, quota) for quota in types} for tenant_id in tenant_ids}


def _counted(
    connection: Connection, of: Tenants, types: Iterable[QuotaType], conditions: Sequence[ColumnElement[bool]]
) -> Mapping[str, Mapping[Counting, tuple[int, ...]]]:
    """The number for each condition, by what is counted, by tenant: one grouped query that reads each resource once."""
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
                # Only of kinds that have it: looking into a document is what takes time.
                value = cast(resources.c.attributes[name].as_string(), BigInteger)
                figures.append(func.sum(case((and_(resources.c.kind.in_(having), condition), value))))
    query = (
        select(resources.c.tenant_id, resources.c.kind, *figures)
        .where(resources.c.tenant_id.in_(of), resources.c.kind.in_(counting))
        .group_by(resources.c.tenant_id, resources.c.kind)
    )
    found: dict[str, dict[Counting, tuple[int, ...]]] = defaultdict(dict)
    for tenant_id, kind, *numbers in connection.execute(query):
        for position, (name, having) in enumerate(kinds_with.items()):
            if kind in having:
                of_name = numbers[position * len(conditions) :][: len(conditions)]
                found[tenant_id][kind, name] = tuple(int(number or 0) for number in of_name)
    return found


def _being_made(counting: Collection[str]) -> ColumnElement[bool]:
    """Whether a resource is in the state of one that is still being made; another word for each kind, none for some."""
    words = {name: word for name in counting if (word := kinds()[name].creating)}
    of_its_kind = or_(
        false(), *(and_(resources.c.kind == kind, resources.c.state == word) for kind, word in words.items())
    )
    # Most are in no such state at all.
    return and_(resources.c.state.in_(set(words.values())), of_its_kind)


def counted_attributes(kind: Kind) -> dict[str, int]:
    """The attributes of a kind that quotas count, each as it is of a resource that is made without naming it."""
    return {quota.attribute: quota.unless_said for quota in _types(kind) if quota.attribute}


def require_room(connection: Connection, tenant_id: str, kind: Kind, attributes: Mapping[str, int]) -> None:
    """Refuse a resource that would take a tenant over one of its limits.

    It holds the tenant until the transaction ends, in which the resource must be written: of several that fit only one
    by one, each is counted when the next asks. Where the use is unknown our own rows decide, and are not shown.

    Raises:
        ApiError: 403 QUOTA_EXCEEDED.
    """
    wanted = {quota: 1 if quota.attribute is None else attributes[quota.attribute] for quota in _types(kind)}
    asking = [quota for quota, number in wanted.items() if number]
    if not asking:
        return
    lock_tenant(connection, tenant_id)
    limits = queries.limits_of(connection, tenant_id)
    usage = counted(connection, [tenant_id], asking).get(tenant_id, {})
    known = (tenant_id, kind.name) not in failing_listings(connection)
    for quota in asking:
        used = usage.get((quota.kind, quota.attribute), 0)
        quotas_limits.require_room(quota, limits[quota.resource_type], used, wanted[quota], known=known)


def _types(kind: Kind) -> list[QuotaType]:
    return [quota for quota in quota_types().values() if quota.kind == kind.name]
