"""Applying a tenant's default tags to its resources, and taking that back: durable work in portions.

The operations row is the only memory: a portion is looked at, changed, counted and passed (`cursor`, `seq + 1`) in one
transaction, so that a process may be killed anywhere and nothing is lost or done twice. The tags are those of the
moment the run was asked for. A portion that fails unexpectedly is tried again, ever later, without end.
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

from service.access import audit, standing
from service.access.caller import PLATFORM
from service.access.table import MANAGERS
from service.clock import Clock
from service.db.engine import Database
from service.operations import apply_store, store
from service.operations.apply_portions import Job, change, look, out_of_reach
from service.operations.apply_result import Tally
from service.resources.tagging import examined_kinds
from service.world.kinds import kinds

logger = logging.getLogger(__name__)

KIND = "apply_default_tags"
RESOURCE_TYPE = "tenant_default_tags"
LONGEST_WAIT = 60.0
NOT_ALLOWED = (
    "whoever started this is no owner or admin of the organization any more, so nothing was changed; "
    "somebody who is one can start it again"
)


def operation_id(tenant_id: str, undoes: str | None = None) -> str:
    """The same for every run of a tenant; its operation is the latest of them."""
    return f"{'apply' if undoes is None else 'undo'}-default-tags-{tenant_id}"


def plan(connection: Connection, job: Job, *, started_by: str | None, at: datetime) -> str:
    """Writes the operation that will carry out the job; returns its run id.

    Raises IntegrityError when one is open already for this tenant.
    """
    run_id = str(uuid4())
    store.add(
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
            "counts": Tally.of(kind.name for kind in examined_kinds()).written(),
            "snapshot": {"tags": dict(job.tags), "undoes": job.undoes},
            "created_at": at,
            "updated_at": at,
        },
    )
    return run_id


def preview(connection: Connection, job: Job) -> dict[str, Any]:
    """The result a run of the job would have now; `affected` says how many resources lack which key, by kind."""
    tally = Tally.of(kind.name for kind in examined_kinds())
    affected: dict[str, dict[str, int]] = {}
    failing = out_of_reach(connection, job)
    for kind in examined_kinds():
        if kind.name in failing:
            tally.listing_failed(kind.name)
            continue
        after: str | None = ""
        while after is not None:
            portion = look(connection, job, kind, after, apply_store.PORTION, tally)
            for _, keys in portion.updated:
                lacking = affected.setdefault(kind.name, dict.fromkeys(job.tags, 0))
                for key in keys:
                    lacking[key] += 1
            after = portion.last
    return tally.result(job.tags) | {"affected": affected}


@dataclass(frozen=True)
class Applying:
    """Carries runs of `apply_default_tags` forward.

    `pace` is the least time between two portions, in seconds; `least` and `most` are how many resources one has.
    """

    database: Database
    clock: Clock
    pace: float
    least: int = apply_store.LEAST_PORTION
    most: int = apply_store.PORTION

    async def run(self, run_id: str) -> None:
        """Takes the run to its end, from wherever the last process left it. Cancelling is safe at any await.

        Where changes take turns (SQLite), others come first: as long as somebody had to wait, portions get smaller
        and the run rests as long as it worked; otherwise they grow.
        """
        attempts, size, going = 0, self.least, True
        step: Callable[[], bool] = partial(self.begin, run_id)
        while going:
            waits, began = self.database.waits, time.monotonic()
            try:
                going = await asyncio.to_thread(step)
            except Exception:
                logger.exception("run %s could not go on; trying again", run_id)
                attempts += 1
                await asyncio.sleep(min(LONGEST_WAIT, max(self.pace, 0.05) * 2.0 ** min(attempts, 30)))
                continue
            in_the_way = self.database.waits != waits
            size = max(self.least, size // 2) if in_the_way else min(self.most, size * 2)
            attempts, step = 0, partial(self.carry_on, run_id, size)
            await asyncio.sleep(max(self.pace, time.monotonic() - began if in_the_way else 0))
        await asyncio.to_thread(self.tidy, run_id)

    def begin(self, run_id: str) -> bool:
        """Shows a run that was pending as running; False when it is over.

        Who started it must still be allowed to: the platform's own rights are nobody's. hostile A13
        """
        with self.database.write() as connection:
            row = store.locked(connection, run_id)
            if row is None or row["status"] not in store.OPEN:
                return False
            if row["status"] == "running":
                return True
            now, job = self.clock.now(), _job(row)
            if standing.role_in(connection, job.tenant_id, row["started_by"]) not in MANAGERS:
                store.advance(
                    connection,
                    run_id,
                    at=now,
                    status="failed",
                    error=NOT_ALLOWED,
                    error_code="forbidden",
                    completed_at=now,
                )
                _record_end(connection, row, job, "refused", {"reason": "forbidden"}, now)
                return False
            if job.undoes is None:
                found = apply_store.totals(connection, job.tenant_id)
            else:
                found = apply_store.remembered_totals(connection, job.tenant_id, job.undoes)
            totals = {kind.name: found[kind.name] for kind in examined_kinds() if kind.name in found}
            store.advance(
                connection,
                run_id,
                at=now,
                status="running",
                started_at=now,
                snapshot=row["snapshot"] | {"total": sum(totals.values()), "totals": totals},
            )
            apply_store.gather_statistics(connection)
            return True

    def carry_on(self, run_id: str, size: int) -> bool:
        """Does the next portion, of at most so many resources, and writes down how far the run is; False at its end.

        All or nothing. Kinds that have no resources, or cannot be listed now, are passed on the way.
        """
        with self.database.write_much() as connection:
            row = store.locked(connection, run_id)
            if row is None or row["status"] not in store.OPEN:
                return False
            now, job, tally = self.clock.now(), _job(row), Tally.read(row["counts"])
            failing = out_of_reach(connection, job)
            # Those the run began with, whatever a newer version covers.
            examined = [kinds()[name] for name in tally.by_type]
            position, after = _place(row["cursor"], list(tally.by_type))
            while position < len(examined):
                kind = examined[position]
                if kind.name in failing:
                    tally.listing_failed(kind.name)
                else:
                    portion = look(connection, job, kind, after, size, tally, lock=True)
                    if portion.last is not None:
                        change(connection, job, run_id, portion, now)
                        store.advance(
                            connection,
                            run_id,
                            at=now,
                            counts=tally.written(),
                            cursor=f"{kind.name} {portion.last}",
                            current_step=f"{kind.name} ({position + 1}/{len(examined)})",
                            progress=_percent(tally, row["snapshot"]["total"]),
                        )
                        return True
                position, after = position + 1, ""
            result = tally.result(job.tags)
            store.advance(
                connection,
                run_id,
                at=now,
                status="completed",
                progress=100,
                counts=tally.written(),
                result=result,
                completed_at=now,
            )
            _record_end(connection, row, job, "done", {"summary": result["summary"]}, now)
            return False

    def tidy(self, run_id: str) -> None:
        """Forgets what runs before the tenant's last ones added, a portion at a time."""
        with self.database.read() as connection:
            tenant_id = store.tenant_of(connection, run_id)
            forgotten = apply_store.forgotten_runs(connection, tenant_id, KIND)
        for older in forgotten:
            more = True
            while more:
                with self.database.write() as connection:
                    more = apply_store.forget_portion(connection, tenant_id, older, self.least)


def _job(row: RowMapping) -> Job:
    snapshot: Mapping[str, Any] = row["snapshot"]
    # In the order of the keys, which a database need not keep.
    return Job(row["tenant_id"], dict(sorted(snapshot["tags"].items())), snapshot["undoes"])


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
    connection: Connection, row: RowMapping, job: Job, outcome: str, details: Mapping[str, Any], at: datetime
) -> None:
    verb = "apply" if job.undoes is None else "undo"
    audit.record(
        connection,
        PLATFORM,
        operation=f"default_tags.{verb}.complete",
        target=f"tenant:{job.tenant_id}",
        outcome=outcome,
        organization_id=standing.organization_of(connection, job.tenant_id),
        tenant_id=job.tenant_id,
        details={"runId": row["run_id"], **details},
        at=at,
    )
