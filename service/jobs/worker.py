"""Runs jobs: what a request hands over is completed, even if processes are killed.

The operations row is authoritative. A request commits the row and calls `submit`, which wakes one thread of this
process. The thread queues the run, sweeps for rows left behind (at start, and every few seconds while operations are
open), and deletes expired idempotency keys once an hour. `dbos_queue` lists what DBOS does and what is added to it.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Annotated
from uuid import uuid4

from fastapi import Depends
from starlette.requests import Request

from service.clock import Clock
from service.db.engine import Database
from service.db.errors import is_unreachable
from service.jobs import queries, recovery
from service.jobs.dbos_queue import DbosQueue
from service.jobs.event_stream import EventHub
from service.jobs.job import Jobs, retry_delay
from service.settings import Settings, sqlite_url

logger = logging.getLogger(__name__)

# The first requests of a new process come before the import of DBOS.
START_DELAY = 0.3
SWEEP_SECONDS = 5.0
IDLE_SECONDS = 30.0
EXPIRY_SECONDS = 3_600.0
"""Between two deletions of expired rows."""
UNREACHABLE_SECONDS = 1.0
STOP_SECONDS = 10.0

PlanAgain = Callable[[Database, datetime], Iterable[str]]
"""Plans runs at the start of the worker; returns their ids."""


def no_runs(database: Database, at: datetime) -> Iterable[str]:
    return ()


class Worker:
    """Runs the jobs of this process."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        settings: Settings,
        jobs: Jobs,
        plan_again: PlanAgain = no_runs,
    ) -> None:
        shared = database.kind == "postgresql"
        self._database = database
        self._shared = shared
        # A data folder has one process: under a constant name it recovers its own runs after a kill.
        self._executor = uuid4().hex if shared else "local"
        platform_url = database.engine.url.render_as_string(hide_password=False)
        url = platform_url if shared else sqlite_url(settings.data_dir / "workflows.db")
        self._queue = DbosQueue(url, self._executor, self._run)
        self._jobs = jobs
        self._max_tries = settings.operation_tries
        self._plan_again = plan_again
        self._submitted: set[str] = set()
        self._cancelled: set[str] = set()
        self._running: set[str] = set()
        self._orphaned: set[str] = set()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._quiet_since = time.monotonic()
        self._swept_at = float("-inf")
        self._clock = clock
        self._expiry_at = time.monotonic()
        self.events = EventHub(database, clock)

    @property
    def kinds(self) -> Iterable[str]:
        """The kinds of operations that this worker can run."""
        return self._jobs.keys()

    def start(self) -> None:
        """Start the thread that runs operations, those of an earlier process first. Does not block."""
        self._thread = threading.Thread(target=self._loop, name="operations", daemon=True)
        self._thread.start()

    def submit(self, run_id: str) -> None:
        """Schedule a run. Call after the commit of its row. Idempotent."""
        self._submitted.add(run_id)
        self._wake.set()

    def cancel(self, run_id: str) -> None:
        """Remove a cancelled run from the queue. Call after the commit that cancelled its row.

        A job that is running it, here or in another process, reads the row before each step and stops.
        """
        self._cancelled.add(run_id)
        self._wake.set()

    def open_count(self) -> int:
        """Return the number of pending and running operations of this database."""
        with self._database.read() as connection:
            return queries.open_count(connection)

    def stop(self) -> None:
        """End event streams and interrupt jobs between two steps, for a later process. Takes about two seconds."""
        self.events.close()
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            # A hanging database must not block the exit; the thread is a daemon.
            self._thread.join(STOP_SECONDS)
            self._thread = None

    def _loop(self) -> None:
        self._wake.wait(START_DELAY)
        self._replan()
        try:
            while not self._stopping:
                self._wake.clear()
                wait = self._tick()
                self._delete_expired()
                until = max(0.0, self._expiry_at - time.monotonic())
                self._wake.wait(until if wait is None else min(wait, until))
        finally:
            self._shut_down_idle()

    def _replan(self) -> None:
        """Submit the runs that `plan_again` plans, once per start."""
        try:
            self._submitted.update(self._plan_again(self._database, self._clock.now()))
        except Exception:
            logger.exception("runs could not be planned at the start; restart the platform to retry")

    def _tick(self) -> float | None:
        """Do what is due; return the seconds until the next tick, None to wait for `submit`."""
        try:
            busy = self.open_count() > 0
            if busy:
                self._quiet_since = time.monotonic()
            if self._shared and (busy or self._queue.launched):
                # Before the launch: runs that it takes at once must not look like those of a dead executor.
                recovery.heartbeat(self._database, self._executor)
            if busy:
                self._queue.launch()
            elif time.monotonic() - self._quiet_since > IDLE_SECONDS:
                self._shut_down_idle()
            while self._cancelled and self._queue.launched:
                self._queue.cancel(self._cancelled.pop())
            if busy:
                self._run_open()
        except Exception:
            logger.exception("the worker of operations failed; trying again in %.0f s", SWEEP_SECONDS)
            return SWEEP_SECONDS
        return SWEEP_SECONDS if self._queue.launched or self._shared else None

    def _delete_expired(self) -> None:
        """Delete expired rows, once an hour. A failure can wait: expired rows do no harm."""
        if time.monotonic() < self._expiry_at:
            return
        self._expiry_at = time.monotonic() + EXPIRY_SECONDS
        try:
            recovery.delete_expired_keys(self._database, self._clock.now())
        except Exception:
            logger.exception("expired idempotency keys could not be deleted; trying again in an hour")

    def _run_open(self) -> None:
        while self._submitted:
            self._queue.enqueue(self._submitted.pop())
        if time.monotonic() - self._swept_at < SWEEP_SECONDS / 2:
            return
        self._swept_at = time.monotonic()
        orphaned = recovery.sweep(self._database, self._queue, self._executor) - self._running
        # Their outcome could not be stored. Only those seen twice: a run that was just taken starts in a moment.
        for run_id in orphaned & self._orphaned:
            self._queue.take_over(run_id)
        self._orphaned = orphaned
        if self._shared:
            recovery.recover_dead(self._database, self._queue)

    def _shut_down_idle(self) -> None:
        if self._queue.launched:
            self._queue.close()
            if self._shared:
                with self._database.write() as connection:
                    queries.forget(connection, self._executor)

    async def _run(self, run_id: str) -> None:
        """Run a job to its end.

        Errors of a job that its own rules do not cover are retried, and after the maximum of tries the run fails.
        An unreachable database is waited for without a limit, as no failure could be stored either.
        """
        self._running.add(run_id)
        failures = 0
        cause: Exception | None = None
        try:
            while True:
                try:
                    kind = await asyncio.to_thread(self._kind, run_id)
                    job = self._jobs.get(kind or "")
                    if job is None:
                        if kind is not None:
                            logger.error("run %s is of the unknown kind %s; upgrade frost or cancel it", run_id, kind)
                    elif cause is not None and failures >= self._max_tries:
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
                    if failures < self._max_tries:
                        failures, cause = failures + 1, error
                    await asyncio.sleep(retry_delay(failures))
        finally:
            self._running.discard(run_id)

    def _kind(self, run_id: str) -> str | None:
        with self._database.read() as connection:
            return queries.kind_of(connection, run_id)


async def get_worker(request: Request) -> Worker:
    """Return the worker of this process."""
    worker: Worker = request.app.state.worker
    return worker


WorkerDep = Annotated[Worker, Depends(get_worker)]
