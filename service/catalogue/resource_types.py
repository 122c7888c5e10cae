"""The kinds of resource: where each stands in the catalogue, its states, its tags, and what an apply does with it.

The regions of the platform.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal

from service.catalogue.data_files import CATALOGUE, document


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of resource; `kinds.yaml` says what the members mean."""

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
        """The catalogue's name for an action on this kind: `compute:instances:start`."""
        return f"{self.service}:{self.resource}:{action}"


@cache
def kinds() -> Mapping[str, Kind]:
    """Every kind by its wire name, in the order of the file; an apply goes through them in this order."""
    text = document(CATALOGUE / "kinds.yaml")
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
"""The most used first: examples name the first one that fits."""
