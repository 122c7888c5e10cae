"""Durable work of the platform: what a request hands over here is carried out, whatever is killed meanwhile.

The operations row is the truth. A request writes the row and commits; then `submit` wakes one thread of this
process, which queues the run. The same thread sweeps for rows left behind, at start and every few seconds while
operations are open, and deletes expired idempotency keys once an hour. The workflow engine is loaded only when there is
something to run, and rests again after it. design: Durable operations
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from uuid import uuid4

from starlette.requests import Request

from service.clock import Clock
from service.db.engine import Database, is_transient
from service.jobs import queries, recovery
from service.jobs.dbos_queue import DbosQueue
from service.jobs.event_stream import EventHub
from service.settings import Settings, sqlite_url

logger = logging.getLogger(__name__)

# The first answers of a fresh process go before the import of the workflow engine.
START_DELAY = 0.3
SWEEP_SECONDS = 5.0
IDLE_SECONDS = 30.0
EXPIRY_SECONDS = 3_600.0
"""Between two deletions of expired rows."""
RETRY_SECONDS = 1.0
STOP_SECONDS = 10.0

Run = Callable[[str], Awaitable[None]]
"""Carries out a run of one kind, by its run id."""
PlanAgain = Callable[[Database, datetime], Iterable[str]]
"""Returns the ids of runs to carry out again at the start of the worker."""


def no_runs(database: Database, at: datetime) -> Iterable[str]:
    return ()


async def get_worker(request: Request) -> "Worker":
    """The dependency that hands a route the worker of its process."""
    worker: Worker = request.app.state.worker
    return worker


class Worker:
    """The platform's durable work in this process."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        settings: Settings,
        kinds: Mapping[str, Run],
        plan_again: PlanAgain = no_runs,
    ) -> None:
        shared = database.kind == "postgresql"
        self._database = database
        self._shared = shared
        # A data folder has one process, so its one name finds again what it was at when it was killed.
        self._executor = uuid4().hex if shared else "local"
        # On PostgreSQL connected to like the platform's own.
        there = database.engine.url.render_as_string(hide_password=False)
        url = there if shared else sqlite_url(settings.data_dir / "workflows.db")
        self._queue = DbosQueue(url, self._executor, self._run)
        self._kinds = kinds
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
        """What there can be of it."""
        return self._kinds.keys()

    def start(self) -> None:
        """Begins to look after operations, those of an earlier process first. Returns at once."""
        self._thread = threading.Thread(target=self._loop, name="operations", daemon=True)
        self._thread.start()

    def submit(self, run_id: str) -> None:
        """Has the run carried out. Call it after the commit that made its row; calling it twice is calling it once."""
        self._submitted.add(run_id)
        self._wake.set()

    def cancel(self, run_id: str) -> None:
        """Drop a cancelled run from the queue. Call it after the commit that cancelled its row.

        A run that goes on, here or in another process, reads its row before each portion and ends by itself.
        """
        self._cancelled.add(run_id)
        self._wake.set()

    def open_count(self) -> int:
        """How many operations are pending or running, on this database."""
        with self._database.read() as connection:
            return queries.open_count(connection)

    def stop(self) -> None:
        """Ends event streams and parks what runs between two steps, for a later process; takes about two seconds."""
        self.events.close()
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            # A database that hangs must not keep the process; the thread is one that may be left behind.
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
        """Start the provisioning of tenants again whose last run failed or was cancelled, once a start."""
        try:
            self._submitted.update(self._plan_again(self._database, self._clock.now()))
        except Exception:
            logger.exception("tenants that are not provisioned could not be looked for; restart the platform to retry")

    def _tick(self) -> float | None:
        """Does what there is to do now; returns the seconds until the next time, None for not before `submit`."""
        try:
            busy = self.open_count() > 0
            if busy:
                self._quiet_since = time.monotonic()
            if self._shared and (busy or self._queue.launched):
                # Before it is launched: what it takes from the queue at once must not look like a dead one's.
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
            logger.exception("operations could not be looked after; trying again in %.0f s", SWEEP_SECONDS)
            return SWEEP_SECONDS
        return SWEEP_SECONDS if self._queue.launched or self._shared else None

    def _delete_expired(self) -> None:
        """Delete expired rows, once an hour. A failure waits for the next time: expired rows do no harm."""
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
        # One whose start or failure could not be written down, because the database was away. Seen twice: what was
        # taken from the queue just now is begun in a moment.
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
        """Carries a run to its end; a database that is away is waited for, as nobody could note a failure either."""
        self._running.add(run_id)
        try:
            while True:
                try:
                    kind = await asyncio.to_thread(self._kind, run_id)
                    if kind is not None:
                        await self._kinds[kind](run_id)
                except Exception as error:
                    if not is_transient(error):
                        raise
                    logger.warning("run %s waits for the database: %s", run_id, type(error).__name__)
                    await asyncio.sleep(RETRY_SECONDS)
                else:
                    return
        finally:
            self._running.discard(run_id)

    def _kind(self, run_id: str) -> str | None:
        with self._database.read() as connection:
            return queries.kind_of(connection, run_id)
