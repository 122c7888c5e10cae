"""The queue of durable work, on DBOS. The only module that imports DBOS, and only on launch.

DBOS stores the queue, starts at most RUNS_AT_A_TIME runs per process, drops duplicates (the workflow id is the run
id), re-queues at launch the runs that this executor left, and removes cancelled runs. There is one workflow,
`operation`, without checkpoints: the operations row records the progress, and a second record could differ from it.

What this package adds, and the case that DBOS leaves open:

- `worker`: launches DBOS only for open operations and shuts it down when idle. DBOS costs 0.3 s of import, threads
  and a poll four times a second, also when there is nothing to run.
- `recovery.sweep`: a request commits its operations row before it can enqueue, as the two databases share no
  transaction. A kill in between, a restored backup or a lost workflow file leaves a row without a workflow. DBOS
  never runs a workflow again that ended with an error.
- `worker._orphaned`: DBOS keeps a workflow as PENDING if it was broken off and its outcome could not be stored.
- `recovery.heartbeat` and `recover_dead`: DBOS recovers only its own executor id. It does not notice that another
  executor died; only its hosted Conductor does.
- Retries (`job.retry_delay`, `Job.give_up`): the retries of a DBOS step ignore whether the database is away, are not
  shown on the operation, and end in a workflow error that the operation would not have. `max_recovery_attempts`
  counts kills of the process, which are not the fault of the run, so there is no limit.
- One open run per tenant and kind: a unique index on operations, because the request has to answer 409.
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
# Constant, so that a newer version of the platform recovers the runs of an older one.
APPLICATION_VERSION = "1"
THREADS = 8
SCHEMA = "workflows"
# A run mostly waits, and holds no thread while it does.
RUNS_AT_A_TIME = 200
POLL_SECONDS = 0.25

_one_engine = threading.Lock()


class DbosQueue:
    """The DBOS instance of this process. DBOS allows one per process.

    Args:
        url: SQLAlchemy URL of the tables of DBOS; on PostgreSQL they are in the schema `workflows`.
        executor: Id of this process, stored with each run that it starts.
        body: Runs an operation, by its run id, to its end.
    """

    def __init__(self, url: str, executor: str, body: Callable[[str], Awaitable[None]]) -> None:
        self._url = url
        self._executor = executor
        self._body = body
        self.launched = False

    def launch(self) -> None:
        """Import and start DBOS, which re-queues the runs that this executor left unfinished. Idempotent.

        Raises:
            RuntimeError: Another instance runs in this process.
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
        # Before the import: DBOS gives a logger without a handler one that writes to the console.
        engine_log = logging.getLogger("dbos")
        if not engine_log.handlers:
            engine_log.addHandler(logging.NullHandler())
        from dbos import DBOS, DBOSPortableJSONSerializer

        if file := sqlite_file(self._url):
            # Stored in the file. WAL is twice as fast with many runs, and readers do not wait for writers.
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
            # Nothing uses notifications; this only bounds how long a shutdown takes.
            "notification_listener_polling_interval_sec": 0.2,
            "enable_otlp": False,
            "log_level": "WARNING",
        }
        DBOS(config=config)
        body = self._body

        async def operation(run_id: str) -> None:
            await body(run_id)

        try:
            self._workflow = DBOS.workflow(name="operation", max_recovery_attempts=None)(operation)
            DBOS.launch()
            DBOS.register_queue(QUEUE, worker_concurrency=RUNS_AT_A_TIME, polling_interval_sec=POLL_SECONDS)
        except BaseException:
            DBOS.destroy(destroy_registry=True)
            raise

    def enqueue(self, run_id: str) -> None:
        """Queue a run. DBOS ignores a run that it has already."""
        from dbos import DBOS, SetWorkflowID

        with SetWorkflowID(run_id):
            DBOS.enqueue_workflow(QUEUE, self._workflow, run_id)

    def start_over(self, run_id: str) -> None:
        """Queue a run whose workflow has ended although the operation is open."""
        from dbos import DBOS

        DBOS.delete_workflow(run_id)
        self.enqueue(run_id)

    def take_over(self, run_id: str) -> None:
        """Queue a run that is marked as running on a dead executor, or on this one by mistake."""
        from dbos import DBOS

        DBOS.resume_workflow(run_id, queue_name=QUEUE)

    def cancel(self, run_id: str) -> None:
        """Remove a run from the queue and exclude it from recovery. DBOS ignores an unknown run."""
        from dbos import DBOS

        DBOS.cancel_workflow(run_id)

    def workflows(self, run_ids: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return status and executor of the runs that DBOS has, by run id.

        The status is ENQUEUED, DELAYED, PENDING (running), SUCCESS, ERROR or CANCELLED.
        """
        from dbos import DBOS

        workflows = DBOS.list_workflows(workflow_ids=list(run_ids), load_input=False, load_output=False)
        return {workflow.workflow_id: (workflow.status, workflow.executor_id or "") for workflow in workflows}

    def close(self) -> None:
        """Cancel what runs, at its next await, and stop DBOS. Takes about a second."""
        if not self.launched:
            return
        from dbos import DBOS

        try:
            DBOS.destroy(destroy_registry=True)
        finally:
            self.launched = False
            _one_engine.release()


def sqlite_file(url: str) -> str | None:
    """Return the file of a SQLite URL; None for another database."""
    parsed = make_url(url)
    return parsed.database if parsed.get_backend_name() == "sqlite" else None
