"""Re-queues open operations that no live worker owns, and deletes expired rows.

A row is left behind when a process dies between its commit and the enqueueing, when the tables of DBOS are lost or
older than the rows, when a workflow ended with an error, or when another replica died. Running a run twice does no
harm, because its row records each step that is done. So recovery must only forget no row.
"""

from datetime import datetime
from itertools import islice

from service.db import dialect, idempotency_keys
from service.db.engine import Database
from service.jobs import queries
from service.jobs.dbos_queue import DbosQueue

MAX_RUNS = 500
MAX_EXPIRED_KEYS = 1_000
DEAD_AFTER_SECONDS = 20
WAITING = ("ENQUEUED", "DELAYED")


def sweep(database: Database, queue: DbosQueue, executor: str) -> set[str]:
    """Queue every open run without a live workflow; return the runs that DBOS counts as running on this executor."""
    running: set[str] = set()
    with database.read() as connection:
        run_ids = iter(queries.open_runs(connection))
    while batch := list(islice(run_ids, MAX_RUNS)):
        workflows = queue.workflows(batch)
        for run_id in batch:
            if run_id not in workflows:
                queue.enqueue(run_id)
        running |= {run_id for run_id, workflow in workflows.items() if workflow == ("PENDING", executor)}
        ended = [run_id for run_id, (status, _) in workflows.items() if status not in (*WAITING, "PENDING")]
        # Most operations have ended since the first query, together with their workflow.
        with database.read() as connection:
            left_open = queries.open_runs(connection, ended)
        for run_id in left_open:
            queue.start_over(run_id)
    return running


def recover_dead(database: Database, queue: DbosQueue) -> None:
    """Re-queue the runs of dead replicas. PostgreSQL only: a SQLite file has a single process."""
    with database.write() as connection:
        if not dialect.try_recovery_lock(connection):
            return
        queries.delete_expired(connection, DEAD_AFTER_SECONDS)
        executors = queries.live_executors(connection)
        workflows = queue.workflows(queries.open_runs(connection))
        for run_id, (status, executor) in workflows.items():
            if status == "PENDING" and executor not in executors:
                queue.take_over(run_id)


def delete_expired_keys(database: Database, at: datetime, size: int = MAX_EXPIRED_KEYS) -> None:
    """Delete expired idempotency keys, at most `size` of them per transaction."""
    more = True
    while more:
        with database.write() as connection:
            more = idempotency_keys.delete_expired(connection, at, size)


def heartbeat(database: Database, executor: str) -> None:
    """Record that this process is alive. PostgreSQL only."""
    with database.write() as connection:
        queries.seen(connection, executor)
