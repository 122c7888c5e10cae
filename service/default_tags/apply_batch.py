"""Batches of tag changes, for an apply, its preview or its undo, and their result.

The result has totals by kind, with details of the first 200 failures and skips.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from client.models.apply_counts import OUTCOMES, separate_unlisted
from service.catalogue.resource_types import Kind
from service.db.statements import failing_listings
from service.default_tags import queries as store
from service.default_tags.tag_rules import GONE, Outcome, plan_add, plan_remove

MAX_DETAILS = 200
COUNTS = ("examined", *OUTCOMES, "unlisted")
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
            {kind: dict.fromkeys(COUNTS, 0) | separate_unlisted(counts["byType"][kind]) for kind in counts["order"]},
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
        """Count a kind that cannot be listed, and add a failure without a resource.

        `failed` counts resources only, so that the outcomes add up to `examined`.
        """
        self.by_type[kind]["unlisted"] += 1
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
            "failuresTruncated": summary["failed"] + summary["unlisted"] > len(self.failures),
            "skipped": self.skipped,
            "skippedTruncated": summary["skipped"] > len(self.skipped),
        }


@dataclass(frozen=True, slots=True)
class TagChange:
    """Tags to add to a tenant's resources, or to remove from resources to which the run `undoes` added them."""

    tenant_id: str
    tags: Mapping[str, str]
    undoes: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Decisions by resource id, for `after < id <= last`.

    `last` is None if there are no more resources.
    """

    kind: Kind
    after: str
    last: str | None
    outcomes: Mapping[str, Outcome]

    @property
    def updated(self) -> list[tuple[str, tuple[str, ...]]]:
        """The resources to change, ordered by id, with the keys to add or remove."""
        return [(resource_id, outcome.keys) for resource_id, outcome in self.outcomes.items() if outcome.keys]


def out_of_reach(connection: Connection, job: TagChange) -> set[str]:
    """Return the kinds that cannot be listed now; for an undo only kinds in its undo log."""
    kinds = {kind for tenant_id, kind in failing_listings(connection) if tenant_id == job.tenant_id}
    if job.undoes is None:
        return kinds
    return {kind for kind in kinds if store.logged_batch(connection, job.tenant_id, job.undoes, kind, "", 1)}


def plan_batch(
    connection: Connection, job: TagChange, kind: Kind, after: str, size: int, tally: Tally, *, lock: bool = False
) -> Batch:
    """Decide about the next resources of a kind without writing; add the outcomes to the tally.

    Args:
        after: The last resource id of the previous batch, "" for the first.
        lock: Lock the rows, for a `write_batch` in this transaction.
    """
    plan = _plan_add if job.undoes is None else _plan_remove
    outcomes: dict[str, Outcome] = {}
    last = None
    for last, name, outcome in plan(connection, job, kind, after, size, lock):
        outcomes[last] = outcome
        if outcome.reason:
            tally.add_detail(kind.name, last, name, outcome)
    tally.count(kind.name, Counter(outcome.what for outcome in outcomes.values()))
    return Batch(kind, after, last, outcomes)


def write_batch(connection: Connection, job: TagChange, run_id: str, batch: Batch, at: datetime) -> None:
    """Write a batch that was planned with `lock` in this transaction."""
    if batch.last is None:
        return
    if job.undoes is not None:
        _remove(connection, job, job.undoes, batch, at)
    elif updated := batch.updated:
        kind = batch.kind.name
        store.log_added_keys(connection, job.tenant_id, run_id, kind, updated)
        store.add_tags(connection, job.tenant_id, run_id, kind, (batch.after, batch.last), job.tags, at)


def _plan_add(
    connection: Connection, job: TagChange, kind: Kind, after: str, size: int, lock: bool
) -> Sequence[tuple[str, str, Outcome]]:
    # Many resources share state, tags and relations: each combination is decided once.
    cache: dict[tuple[str, str, str], Outcome] = {}
    outcomes = []
    for resource_id, name, *facts in store.resource_batch(connection, job.tenant_id, kind.name, after, size, lock=lock):
        state, tags, relations = key = tuple(facts)
        outcome = cache.get(key)
        if outcome is None:
            outcome = cache[key] = plan_add(kind, state, json.loads(tags), json.loads(relations), job.tags)
        outcomes.append((resource_id, name, outcome))
    return outcomes


def _plan_remove(
    connection: Connection, job: TagChange, kind: Kind, after: str, size: int, lock: bool
) -> Sequence[tuple[str, str, Outcome]]:
    added = store.logged_batch(connection, job.tenant_id, str(job.undoes), kind.name, after, size)
    rows = store.resources_by_id(connection, job.tenant_id, kind.name, list(added), lock=lock)
    outcomes = []
    for resource_id, keys in added.items():
        row = rows.get(resource_id)
        if row is None:
            outcomes.append((resource_id, "", GONE))
        else:
            outcome = plan_remove(kind, row.state, json.loads(row.tags), json.loads(row.relations), keys, job.tags)
            outcomes.append((resource_id, row.name, outcome))
    return outcomes


def _remove(connection: Connection, job: TagChange, undone: str, batch: Batch, at: datetime) -> None:
    ids_by_keys = defaultdict(list)
    for resource_id, keys in batch.updated:
        ids_by_keys[keys].append(resource_id)
    for keys, ids in ids_by_keys.items():
        store.remove_tags(connection, job.tenant_id, batch.kind.name, ids, keys, at)
    # Failures remain in the log, so that the undo can be repeated.
    done = [resource_id for resource_id, outcome in batch.outcomes.items() if outcome.what != "failed"]
    store.remove_logged(connection, job.tenant_id, undone, batch.kind.name, done)
