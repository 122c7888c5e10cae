"""Decisions about limits and their use, without the database and without HTTP. contract: Quota"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.catalogue.quota_types import QuotaType
from service.errors import ApiError

# The compute service's own names of what it counts. platform-facts: Quotas
OF_COMPUTE: Mapping[str, str] = {
    "instances": "instance",
    "vcpus": "vcpu",
    "ramMb": "ram",
    "volumes": "volume",
    "volumeStorageGb": "volume_storage",
    "images": "image",
    "imageStorageGb": "image_storage",
}
# Only the compute service tells of these.
IMAGES = frozenset({"image", "image_storage"})


@dataclass(frozen=True, slots=True)
class Use:
    """What a tenant uses of a quota, in its unit: `total`, of which `creating` is still being made."""

    total: int
    creating: int


def requestable(limit: int, organization_limit: int, allocated: int) -> int:
    """The highest limit a tenant may be raised to without review: its own, and what its organization has left.

    Args:
        limit: of the tenant now.
        allocated: the limits of all tenants of the organization together, this one's included.
    """
    return limit + max(0, organization_limit - allocated)


def sum_uses(uses: Sequence[Use | None]) -> Use | None:
    """The use of several tenants; None as soon as that of one is unknown. checklist Q13"""
    known = [use for use in uses if use is not None]
    if len(known) < len(uses):
        return None
    return Use(sum(use.total for use in known), sum(use.creating for use in known))


def require_room(quota: QuotaType, limit: int, used: int, wanted: int, *, known: bool = True) -> None:
    """Refuse a creation that goes over a limit.

    Args:
        used: by what is there and what is being created, as counted from our own rows.
        wanted: by the creation.
        known: False where the use is unknown to everybody: the limit applies all the same, the count stays unsaid.

    Raises:
        ApiError: 403 QUOTA_EXCEEDED. checklist Q04, Q09
    """
    if used + wanted <= limit:
        return
    if limit == 0:
        message = f"this tenant has no allowance for {quota.title}"
    elif known:
        message = f"this would exceed the quota of {quota.title}: {used} of {limit} in use, {wanted} wanted"
    else:
        message = f"this would exceed the quota of {quota.title}: the limit is {limit}, {wanted} wanted"
    raise ApiError(
        403,
        "QUOTA_EXCEEDED",
        message,
        details={
            "resourceType": quota.resource_type,
            "limit": limit,
            "used": used if known else None,
            "wanted": wanted,
        },
        hint=f"an admin or owner may request more: frost tenant quota request {quota.resource_type}",
    )
