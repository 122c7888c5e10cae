"""Quota types with unit, default limits and usage."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from service.catalogue.operations import DATA_DIR
from service.files import load_yaml


@dataclass(frozen=True, slots=True)
class QuotaType:
    """A quota type. Its usage is the number of resources of `kind`, or the sum of their `attribute`."""

    resource_type: str
    title: str
    unit: str
    """`count`, `gb`, or `mb` (only ram)."""
    limit: int
    """The default limit of a tenant."""
    organization: int | None
    """The default limit of an organization; None if only support can change limits."""
    kind: str
    attribute: str | None
    unless_said: int = 0
    """The default of `attribute`."""


@cache
def quota_types() -> Mapping[str, QuotaType]:
    """Return the quota types by resource type, in the order of reports."""
    return MappingProxyType(
        {
            name: QuotaType(
                resource_type=name,
                title=entry["title"],
                unit=entry["unit"],
                limit=entry["limit"],
                organization=entry["organization"],
                kind=entry["counted"]["kind"],
                attribute=entry["counted"].get("attribute"),
                unless_said=entry["counted"].get("unless_said", 0),
            )
            for name, entry in load_yaml(DATA_DIR / "quotas.yaml").items()
        }
    )


def default_limits() -> dict[str, int]:
    return {name: quota.limit for name, quota in quota_types().items()}
