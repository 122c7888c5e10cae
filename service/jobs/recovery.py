"""Finds open operations that nobody is at, and has them run. design: Durable operations

A row may be left behind when a process dies between the commit that made it and the enqueueing, when the workflow
engine's tables are lost or older than the rows, when a workflow ended by an unexpected error, or when another
process that shares the database died. Running twice does no harm (a step is done once by its state on the row),
so this only has to be sure that nothing is forgotten.
"""

from datetime import datetime
from itertools import islice

from service.db import dialect, idempotency_keys
from service.db.engine import Database
from service.jobs import queries
from service.jobs.dbos_queue import DbosQueue

MAX_RUNS = 500
MAX_EXPIRED_KEYS = 1_000
HEARTBEAT_SECONDS = 5.0
DEAD_AFTER_SECONDS = 20
WAITING = ("ENQUEUED", "DELAYED")


def sweep(database: Database, workflows: DbosQueue, executor: str) -> set[str]:
    """Queues every open run without a live workflow; returns those that this executor is at by the engine's word."""
    here: set[str] = set()
    with database.read() as connection:
        run_ids = iter(queries.open_runs(connection))
    while some := list(islice(run_ids, MAX_RUNS)):
        known = workflows.known(some)
        for run_id in some:
            if run_id not in known:
                workflows.enqueue(run_id)
        here |= {run_id for run_id, one in known.items() if one == ("PENDING", executor)}
        ended = [run_id for run_id, (status, _) in known.items() if status not in (*WAITING, "PENDING")]
        # Most have ended since the first look, together with their operation.
        with database.read() as connection:
            forsaken = queries.open_runs(connection, ended)
        for run_id in forsaken:
            workflows.start_over(run_id)
    return here


def recover_dead(database: Database, workflows: DbosQueue) -> None:
    """Takes over the runs of processes that died. PostgreSQL only: a SQLite file has one process."""
    with database.write() as connection:
        if not dialect.try_recovery_lock(connection):
            return
        queries.delete_expired(connection, DEAD_AFTER_SECONDS)
        living = queries.live_executors(connection)
        known = workflows.known(queries.open_runs(connection))
        for run_id, (status, executor) in known.items():
            if status == "PENDING" and executor not in living:
                workflows.take_over(run_id)


def delete_expired_keys(database: Database, at: datetime, size: int = MAX_EXPIRED_KEYS) -> None:
    """Delete the idempotency keys that have expired, in one transaction for each `size` of them."""
    more = True
    while more:
        with database.write() as connection:
            more = idempotency_keys.delete_expired(connection, at, size)


def heartbeat(database: Database, executor: str) -> None:
    """Says that this process lives. PostgreSQL only."""
    with database.write() as connection:
        queries.seen(connection, executor)
