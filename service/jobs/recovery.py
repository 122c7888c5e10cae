"""Re-queues open operations that no live worker owns.

Such operations remain if a process dies, the tables of DBOS are lost or older than the rows, or a workflow ended with
an error. Repeating a run is harmless, because its row records each completed step.
"""

from itertools import islice

from service.db import dialect
from service.db.engine import Database
from service.jobs import queries
from service.jobs.dbos_queue import DbosQueue

MAX_RUNS = 500
DEAD_AFTER_SECONDS = 20
WAITING = ("ENQUEUED", "DELAYED")


def sweep(database: Database, queue: DbosQueue, executor: str) -> set[str]:
    """Queue every open run without a live workflow; return the runs marked as running on this executor."""
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
        # Most of these ended with their workflow after the first query.
        with database.read() as connection:
            left_open = queries.open_runs(connection, ended)
        for run_id in left_open:
            queue.start_over(run_id)
    return running


def recover_dead(database: Database, queue: DbosQueue) -> None:
    """Re-queue the runs of dead executors. PostgreSQL only: a SQLite file has a single process."""
    with database.write() as connection:
        if not dialect.try_recovery_lock(connection):
            return
        queries.delete_expired(connection, DEAD_AFTER_SECONDS)
        executors = queries.live_executors(connection)
        workflows = queue.workflows(queries.open_runs(connection))
        for run_id, (status, executor) in workflows.items():
            if status == "PENDING" and executor not in executors:
                queue.take_over(run_id)


def heartbeat(database: Database, executor: str) -> None:
    """Record a heartbeat. PostgreSQL only."""
    with database.write() as connection:
        queries.seen(connection, executor)
