"""The job that applies a tenant's default tags to its resources, or undoes an earlier apply, in batches.

The transaction of a batch stores the progress on the operations row, so a kill neither loses nor repeats work. The
tags are those at the time of the request. `service/jobs/job.py` limits the attempts. A run ends early if its person
is no longer an owner or admin, or its API key is revoked.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, RowMapping

from service.audit import entries
from service.audit.entries import AuditEvent
from service.authz.route_policies import MANAGERS
from service.catalogue.resource_types import kinds
from service.clock import Clock
from service.db.engine import Database
from service.default_tags import queries as store
from service.default_tags.apply_batch import TagChange, Tally, out_of_reach, plan_batch, write_batch
from service.default_tags.tag_rules import examined_kinds
from service.jobs import job as jobs
from service.jobs import queries
from service.jobs.job import MAX_RETRY_SECONDS, WORKFLOW_ERROR, Attempts
from service.principal import PLATFORM
from service.principals import grants
from service.settings import DEFAULT_OPERATION_TRIES

logger = logging.getLogger(__name__)

KIND = "apply_default_tags"
RESOURCE_TYPE = "tenant_default_tags"
NOT_ALLOWED = "the user who started this is no longer an owner or admin of the organization"
KEY_REVOKED = "the API key that started this was revoked or deleted"


def operation_id(tenant_id: str, undoes: str | None = None) -> str:
    """Return the operation id, shared by a tenant's applies, or by its undos."""
    return f"{'apply' if undoes is None else 'undo'}-default-tags-{tenant_id}"


def plan(
    connection: Connection, job: TagChange, *, started_by: str | None, at: datetime, key_id: str | None = None
) -> str:
    """Insert the operation of a run; return the run id.

    Args:
        started_by: The person, or the creator of the API key.
        key_id: The API key of the request, if any.

    Raises:
        IntegrityError: The tenant has an open run.
    """
    run_id = str(uuid4())
    queries.add(
        connection,
        {
            "run_id": run_id,
            "operation_id": operation_id(job.tenant_id, job.undoes),
            "tenant_id": job.tenant_id,
            "kind": KIND,
            "status": "pending",
            "started_by": started_by,
            "resource_type": RESOURCE_TYPE,
            "resource_id": job.tenant_id,
            "progress": 0,
            "steps": [],
            "seq": 0,
            "counts": Tally.of(kind.name for kind in examined_kinds()).to_json(),
            "snapshot": {"tags": dict(job.tags), "undoes": job.undoes, "key": key_id},
            "created_at": at,
            "updated_at": at,
        },
    )
    return run_id


def preview(connection: Connection, job: TagChange) -> dict[str, Any]:
    """Return the result of a run now; `affected` is the number of resources to change, by kind and key."""
    tally = Tally.of(kind.name for kind in examined_kinds())
    affected: dict[str, dict[str, int]] = {}
    failing = out_of_reach(connection, job)
    for kind in examined_kinds():
        if kind.name in failing:
            tally.record_listing_failure(kind.name)
            continue
        after: str | None = ""
        while after is not None:
            batch = plan_batch(connection, job, kind, after, store.MAX_BATCH, tally)
            for _, keys in batch.updated:
                counts = affected.setdefault(kind.name, dict.fromkeys(job.tags, 0))
                for key in keys:
                    counts[key] += 1
            after = batch.last
    return tally.result(job.tags) | {"affected": affected}


@dataclass(frozen=True)
class ApplyJob:
    """Runs operations of the kind `apply_default_tags`.

    `pace` is the minimum pause between batches in seconds; `least` and `most` bound the resources of a batch.
    """

    database: Database
    clock: Clock
    pace: float
    least: int = store.MIN_BATCH
    most: int = store.MAX_BATCH
    max_tries: int = DEFAULT_OPERATION_TRIES
    max_retry_seconds: float = MAX_RETRY_SECONDS

    async def run(self, run_id: str) -> None:
        """Run to the end from the stored state.

        Under write contention (SQLite has a single writer) batches shrink, and the run pauses as long as it worked;
        otherwise batches grow.
        """
        attempts = Attempts(self.max_tries, self.pace, self.max_retry_seconds)
        size, going, ending = self.least, True, False
        step: Callable[[], bool] = partial(self.start, run_id)
        while going:
            waits, began = self.database.lock_waits, time.monotonic()
            try:
                going = await asyncio.to_thread(step)
            except Exception as error:
                logger.exception("run %s could not continue", run_id)
                if attempts.record(error) and not ending:
                    # Retried like any other step.
                    ending, step = True, partial(self.give_up, run_id, error)
                await asyncio.sleep(attempts.delay())
                continue
            contended = self.database.lock_waits != waits
            size = max(self.least, size // 2) if contended else min(self.most, size * 2)
            step = partial(self.run_batch, run_id, size)
            attempts.reset()
            await asyncio.sleep(max(self.pace, time.monotonic() - began if contended else 0))
        await asyncio.to_thread(self.prune_undo_log, run_id)

    def start(self, run_id: str) -> bool:
        """Mark a pending run as running; return False if the run has ended."""
        with self.database.bulk_write() as connection:
            row = queries.locked(connection, run_id)
            if row is None or row["status"] not in queries.OPEN:
                return False
            if row["status"] == "running":
                return True
            now, job = self.clock.now(), _job(row)
            if _stop_without_right(connection, row, now):
                return False
            if job.undoes is None:
                numbers = store.count_resources(connection, job.tenant_id)
            else:
                numbers = store.count_logged(connection, job.tenant_id, job.undoes)
            totals = {kind.name: numbers[kind.name] for kind in examined_kinds() if kind.name in numbers}
            queries.advance(
                connection,
                run_id,
                at=now,
                status="running",
                started_at=now,
                snapshot=row["snapshot"] | {"total": sum(totals.values()), "totals": totals},
            )
            return True

    def run_batch(self, run_id: str, size: int) -> bool:
        """Process at most `size` resources and store the progress; return False at the end."""
        with self.database.bulk_write() as connection:
            row = queries.locked(connection, run_id)
            if row is None or row["status"] not in queries.OPEN:
                return False
            now, job, tally = self.clock.now(), _job(row), Tally.from_json(row["counts"])
            if _stop_without_right(connection, row, now):
                return False
            failing = out_of_reach(connection, job)
            # The kinds at its start; a newer version may examine others.
            examined = [kinds()[name] for name in tally.by_type]
            position, after = _position(row["cursor"], list(tally.by_type))
            while position < len(examined):
                kind = examined[position]
                if kind.name in failing:
                    tally.record_listing_failure(kind.name)
                else:
                    batch = plan_batch(connection, job, kind, after, size, tally, lock=True)
                    if batch.last is not None:
                        write_batch(connection, job, run_id, batch, now)
                        queries.advance(
                            connection,
                            run_id,
                            at=now,
                            counts=tally.to_json(),
                            cursor=f"{kind.name} {batch.last}",
                            current_step=f"{kind.name} ({position + 1}/{len(examined)})",
                            progress=_percent(tally, row["snapshot"]["total"]),
                        )
                        return True
                position, after = position + 1, ""
            result = tally.result(job.tags)
            queries.advance(
                connection,
                run_id,
                at=now,
                status="completed",
                progress=100,
                counts=tally.to_json(),
                result=result,
                completed_at=now,
            )
            _record_end(connection, row, job, "done", {"summary": result["summary"]}, now)
            return False

    def give_up(self, run_id: str, error: Exception) -> bool:
        """End an open run as failed; return False."""
        with self.database.write() as connection:
            row = queries.locked(connection, run_id)
            if row is not None and row["status"] in queries.OPEN:
                reason = jobs.internal_error(row, self.max_tries, error)
                _end_early(connection, row, self.clock.now(), reason, WORKFLOW_ERROR, "failed")
        return False

    def prune_undo_log(self, run_id: str) -> None:
        with self.database.read() as connection:
            tenant_id = queries.tenant_of(connection, run_id)
        store.prune_undo_log(self.database, tenant_id, KIND, batch_size=self.least)


def _stop_without_right(connection: Connection, row: RowMapping, at: datetime) -> bool:
    """End the run if the role was lost or the API key revoked; return whether it was ended."""
    key_id = (row["snapshot"] or {}).get("key")
    if grants.role_in(connection, row["tenant_id"], row["started_by"]) not in MANAGERS:
        reason = NOT_ALLOWED
    elif key_id is not None and queries.key_is_revoked(connection, key_id):
        reason = KEY_REVOKED
    else:
        return False
    _end_early(connection, row, at, reason, "forbidden", "refused")
    return True


def _end_early(connection: Connection, row: RowMapping, at: datetime, reason: str, code: str, outcome: str) -> None:
    updated = row["counts"]["summary"]["updated"]
    changed = f"{updated:,} resources were changed until then" if updated else "nothing was changed"
    jobs.end(connection, row, at, status="failed", error=f"{reason}; {changed}", code=code)
    _record_end(connection, row, _job(row), outcome, {"reason": code}, at)


def _job(row: RowMapping) -> TagChange:
    snapshot: Mapping[str, Any] = row["snapshot"]
    # JSON columns do not keep the order of keys.
    return TagChange(row["tenant_id"], dict(sorted(snapshot["tags"].items())), snapshot["undoes"])


def _position(cursor: str | None, kinds: list[str]) -> tuple[int, str]:
    """Return the index of the kind and the last resource id of a cursor."""
    if cursor is None:
        return 0, ""
    kind, _, after = cursor.partition(" ")
    return kinds.index(kind), after


def _percent(tally: Tally, total: int) -> int:
    """Return at most 99: resources may be added during a run."""
    return min(99, tally.summary()["examined"] * 100 // max(1, total))


def _record_end(
    connection: Connection, row: RowMapping, job: TagChange, outcome: str, details: Mapping[str, Any], at: datetime
) -> None:
    entries.record(
        connection,
        PLATFORM,
        event=AuditEvent.DEFAULT_TAGS_APPLY_COMPLETE if job.undoes is None else AuditEvent.DEFAULT_TAGS_UNDO_COMPLETE,
        target=f"tenant:{job.tenant_id}",
        outcome=outcome,
        organization_id=grants.organization_id_of(connection, job.tenant_id),
        tenant_id=job.tenant_id,
        details={"runId": row["run_id"], **details},
        at=at,
    )
