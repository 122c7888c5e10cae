"""Looking at a portion of a tenant's resources, and changing it: what an apply, its preview and its undo share.

`look` decides and counts and changes nothing, which is all a preview does (checklist L36); `change` then makes what
was decided, in the transaction of the look.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from service.catalogue.resource_types import Kind
from service.db.platform_state import failing_listings
from service.default_tags import apply_queries as store
from service.default_tags.apply_result import Tally
from service.default_tags.outcome import GONE, Outcome, plan_add, plan_remove


@dataclass(frozen=True, slots=True)
class TagChange:
    """Whose resources get which tags. With `undoes`, the tags that run added are taken back instead."""

    tenant_id: str
    tags: Mapping[str, str]
    undoes: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Some resources of a kind that have been looked at: those behind the id `after` up to `last`.

    `last` None: there was none. `decided` is what becomes of each, by its id.
    """

    kind: Kind
    after: str
    last: str | None
    decided: Mapping[str, Outcome]

    @property
    def updated(self) -> list[tuple[str, tuple[str, ...]]]:
        """The resources that change, each with the keys it gets or loses, in the order of their ids."""
        return [(resource_id, outcome.keys) for resource_id, outcome in self.decided.items() if outcome.keys]


def out_of_reach(connection: Connection, job: TagChange) -> set[str]:
    """The kinds of a job whose backend cannot list now; of an undo only those it has anything to do with."""
    kinds = {kind for tenant_id, kind in failing_listings(connection) if tenant_id == job.tenant_id}
    if job.undoes is None:
        return kinds
    return {kind for kind in kinds if store.undo_batch(connection, job.tenant_id, job.undoes, kind, "", 1)}


def plan_batch(
    connection: Connection, job: TagChange, kind: Kind, after: str, size: int, tally: Tally, *, lock: bool = False
) -> Batch:
    """Decide about the next resources of a kind and count them."""
    looked = _to_add if job.undoes is None else _to_remove
    decided: dict[str, Outcome] = {}
    last = None
    for last, name, outcome in looked(connection, job, kind, after, size, lock):
        decided[last] = outcome
        if outcome.reason:
            tally.add_detail(kind.name, last, name, outcome)
    tally.count(kind.name, Counter(outcome.what for outcome in decided.values()))
    return Batch(kind, after, last, decided)


def write_batch(connection: Connection, job: TagChange, run_id: str, portion: Batch, at: datetime) -> None:
    """Make what was decided of a portion that was looked at with `lock` in this transaction."""
    if portion.last is None:
        return
    if job.undoes is not None:
        _remove(connection, job, job.undoes, portion, at)
    elif updated := portion.updated:
        kind = portion.kind.name
        store.add_to_undo_log(connection, job.tenant_id, run_id, kind, updated)
        store.add_tags(connection, job.tenant_id, run_id, kind, (portion.after, portion.last), job.tags, at)


def _to_add(
    connection: Connection, job: TagChange, kind: Kind, after: str, size: int, lock: bool
) -> Sequence[tuple[str, str, Outcome]]:
    # Many resources of a kind are alike in what counts, and then it is decided once.
    known: dict[tuple[str, str, str], Outcome] = {}
    decided = []
    for resource_id, name, *facts in store.batch(connection, job.tenant_id, kind.name, after, size, lock=lock):
        state, tags, relations = alike = tuple(facts)
        outcome = known.get(alike)
        if outcome is None:
            outcome = known[alike] = plan_add(kind, state, json.loads(tags), json.loads(relations), job.tags)
        decided.append((resource_id, name, outcome))
    return decided


def _to_remove(
    connection: Connection, job: TagChange, kind: Kind, after: str, size: int, lock: bool
) -> Sequence[tuple[str, str, Outcome]]:
    added = store.undo_batch(connection, job.tenant_id, str(job.undoes), kind.name, after, size)
    there = store.by_ids(connection, job.tenant_id, kind.name, list(added), lock=lock)
    decided = []
    for resource_id, keys in added.items():
        row = there.get(resource_id)
        if row is None:
            decided.append((resource_id, "", GONE))
        else:
            outcome = plan_remove(kind, row.state, json.loads(row.tags), json.loads(row.relations), keys, job.tags)
            decided.append((resource_id, row.name, outcome))
    return decided


def _remove(connection: Connection, job: TagChange, undone: str, portion: Batch, at: datetime) -> None:
    alike = defaultdict(list)
    for resource_id, keys in portion.updated:
        alike[keys].append(resource_id)
    for keys, ids in alike.items():
        store.remove_tags(connection, job.tenant_id, portion.kind.name, ids, keys, at)
    # What failed stays remembered, so that the undo can be repeated.
    settled = [resource_id for resource_id, outcome in portion.decided.items() if outcome.what != "failed"]
    store.forget(connection, job.tenant_id, undone, portion.kind.name, settled)
