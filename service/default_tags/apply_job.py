"""Applying a tenant's default tags to its resources, and taking that back: durable work in portions.

The operations row is the only memory: a portion is looked at, changed, counted and passed (`cursor`, `seq + 1`) in one
transaction, so that a process may be killed anywhere and nothing is lost or done twice. The tags are those of the
moment the run was asked for. A portion that fails unexpectedly is tried again, ever later, and after `max_tries` the
run fails. A database that is away or takes no changes is waited for. A run ends when its person loses the right to it.
contract: `tenant default-tags apply` semantics; checklist L01 to L37; design: Durable operations
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
from service.authz.route_policies import MANAGERS
from service.catalogue.resource_types import kinds
from service.clock import Clock
from service.db.engine import Database, is_unreachable
from service.default_tags import apply_queries
from service.default_tags.apply_batch import TagChange, out_of_reach, plan_batch, write_batch
from service.default_tags.apply_result import Tally
from service.default_tags.outcome import examined_kinds
from service.jobs import queries
from service.principal import PLATFORM
from service.principals import grants
from service.settings import DEFAULT_OPERATION_TRIES

logger = logging.getLogger(__name__)

KIND = "apply_default_tags"
RESOURCE_TYPE = "tenant_default_tags"
MAX_WAIT_SECONDS = 60.0
WORKFLOW_ERROR = "WORKFLOW_ERROR"
NOT_ALLOWED = "the person who started this is not an owner or admin of the organization any more"
KEY_REVOKED = "the API key that started this was revoked or deleted"


def operation_id(tenant_id: str, undoes: str | None = None) -> str:
    """The same for every run of a tenant; its operation is the latest of them."""
    return f"{'apply' if undoes is None else 'undo'}-default-tags-{tenant_id}"


def plan(
    connection: Connection, job: TagChange, *, started_by: str | None, at: datetime, key_id: str | None = None
) -> str:
    """Write the operation that will carry out the job; return its run id.

    Args:
        connection: The transaction of the request.
        job: Which tags go to which tenant's resources.
        started_by: The person, or the creator of the key.
        at: When it was asked for.
        key_id: The API key that asked for it, if one did.

    Raises IntegrityError when one is open already for this tenant.
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
    """The result a run of the job would have now; `affected` says how many resources lack which key, by kind."""
    tally = Tally.of(kind.name for kind in examined_kinds())
    affected: dict[str, dict[str, int]] = {}
    failing = out_of_reach(connection, job)
    for kind in examined_kinds():
        if kind.name in failing:
            tally.record_listing_failure(kind.name)
            continue
        after: str | None = ""
        while after is not None:
            portion = plan_batch(connection, job, kind, after, apply_queries.MAX_BATCH, tally)
            for _, keys in portion.updated:
                lacking = affected.setdefault(kind.name, dict.fromkeys(job.tags, 0))
                for key in keys:
                    lacking[key] += 1
            after = portion.last
    return tally.result(job.tags) | {"affected": affected}


@dataclass(frozen=True)
class ApplyJob:
    """Carries runs of `apply_default_tags` forward.

    `pace` is the least time between two portions, in seconds; `least` and `most` are how many resources one has.
    `max_tries` is how often a portion may fail in a row.
    """

    database: Database
    clock: Clock
    pace: float
    least: int = apply_queries.MIN_BATCH
    most: int = apply_queries.MAX_BATCH
    max_tries: int = DEFAULT_OPERATION_TRIES

    async def run(self, run_id: str) -> None:
        """Take the run to its end, from wherever the last process left it. Cancelling is safe at any await.

        Where changes take turns (SQLite), others come first: as long as somebody had to wait, portions get smaller
        and the run rests as long as it worked; otherwise they grow.
        """
        attempts, failures, size, going, ending = 0, 0, self.least, True, False
        step: Callable[[], bool] = partial(self.start, run_id)
        while going:
            waits, began = self.database.waits, time.monotonic()
            try:
                going = await asyncio.to_thread(step)
            except Exception as error:
                logger.exception("run %s could not go on", run_id)
                attempts += 1
                if not is_unreachable(error):
                    failures += 1
                    if failures >= self.max_tries and not ending:
                        # A step like the others: if it fails, it is tried again and the tries stay counted.
                        ending, step = True, partial(self.give_up, run_id, error)
                await asyncio.sleep(min(MAX_WAIT_SECONDS, max(self.pace, 0.05) * 2.0 ** min(attempts, 30)))
                continue
            contended = self.database.waits != waits
            size = max(self.least, size // 2) if contended else min(self.most, size * 2)
            attempts, failures, step = 0, 0, partial(self.run_batch, run_id, size)
            await asyncio.sleep(max(self.pace, time.monotonic() - began if contended else 0))
        await asyncio.to_thread(self.prune_undo_log, run_id)

    def start(self, run_id: str) -> bool:
        """Show a run that was pending as running; False when it is over.

        The person who started it must still be allowed to: the platform adds no rights of its own. hostile A13
        """
        with self.database.write() as connection:
            row = queries.locked(connection, run_id)
            if row is None or row["status"] not in queries.OPEN:
                return False
            if row["status"] == "running":
                return True
            now, job = self.clock.now(), _job(row)
            if _stop_without_right(connection, row, now):
                return False
            if job.undoes is None:
                found = apply_queries.totals(connection, job.tenant_id)
            else:
                found = apply_queries.undo_totals(connection, job.tenant_id, job.undoes)
            totals = {kind.name: found[kind.name] for kind in examined_kinds() if kind.name in found}
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
        """Do the next portion, of at most `size` resources, and write down how far the run is; False at its end.

        All or nothing. Kinds that have no resources, or cannot be listed now, are passed on the way.
        """
        with self.database.write_much() as connection:
            row = queries.locked(connection, run_id)
            if row is None or row["status"] not in queries.OPEN:
                return False
            now, job, tally = self.clock.now(), _job(row), Tally.from_json(row["counts"])
            if _stop_without_right(connection, row, now):
                return False
            failing = out_of_reach(connection, job)
            # Those the run began with, whatever a newer version covers.
            examined = [kinds()[name] for name in tally.by_type]
            position, after = _place(row["cursor"], list(tally.by_type))
            while position < len(examined):
                kind = examined[position]
                if kind.name in failing:
                    tally.record_listing_failure(kind.name)
                else:
                    portion = plan_batch(connection, job, kind, after, size, tally, lock=True)
                    if portion.last is not None:
                        write_batch(connection, job, run_id, portion, now)
                        queries.advance(
                            connection,
                            run_id,
                            at=now,
                            counts=tally.to_json(),
                            cursor=f"{kind.name} {portion.last}",
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
        """End a run that cannot go on as failed, so that the tenant can start another one; return False."""
        with self.database.write() as connection:
            row = queries.locked(connection, run_id)
            if row is not None and row["status"] in queries.OPEN:
                where = f" at {row['current_step']}" if row["current_step"] else ""
                reason = (
                    f"gave up after {self.max_tries} tries{where}: internal error ({type(error).__name__}); "
                    "the platform's log has the details"
                )
                _end_early(connection, row, self.clock.now(), reason, WORKFLOW_ERROR, "failed")
        return False

    def prune_undo_log(self, run_id: str) -> None:
        """Forgets what runs before the tenant's last ones added, a portion at a time."""
        with self.database.read() as connection:
            tenant_id = queries.tenant_of(connection, run_id)
            forgotten = apply_queries.forgotten_runs(connection, tenant_id, KIND)
        for older in forgotten:
            more = True
            while more:
                with self.database.write() as connection:
                    more = apply_queries.delete_undo_batch(connection, tenant_id, older, self.least)


def _stop_without_right(connection: Connection, row: RowMapping, at: datetime) -> bool:
    """End the run if its person may not apply any more, or the key that started it was revoked; whether it was."""
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
    queries.advance(
        connection,
        row["run_id"],
        at=at,
        status="failed",
        error=f"{reason}; {changed}",
        error_code=code,
        completed_at=at,
    )
    _record_end(connection, row, _job(row), outcome, {"reason": code}, at)


def _job(row: RowMapping) -> TagChange:
    snapshot: Mapping[str, Any] = row["snapshot"]
    # In the order of the keys, which a database need not keep.
    return TagChange(row["tenant_id"], dict(sorted(snapshot["tags"].items())), snapshot["undoes"])


def _place(cursor: str | None, kinds: list[str]) -> tuple[int, str]:
    """Where a run goes on: the position of a kind, and the id behind which."""
    if cursor is None:
        return 0, ""
    kind, _, after = cursor.partition(" ")
    return kinds.index(kind), after


def _percent(tally: Tally, total: int) -> int:
    """How far a run is; not more than 99 before its end, whatever was made meanwhile."""
    return min(99, tally.summary()["examined"] * 100 // max(1, total))


def _record_end(
    connection: Connection, row: RowMapping, job: TagChange, outcome: str, details: Mapping[str, Any], at: datetime
) -> None:
    verb = "apply" if job.undoes is None else "undo"
    entries.record(
        connection,
        PLATFORM,
        operation=f"default_tags.{verb}.complete",
        target=f"tenant:{job.tenant_id}",
        outcome=outcome,
        organization_id=grants.organization_id_of(connection, job.tenant_id),
        tenant_id=job.tenant_id,
        details={"runId": row["run_id"], **details},
        at=at,
    )
