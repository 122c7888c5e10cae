"""Writes changes that requests collect in memory, in one transaction each second.

A source must be safe to lose: if the process is killed, up to a second of it is lost.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from service.db.engine import Database

logger = logging.getLogger(__name__)

BATCH_SECONDS = 1.0
STOP_SECONDS = 10.0


class BatchSource(Protocol):
    """Gathers changes in memory."""

    def drain(self) -> Any:
        """Remove and return the gathered changes; false if there is nothing to write."""

    def write(self, connection: Connection, batch: Any) -> None:
        """Write changes. Must not wait for locks of rows on PostgreSQL."""

    def put_back(self, batch: Any) -> None:
        """Gather changes again that could not be written."""


@dataclass
class Task:
    """Runs in the thread of the writer every `seconds`."""

    run: Callable[[], None]
    seconds: float
    due_at: float = field(default=0.0)


class BatchWriter:
    """Writes the changes of all sources in one transaction each second, in one thread.

    Without `start`, call `flush` to write. An error is logged once; the changes are written when the database takes
    them.

    Args:
        tasks: other work of the thread, with its intervals.
    """

    def __init__(
        self,
        database: Database,
        sources: Sequence[BatchSource],
        tasks: Sequence[tuple[Callable[[], None], float]] = (),
        *,
        seconds: float = BATCH_SECONDS,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self._database = database
        self._sources = sources
        self._tasks = [Task(run, interval) for run, interval in tasks]
        self._seconds = seconds
        self._stop_seconds = stop_seconds
        self._flushing = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_failing = False

    def start(self) -> None:
        now = time.monotonic()
        for task in self._tasks:
            task.due_at = now + task.seconds
        self._thread = threading.Thread(target=self._run, name="batch-writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write the collected changes, and stop. With a thread, wait for `stop_seconds` at most."""
        self._stopping.set()
        if self._thread is None:
            self.flush()
            return
        self._thread.join(self._stop_seconds)
        if self._thread.is_alive():
            logger.error("uses and rate limits are lost: the database does not respond")

    def flush(self) -> None:
        """Write the collected changes. A failure is logged."""
        with self._flushing:
            batches = [(source, batch) for source in self._sources if (batch := source.drain())]
            if not batches:
                return
            try:
                with self._database.write() as connection:
                    for source, batch in batches:
                        source.write(connection, batch)
            except Exception as error:
                for source, batch in batches:
                    source.put_back(batch)
                self._log_failure(error)
            else:
                self._is_failing = False

    def _log_failure(self, error: Exception) -> None:
        if not self._is_failing:
            cause = error.orig if isinstance(error, DBAPIError) else None
            logger.warning(
                "uses and rate limits could not be written; they remain in memory: %s",
                type(cause or error).__name__,
                exc_info=cause is None,
            )
        self._is_failing = True

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            _attempt(self.flush)
            now = time.monotonic()
            for task in self._tasks:
                if now >= task.due_at:
                    task.due_at = now + task.seconds
                    _attempt(task.run)
        # Here, because `stop` cannot interrupt a database that does not answer.
        _attempt(self.flush)


def _attempt(run: Callable[[], None]) -> None:
    """Call a function; an error must not end the thread."""
    try:
        run()
    except Exception:
        logger.exception("a periodic task failed")
