"""Decisions about tenants, without the database and without HTTP."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

from service.catalogue.quota_types import QuotaType

PROVISIONING = "provisioning"


@dataclass(frozen=True, slots=True)
class Tightest:
    """The quota of a tenant that is nearest to its limit. `used` and `limit` are in `unit`; `used` None is unknown."""

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
    """The quota with the largest share in use; the first in the order of the reports among equals.

    Args:
        limits: limit by resource type; 0 is no allowance, and the tightest only while something is in use all the same.
        counted: use by (kind, attribute); attribute None is the number of resources.
        types: what the resource types count.
        unknown: kinds that cannot be counted now. Unknown is not 0: such a quota is named only when no other can be.

    Returns:
        None when the tenant has no allowance and no use at all.
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
            # Over a limit of nothing is fuller than any share of something.
            share = Fraction(used, limit) if limit else Fraction(used * 10**9)
            if best is None or share > best[0]:
                best = (share, Tightest(name, used, limit, quota.unit))
    return best[1] if best else first_unknown
