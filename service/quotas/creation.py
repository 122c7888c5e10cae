"""Whether a tenant has room for one resource more, exact however many are created at once. checklist Q04, Q09"""

from collections.abc import Mapping

from sqlalchemy import Connection

from service.iam.principal_store import lock_tenant
from service.quotas import counting, rules, store
from service.world.facts import failing_listings
from service.world.kinds import Kind
from service.world.quotas import QuotaType, quota_types


def counted_attributes(kind: Kind) -> dict[str, int]:
    """The attributes of a kind that quotas count, each as it is of a resource that is made without naming it."""
    return {quota.attribute: quota.unless_said for quota in _types(kind) if quota.attribute}


def require_room(connection: Connection, tenant_id: str, kind: Kind, attributes: Mapping[str, int]) -> None:
    """Refuse a resource that would take a tenant over one of its limits.

    It holds the tenant until the transaction ends, in which the resource must be written: of several that fit only one
    by one, each is counted when the next asks. Where the use is unknown our own rows decide, and are not shown.

    Raises:
        Refusal: 403 QUOTA_EXCEEDED.
    """
    wanted = {quota: 1 if quota.attribute is None else attributes[quota.attribute] for quota in _types(kind)}
    asking = [quota for quota, number in wanted.items() if number]
    if not asking:
        return
    lock_tenant(connection, tenant_id)
    limits = store.limits_of(connection, tenant_id)
    counted = counting.counted(connection, [tenant_id], asking).get(tenant_id, {})
    known = (tenant_id, kind.name) not in failing_listings(connection)
    for quota in asking:
        used = counted.get((quota.kind, quota.attribute), 0)
        rules.require_room(quota, limits[quota.resource_type], used, wanted[quota], known=known)


def _types(kind: Kind) -> list[QuotaType]:
    return [quota for quota in quota_types().values() if quota.kind == kind.name]
