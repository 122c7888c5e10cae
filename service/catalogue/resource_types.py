"""Resource kinds, regions, and quota types with unit, default limits and usage."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal

from service.catalogue.operations import DATA_DIR
from service.files import load_yaml


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource kind; `kinds.yaml` describes the fields."""

    name: str
    title: str
    service: str
    resource: str
    states: tuple[str, ...]
    creating: str | None
    refuses_tags: frozenset[str]
    tag_limit: int
    apply: Literal["covered", "skipped", "not_enabled", "no_tags"]
    skip_reason: str | None
    managed_service: bool
    parent: str | None

    def operation(self, action: str) -> str:
        """Return the operation of an action, such as `compute:instances:start`."""
        return f"{self.service}:{self.resource}:{action}"


@cache
def kinds() -> Mapping[str, Kind]:
    """Return the kinds by wire name, in the order of an apply."""
    text = load_yaml(DATA_DIR / "kinds.yaml")
    return MappingProxyType(
        {
            name: Kind(
                name=name,
                title=entry["title"],
                service=entry["service"],
                resource=entry["resource"],
                states=tuple(text["lifecycles"][entry["lifecycle"]]["states"]),
                creating=text["lifecycles"][entry["lifecycle"]]["creating"],
                refuses_tags=frozenset(text["lifecycles"][entry["lifecycle"]]["refuses_tags"]),
                tag_limit=entry["tag_limit"],
                apply=entry["apply"],
                skip_reason=entry.get("skip_reason"),
                managed_service=entry.get("managed_service", False),
                parent=entry.get("parent"),
            )
            for name, entry in text["kinds"].items()
        }
    )


REGIONS = ("se-sto-1", "fi-hel-1", "de-fra-1")
"""In the order of use; examples use the first suitable region."""


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
