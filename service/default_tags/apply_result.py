"""The result of applying default tags: totals by kind, with details of the first 200 failures and skips."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from service.default_tags.tag_rules import Outcome

MAX_DETAILS = 200
COUNTS = ("examined", "updated", "unchanged", "skipped", "failed")
MESSAGES = {
    "invalid_state": "the resource is in a state that does not accept a tag update right now; run the apply again once "
    "it is ready",
    "backend_unavailable": "the service that owns this resource could not be reached; run the apply again later",
}


@dataclass
class Tally:
    """Totals by kind, in the order of the apply."""

    by_type: dict[str, dict[str, int]]
    failures: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, kinds: Iterable[str]) -> "Tally":
        return cls({kind: dict.fromkeys(COUNTS, 0) for kind in kinds})

    @classmethod
    def from_json(cls, counts: Mapping[str, Any]) -> "Tally":
        return cls(
            {kind: dict(counts["byType"][kind]) for kind in counts["order"]},
            list(counts["failures"]),
            list(counts["skipped"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the tally for storage, with the `order` of kinds, which JSON columns do not keep."""
        return {
            "summary": self.summary(),
            "byType": self.by_type,
            "order": list(self.by_type),
            "failures": self.failures,
            "skipped": self.skipped,
        }

    def count(self, kind: str, outcomes: Counter[str]) -> None:
        counts = self.by_type[kind]
        for what, number in outcomes.items():
            counts[what] += number
        counts["examined"] += outcomes.total()

    def add_detail(self, kind: str, resource_id: str, resource_name: str, outcome: Outcome) -> None:
        """Add a failure or a skip, up to MAX_DETAILS of each."""
        detail = {
            "resourceType": kind,
            "resourceId": resource_id,
            "resourceName": resource_name,
            "reason": outcome.reason,
        }
        if outcome.what == "failed":
            if len(self.failures) < MAX_DETAILS:
                self.failures.append(detail | {"message": MESSAGES.get(outcome.reason, "")})
        elif len(self.skipped) < MAX_DETAILS:
            self.skipped.append(detail)

    def record_listing_failure(self, kind: str) -> None:
        """Add a failure without a resource for a kind that cannot be listed."""
        self.by_type[kind]["failed"] += 1
        self.add_detail(kind, "", "", Outcome("failed", "backend_unavailable"))

    def summary(self) -> dict[str, int]:
        return {what: sum(counts[what] for counts in self.by_type.values()) for what in COUNTS}

    def result(self, applied: Mapping[str, str]) -> dict[str, Any]:
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
