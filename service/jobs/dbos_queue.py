"""The durable workflow engine, DBOS; the only module that imports it, and only once it is launched.

One workflow, `operation`, whose id is the run id: enqueueing a run twice is enqueueing it once. The workflow has no
checkpoints of its own, because the operations row holds how far the run is and a second truth could differ from it.
What the engine gives is the queue, the bound on work at a time, and that a run which was going when the process
died is taken up again. A run that is cancelled at stop stays pending there and is recovered at the next launch.
"""

import logging
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Collection
from contextlib import closing
from typing import TYPE_CHECKING

from sqlalchemy.engine import make_url

if TYPE_CHECKING:
    from dbos import DBOSConfig

QUEUE = "operations"
# Constant, so that a newer version of the platform takes up what an older one left.
APPLICATION_VERSION = "1"
THREADS = 8
SCHEMA = "workflows"
# A run waits more than it works and holds no thread while waiting.
RUNS_AT_A_TIME = 200
POLL_SECONDS = 0.25

_one_engine = threading.Lock()


class DbosQueue:
    """The engine of this process. There is one at a time, because DBOS is one object a process.

    Args:
        url: SQLAlchemy URL of the engine's own tables; on PostgreSQL they live in the schema `workflows`.
        executor: who runs what; what a dead executor left can be told by its name.
        body: carries one run, by its id, to its end.
    """

    def __init__(self, url: str, executor: str, body: Callable[[str], Awaitable[None]]) -> None:
        self._url = url
        self._executor = executor
        self._body = body
        self.launched = False

    def launch(self) -> None:
        """Imports and starts the engine; what this executor left unfinished is queued again by itself.

        Raises RuntimeError when another engine runs in this process.
        """
        if self.launched:
            return
        if not _one_engine.acquire(blocking=False):
            raise RuntimeError("a workflow engine is running in this process already")
        try:
            self._launch()
        except BaseException:
            _one_engine.release()
            raise
        self.launched = True

    def _launch(self) -> None:
        # Before the import: a logger without a handler would be given one that writes to the console.
        engine_log = logging.getLogger("dbos")
        if not engine_log.handlers:
            engine_log.addHandler(logging.NullHandler())
        from dbos import DBOS, DBOSPortableJSONSerializer

        if file := sqlite_file(self._url):
            # It stays so in the file. Twice as quick with many runs, and readers do not wait for writers.
            with closing(sqlite3.connect(file)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
        config: DBOSConfig = {
            "name": "frost-platform",
            "system_database_url": self._url,
            "dbos_system_schema": SCHEMA,
            "sys_db_pool_size": THREADS,
            "application_version": APPLICATION_VERSION,
            "executor_id": self._executor,
            "max_executor_threads": THREADS,
            "serializer": DBOSPortableJSONSerializer(),
            "use_listen_notify": False,
            # Nothing waits for notifications; this only bounds how long the end takes.
            "notification_listener_polling_interval_sec": 0.2,
            "enable_otlp": False,
            "log_level": "WARNING",
        }
        DBOS(config=config)
        body = self._body

        async def operation(run_id: str) -> None:
            await body(run_id)

        try:
            # No limit of recoveries: a run is given up by its own rules, never because the process died often.
            self._workflow = DBOS.workflow(name="operation", max_recovery_attempts=None)(operation)
            DBOS.launch()
            DBOS.register_queue(QUEUE, worker_concurrency=RUNS_AT_A_TIME, polling_interval_sec=POLL_SECONDS)
        except BaseException:
            DBOS.destroy(destroy_registry=True)
            raise

    def enqueue(self, run_id: str) -> None:
        """Queues the run, unless it is known already."""
        from dbos import DBOS, SetWorkflowID

        with SetWorkflowID(run_id):
            DBOS.enqueue_workflow(QUEUE, self._workflow, run_id)

    def start_over(self, run_id: str) -> None:
        """Queues a run whose workflow came to an end although the operation has not."""
        from dbos import DBOS

        DBOS.delete_workflow(run_id)
        self.enqueue(run_id)

    def take_over(self, run_id: str) -> None:
        """Queues a run that another executor was at."""
        from dbos import DBOS

        DBOS.resume_workflow(run_id, queue_name=QUEUE)

    def cancel(self, run_id: str) -> None:
        """Remove a run from the queue and exclude it from recovery."""
        from dbos import DBOS

        if self.known([run_id]):
            DBOS.cancel_workflow(run_id)

    def known(self, run_ids: Collection[str]) -> dict[str, tuple[str, str]]:
        """Status and executor of those runs that the engine knows.

        Status is ENQUEUED, PENDING (being run), SUCCESS, ERROR or CANCELLED.
        """
        from dbos import DBOS

        found = DBOS.list_workflows(workflow_ids=list(run_ids), load_input=False, load_output=False)
        return {status.workflow_id: (status.status, status.executor_id or "") for status in found}

    def close(self) -> None:
        """Cancels what runs, at its next wait, and ends the engine; takes about a second."""
        if not self.launched:
            return
        from dbos import DBOS

        try:
            DBOS.destroy(destroy_registry=True)
        finally:
            self.launched = False
            _one_engine.release()


def sqlite_file(url: str) -> str | None:
    """The file of a SQLite URL; None for another database."""
    parsed = make_url(url)
    return parsed.database if parsed.get_backend_name() == "sqlite" else None
