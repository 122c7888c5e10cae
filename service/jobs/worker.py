"""Runs jobs to their end, even if processes are killed.

A request commits the operations row, which is authoritative, and calls `submit`. A thread queues the run, sweeps for
lost runs every few seconds while operations are open. Another thread does the periodic work of the platform.

Open operations that no live worker owns are queued again. They remain if a process dies, the tables of DBOS are lost
or older than the rows, or a workflow ended with an error. Repeating a run is harmless, because its row records each
completed step.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated
from uuid import uuid4

from fastapi import Depends
from starlette.requests import Request

from service.api.direct_call import immediate
from service.clock import Clock
from service.db import dialect
from service.db.dialect import is_transient, is_unreachable
from service.db.engine import Database
from service.jobs import queries
from service.jobs.dbos_queue import DbosQueue
from service.jobs.event_stream import EventHub
from service.jobs.job import Attempts, Jobs
from service.jobs.queue_file import OK, QueueFile
from service.settings import Settings, sqlite_url

logger = logging.getLogger(__name__)

MAX_RUNS = 500
DEAD_AFTER_SECONDS = 20
WAITING_STATES = ("ENQUEUED", "DELAYED")
# Serve the first requests before the import of DBOS.
START_DELAY = 0.3
SWEEP_SECONDS = 5.0
IDLE_SECONDS = 30.0
WORKFLOWS_SECONDS = 3_600.0
"""Interval of the deletion of old workflows, which are read only while operations are open."""
RETRY_SECONDS = 3_600.0
"""Wait after a failure of the periodic work."""
UNREACHABLE_SECONDS = 1.0
STOP_SECONDS = 10.0
FAILED = "failed"

PlanAgain = Callable[[Database, datetime], Iterable[str]]
"""Plans runs at the start of the worker; returns their ids."""

PeriodicWork = Callable[[], float]
"""Does a short portion of periodic work; returns the seconds until the next portion."""


def queue_lost_runs(database: Database, queue: DbosQueue, executor: str) -> set[str]:
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
        ended = [run_id for run_id, (status, _) in workflows.items() if status not in (*WAITING_STATES, "PENDING")]
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


def record_heartbeat(database: Database, executor: str) -> None:
    """Record a heartbeat. PostgreSQL only."""
    with database.write() as connection:
        queries.seen(connection, executor)


def no_runs(database: Database, at: datetime) -> Iterable[str]:
    return ()


def no_work() -> float:
    return RETRY_SECONDS


class Worker:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        settings: Settings,
        jobs: Jobs,
        plan_again: PlanAgain = no_runs,
        periodic_work: PeriodicWork = no_work,
        queue_file: QueueFile | None = None,
        *,
        sweep_seconds: float = SWEEP_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        shared = database.kind == "postgresql"
        self._database = database
        self._shared = shared
        # A data folder has a single process; its constant id recovers its runs after a kill.
        self._executor = uuid4().hex if shared else "local"
        platform_url = database.engine.url.render_as_string(hide_password=False)
        url = platform_url if shared else sqlite_url(settings.data_dir / "workflows.db")
        self._queue = DbosQueue(url, self._executor, self._run)
        self._queue_file = None if shared else queue_file or QueueFile(settings.data_dir / "workflows.db")
        self._queue_lock = threading.Lock()
        """Held by a launch and by a check of the file, whose locks would make the other fail."""
        self._has_failed = False
        self._jobs = jobs
        self._max_tries = settings.operation_tries
        self._plan_again = plan_again
        self._periodic_work = periodic_work
        self._sweep_seconds = sweep_seconds
        self._idle_seconds = idle_seconds
        self._submitted: set[str] = set()
        self._cancelled: set[str] = set()
        self._running: set[str] = set()
        self._orphaned: set[str] = set()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._periodic_thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._quiet_since = time.monotonic()
        self._swept_at = float("-inf")
        self._clock = clock
        self._retention_days = settings.retention.operation_days
        self._workflows_at = float("-inf")
        self.events = EventHub(database, clock, settings.limits.max_event_streams)

    @property
    def kinds(self) -> Iterable[str]:
        return self._jobs.keys()

    def start(self) -> None:
        """Start the threads: of operations, including those of an earlier process, and of the periodic work."""
        self._thread = threading.Thread(target=self._loop, name="operations", daemon=True)
        self._thread.start()
        self._periodic_thread = threading.Thread(target=self._loop_periodic_work, name="periodic work", daemon=True)
        self._periodic_thread.start()

    def submit(self, run_id: str) -> None:
        """Schedule a run. Call after the commit of its row. Idempotent."""
        self._submitted.add(run_id)
        self._wake.set()

    def cancel(self, run_id: str) -> None:
        """Remove a run from the queue. Call after the commit that cancelled it.

        A running job, in any process, reads its row before each step and stops.
        """
        self._cancelled.add(run_id)
        self._wake.set()

    def open_count(self) -> int:
        """Return the number of open operations of all processes."""
        with self._database.read() as connection:
            return queries.open_count(connection)

    def check(self) -> str:
        """Return `ok` if operations run, or can run; else `failed`, or `damaged` or `locked` for their file."""
        if self._has_failed or not self._queue.has_file_in_place():
            return FAILED
        if self._queue_file is None or not self._queue_lock.acquire(blocking=False):
            return OK
        try:
            # An open file changes all the time, and its errors make the worker fail.
            return OK if self._queue.launched else self._queue_file.check()
        finally:
            self._queue_lock.release()

    def stop(self) -> None:
        """End event streams and interrupt jobs between two steps, for a later process. Takes about two seconds."""
        self.events.close()
        self._stopping = True
        self._wake.set()
        self._stopped.set()
        # A hanging database must not block the exit; the threads are daemons.
        for thread in (self._thread, self._periodic_thread):
            if thread is not None:
                thread.join(STOP_SECONDS)
        self._thread = self._periodic_thread = None

    def _loop(self) -> None:
        self._wake.wait(START_DELAY)
        self._replan()
        try:
            while not self._stopping:
                self._wake.clear()
                self._wake.wait(self._tick())
        finally:
            self._shut_down_idle()

    def _replan(self) -> None:
        try:
            self._submitted.update(self._plan_again(self._database, self._clock.now()))
        except Exception:
            logger.exception("runs could not be planned at the start; restart the platform to retry")

    def _tick(self) -> float | None:
        """Do due work; return the seconds until the next tick, None to wait for `submit`."""
        try:
            busy = self.open_count() > 0
            if busy:
                self._quiet_since = time.monotonic()
            if self._shared and (busy or self._queue.launched):
                # Before the launch: its runs must not look like those of a dead executor.
                record_heartbeat(self._database, self._executor)
            if not self._queue.has_file_in_place():
                logger.error("workflows.db was moved, deleted or replaced; open operations are queued again")
                self._queue.close()
                self._swept_at = float("-inf")
            if busy:
                with self._queue_lock:
                    self._queue.launch()
                self._delete_ended_workflows()
            elif time.monotonic() - self._quiet_since > self._idle_seconds:
                self._shut_down_idle()
            while self._cancelled and self._queue.launched:
                self._queue.cancel(self._cancelled.pop())
            if busy:
                self._run_open()
            self._has_failed = False
        except Exception as error:
            # While the database does not respond, its own check fails.
            self._has_failed = not is_transient(error)
            logger.exception("the worker of operations failed; retrying in %.0f s", self._sweep_seconds)
            return self._sweep_seconds
        return self._sweep_seconds if self._queue.launched or self._shared else None

    def _loop_periodic_work(self) -> None:
        # Its own thread: a slow statement must not delay the heartbeat, or another process would take over the runs.
        delay = START_DELAY
        while not self._stopped.wait(delay):
            try:
                delay = self._periodic_work()
            except Exception:
                logger.exception("the periodic work failed; retrying in an hour")
                delay = RETRY_SECONDS

    def _delete_ended_workflows(self) -> None:
        """Delete old workflows, hourly while operations are open. Their rows are removed by `PeriodicWork`."""
        if self._retention_days and time.monotonic() >= self._workflows_at:
            deleted = self._queue.delete_ended(self._clock.now() - timedelta(days=self._retention_days))
            self._workflows_at = time.monotonic() + (self._sweep_seconds if deleted else WORKFLOWS_SECONDS)

    def _run_open(self) -> None:
        while self._submitted:
            self._queue.enqueue(self._submitted.pop())
        if time.monotonic() - self._swept_at < self._sweep_seconds / 2:
            return
        self._swept_at = time.monotonic()
        orphaned = queue_lost_runs(self._database, self._queue, self._executor) - self._running
        # Their outcome could not be stored. Only runs seen twice: a run just taken starts in a moment.
        for run_id in orphaned & self._orphaned:
            self._queue.take_over(run_id)
        self._orphaned = orphaned
        if self._shared:
            recover_dead(self._database, self._queue)

    def _shut_down_idle(self) -> None:
        if self._queue.launched:
            self._queue.close()
            if self._shared:
                with self._database.write() as connection:
                    queries.forget(connection, self._executor)

    async def _run(self, run_id: str) -> None:
        """Run a job to its end; retry errors that it does not handle, as `Attempts` allows.

        While the database is unreachable, repeat without a limit, because no failure could be stored either.
        """
        self._running.add(run_id)
        attempts = Attempts(self._max_tries)
        cause: Exception | None = None
        try:
            while True:
                try:
                    kind = await asyncio.to_thread(self._kind, run_id)
                    job = self._jobs.get(kind or "")
                    if job is None:
                        if kind is not None:
                            logger.error("run %s is of the unknown kind %s; upgrade frost or cancel it", run_id, kind)
                    elif cause is not None:
                        await asyncio.to_thread(job.give_up, run_id, cause)
                    else:
                        await job.run(run_id)
                    return
                except Exception as error:
                    if is_unreachable(error):
                        logger.warning("run %s waits for the database: %s", run_id, type(error).__name__)
                        await asyncio.sleep(UNREACHABLE_SECONDS)
                        continue
                    logger.exception("run %s failed", run_id)
                    if cause is None and attempts.record(error):
                        cause = error
                    await asyncio.sleep(attempts.delay())
        finally:
            self._running.discard(run_id)

    def _kind(self, run_id: str) -> str | None:
        with self._database.read() as connection:
            return queries.kind_of(connection, run_id)


@immediate
def get_worker(request: Request) -> Worker:
    worker: Worker = request.app.state.worker
    return worker


WorkerDep = Annotated[Worker, Depends(get_worker)]
