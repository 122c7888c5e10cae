"""What an apply of default tags has done, counted per kind: the result on the wire. platform facts 2.8

The counts are true; of the failures and of the skips the first 200 are kept by name. checklist L16, L17
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from service.default_tags.outcome import Outcome

KEPT = 200
COUNTED = ("examined", "updated", "unchanged", "skipped", "failed")
MESSAGES = {
    "invalid_state": "the resource is in a state that does not accept a tag update right now; run the apply again once "
    "it is ready",
    "backend_unavailable": "the service that owns this resource could not be reached; run the apply again later",
}


@dataclass
class Tally:
    """Counts by kind in the order of an apply, and what failed or was skipped by name."""

    by_type: dict[str, dict[str, int]]
    failures: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, kinds: Iterable[str]) -> "Tally":
        """A tally of nothing, listing these kinds. checklist L14"""
        return cls({kind: dict.fromkeys(COUNTED, 0) for kind in kinds})

    @classmethod
    def from_json(cls, counts: Mapping[str, Any]) -> "Tally":
        """The tally a run has written down. A database need not keep the order of the kinds, so it is kept beside."""
        return cls(
            {kind: dict(counts["byType"][kind]) for kind in counts["order"]},
            list(counts["failures"]),
            list(counts["skipped"]),
        )

    def to_json(self) -> dict[str, Any]:
        """As it is kept with the run while that goes on."""
        return {
            "summary": self.summary(),
            "byType": self.by_type,
            "order": list(self.by_type),
            "failures": self.failures,
            "skipped": self.skipped,
        }

    def count(self, kind: str, outcomes: Counter[str]) -> None:
        """Add what became of some resources of a kind."""
        counts = self.by_type[kind]
        for what, number in outcomes.items():
            counts[what] += number
        counts["examined"] += outcomes.total()

    def add_detail(self, kind: str, resource_id: str, resource_name: str, outcome: Outcome) -> None:
        """Keep a failure or a skip by name while there is room."""
        about = {
            "resourceType": kind,
            "resourceId": resource_id,
            "resourceName": resource_name,
            "reason": outcome.reason,
        }
        if outcome.what == "failed":
            if len(self.failures) < KEPT:
                self.failures.append(about | {"message": MESSAGES.get(outcome.reason, "")})
        elif len(self.skipped) < KEPT:
            self.skipped.append(about)

    def record_listing_failure(self, kind: str) -> None:
        """A kind that cannot be listed now: one failure of no resource in particular, and nothing was examined."""
        self.by_type[kind]["failed"] += 1
        self.add_detail(kind, "", "", Outcome("failed", "backend_unavailable"))

    def summary(self) -> dict[str, int]:
        return {what: sum(counts[what] for counts in self.by_type.values()) for what in COUNTED}

    def result(self, applied: Mapping[str, str]) -> dict[str, Any]:
        """The result of a finished run, or of a preview."""
        summary = self.summary()
        return {
            "appliedTags": dict(applied),
            "summary": summary,
            "byType": self.by_type,
            "failures": self.failures,
            "failuresTruncated": summary["failed"] > len(self.failures),
            "skipped": self.skipped,
            "skippedTruncated": summary["skipped"] > len(self.skipped),
        }
