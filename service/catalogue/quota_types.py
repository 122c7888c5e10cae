"""Quota types: unit, what tenants and organizations start at, and what is counted. contract: Quota"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from service.catalogue.data_files import CATALOGUE, document


@dataclass(frozen=True, slots=True)
class QuotaType:
    """One countable thing of a tenant. Its use is the number of resources of `kind`, or the sum of `attribute`."""

    resource_type: str
    title: str
    unit: str
    """`count`, `gb`, or `mb` (only ram)."""
    limit: int
    """The platform default a new tenant starts at; 0 is no allowance."""
    organization: int | None
    """The limit an organization starts at; None: nobody can request another limit, only support changes it."""
    kind: str
    attribute: str | None
    unless_said: int = 0
    """The attribute of a resource that is made without naming it."""


@cache
def quota_types() -> Mapping[str, QuotaType]:
    """Every quota type by its resource type, in the order of the reports."""
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
            for name, entry in document(CATALOGUE / "quotas.yaml").items()
        }
    )


def defaults() -> dict[str, int]:
    """The limits a new tenant starts at. contract: a new tenant starts at the platform defaults"""
    return {name: quota.limit for name, quota in quota_types().items()}
