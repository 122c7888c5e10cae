"""Rules of quota limits and their use."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from service.catalogue.quota_types import QuotaType
from service.errors import ApiError

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
