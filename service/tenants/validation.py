"""The quota of a tenant that is nearest to its limit."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

from service.catalogue.quota_types import QuotaType

PROVISIONING = "provisioning"


@dataclass(frozen=True, slots=True)
class Tightest:
    """The quota nearest to its limit. `used` and `limit` are in `unit`; `used` is None if unknown."""

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
    """Return the quota with the largest share in use, among equals the first in the order of the reports.

    Args:
        limits: Limit by resource type. A limit of 0 counts only if something is in use.
        counted: Use by kind and attribute; attribute None is the number of resources.
        types: Quota types by resource type.
        unknown: Kinds that cannot be counted now; such a quota is returned only if there is no other.

    Returns:
        None if the tenant has no limit above 0 and no use.
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
