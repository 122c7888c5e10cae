"""The queue of durable work, on DBOS. The only module that imports DBOS, and only on launch.

DBOS stores the queue, limits concurrent runs, drops duplicates (the workflow id is the run id), re-queues the runs of
this executor at launch, and removes cancelled runs. Its workflow has no checkpoints: the operations row records the
progress. This package adds:

- `worker`: launches DBOS only for open operations, because its import takes over half a second and it polls. It queues
  runs without a live workflow: DBOS cannot enqueue in the transaction of a row on SQLite, does not repeat a workflow
  that ended with an error, and does not detect dead executors.
- `job.Attempts`: retries of DBOS are not shown on the operation, treat an unreachable database as a failure, and end
  only the workflow. `max_recovery_attempts` is None: a kill of the process is no failure of the run.
- A unique index allows an open run per tenant and kind, because the request must answer 409.
"""

import logging
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Collection
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy.engine import make_url

from service.db.storage import Identity, identity

if TYPE_CHECKING:
    from dbos import DBOSConfig

QUEUE = "operations"
# Constant, so that a newer platform recovers the runs of older versions.
APPLICATION_VERSION = "1"
THREADS = 8
SCHEMA = "workflows"
# Runs mostly wait, without a thread.
RUNS_AT_A_TIME = 200
POLL_SECONDS = 0.25
ENDED = ["SUCCESS", "ERROR", "CANCELLED"]
MAX_DELETED = 500

_one_engine = threading.Lock()


class DbosQueue:
    """The DBOS instance of this process.

    Args:
        url: SQLAlchemy URL of the tables of DBOS, on PostgreSQL in the schema `workflows`.
        executor: Id of this process, stored with its runs.
        body: Runs an operation by its run id.
    """

    def __init__(self, url: str, executor: str, body: Callable[[str], Awaitable[None]]) -> None:
        self._url = url
        self._executor = executor
        self._body = body
        self._file = sqlite_file(url)
        self._identity: Identity = None
        self.launched = False

    def has_file_in_place(self) -> bool:
        """Return whether the file that is open is still at its path; True before the launch and on PostgreSQL."""
        return not self.launched or self._file is None or identity(self._file) == self._identity

    def launch(self) -> None:
        """Import and start DBOS. Idempotent.

        Raises:
            RuntimeError: Another instance runs in this process, and DBOS allows a single instance.
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
        # Before the import: DBOS adds a console handler to a logger without handlers.
        engine_log = logging.getLogger("dbos")
        if not engine_log.handlers:
            engine_log.addHandler(logging.NullHandler())
        from dbos import DBOS, DBOSPortableJSONSerializer

        if self._file:
            # Stored in the file. WAL is twice as fast with many runs; readers do not wait.
            with closing(sqlite3.connect(self._file)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
            self._identity = identity(self._file)
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
            # Unused; this only bounds the time of a shutdown.
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
        """Queue a run. DBOS ignores a known run."""
        from dbos import DBOS, SetWorkflowID

        with SetWorkflowID(run_id):
            DBOS.enqueue_workflow(QUEUE, self._workflow, run_id)

    def start_over(self, run_id: str) -> None:
        """Queue an open operation after its workflow has ended."""
        from dbos import DBOS

        DBOS.delete_workflow(run_id)
        self.enqueue(run_id)

    def take_over(self, run_id: str) -> None:
        """Queue a run marked as running on a dead executor, or wrongly on this executor."""
        from dbos import DBOS

        DBOS.resume_workflow(run_id, queue_name=QUEUE)

    def cancel(self, run_id: str) -> None:
        """Remove a run from the queue and exclude it from recovery. DBOS ignores an unknown run."""
        from dbos import DBOS

        DBOS.cancel_workflow(run_id)

    def workflows(self, run_ids: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return status and executor of known runs, by run id.

        The status is ENQUEUED, DELAYED, PENDING (running), SUCCESS, ERROR or CANCELLED.
        """
        from dbos import DBOS

        workflows = DBOS.list_workflows(workflow_ids=list(run_ids), load_input=False, load_output=False)
        return {workflow.workflow_id: (workflow.status, workflow.executor_id or "") for workflow in workflows}

    def delete_ended(self, before: datetime) -> int:
        """Delete the workflows that ended before an instant, at most MAX_DELETED; return their number."""
        from dbos import DBOS

        workflows = DBOS.list_workflows(
            status=ENDED, completed_before=before.isoformat(), limit=MAX_DELETED, load_input=False, load_output=False
        )
        if workflows:
            DBOS.delete_workflows([workflow.workflow_id for workflow in workflows])
        return len(workflows)

    def close(self) -> None:
        """Cancel jobs at their next await, and stop DBOS. Takes about a second."""
        if not self.launched:
            return
        from dbos import DBOS

        try:
            DBOS.destroy(destroy_registry=True)
        finally:
            self.launched = False
            _one_engine.release()


def sqlite_file(url: str) -> str | None:
    """Return the file of a SQLite URL; None for other databases."""
    parsed = make_url(url)
    return parsed.database if parsed.get_backend_name() == "sqlite" else None
