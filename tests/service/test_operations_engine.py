"""Jobs on the real workflow engine: started, parked, taken over."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update

from service.app import open_worker
from service.clock import SystemClock
from service.db.engine import Database
from service.db.tables import executors, operations, tenants
from service.jobs.worker import Worker
from service.settings import Settings, from_arguments
from service.tenants import provisioning
from service.tenants.provisioning import ProvisioningJob
from tests.service.planned import Planned, completed, planned_on
from tests.service.queries import execute
from tests.waiting import until

pytestmark = pytest.mark.slow

Started = Callable[..., Worker]


def settings_for(database: Database, data_dir: Path, pace: float) -> Settings:
    url = database.engine.url.render_as_string(hide_password=False)
    variables = {"FROST_PLATFORM_PROVISIONING_PACE": str(pace)}
    return from_arguments(["--data-dir", str(data_dir), "--database", url], variables)


@pytest.fixture
def started(database: Database, tmp_path: Path) -> Iterator[Started]:
    """Starts the operations of a process on the test's database; one at a time."""
    running: list[Worker] = []

    def start(pace: float = 0.01, **intervals: float) -> Worker:
        settings = settings_for(database, tmp_path, pace)
        running.append(open_worker(database, SystemClock(), settings, **intervals))
        running[-1].start()
        return running[-1]

    yield start
    for one in running:
        one.stop()


def finish(planned: Planned) -> None:
    until(completed(planned))
    planned.is_whole()


def is_running(planned: Planned) -> bool:
    return bool(planned.row()["status"] == "running")


def test_a_run_submitted_again_is_carried_out_once_and_its_workflow_deleted(
    database: Database, started: Started
) -> None:
    worker, clock = started(), SystemClock()
    planned = planned_on(database)
    for _ in range(20):
        worker.submit(planned.run_id)
    assert worker.open_count() == 1
    finish(planned)
    assert worker.open_count() == 0
    worker.submit(planned.run_id)
    time.sleep(0.5)
    planned.is_whole()
    assert planned.row()["seq"] == 8
    until(lambda: worker._queue.workflows([planned.run_id])[planned.run_id][0] == "SUCCESS")
    assert worker._queue.delete_ended(clock.now() - timedelta(days=1)) == 0
    assert worker._queue.delete_ended(clock.now() + timedelta(days=1)) == 1
    assert worker._queue.workflows([planned.run_id]) == {}


def test_a_run_that_was_broken_off_is_taken_up(
    database: Database, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_step, broken = ProvisioningJob.start_step, []

    def once(self: ProvisioningJob, run_id: str) -> str | None:
        if not broken:
            broken.append(run_id)
            raise asyncio.CancelledError
        return start_step(self, run_id)

    monkeypatch.setattr(ProvisioningJob, "start_step", once)
    worker, planned = started(), planned_on(database)
    worker.submit(planned.run_id)
    finish(planned)
    assert broken == [planned.run_id]


def test_many_runs_do_not_wait_for_each_other(database: Database, started: Started) -> None:
    stuck = [planned_on(database, faults={"isolation": 1000}) for _ in range(20)]
    worker = started(pace=0.1)
    until(lambda: all(planned.row()["steps"][0]["status"] == "retrying" for planned in stuck))
    planned = planned_on(database)
    worker.submit(planned.run_id)
    until(completed(planned))
    assert worker.open_count() == 20


def test_stop_parks_a_run_and_the_next_process_goes_on(database: Database, started: Started, tmp_path: Path) -> None:
    planned, first = planned_on(database), started(pace=600)
    until(lambda: is_running(planned))
    second = open_worker(database, SystemClock(), settings_for(database, tmp_path, 0))
    with pytest.raises(RuntimeError, match="already"):
        second._queue.launch()
    before = time.monotonic()
    first.stop()
    assert time.monotonic() - before < 60  # a tenth of a step
    parked = planned.row()
    assert (parked["status"], parked["steps"][0]["status"]) == ("running", "running")
    if database.kind == "sqlite":
        # A run with a lost workflow is started again. On PostgreSQL the rows and the workflows are one database.
        for file in tmp_path.glob("workflows.db*"):
            file.unlink()
    started()
    finish(planned)
    if database.kind == "postgresql":
        assert [step["attempts"] for step in planned.row()["steps"]] == [1] * 4


def test_an_open_run_with_an_ended_workflow_is_run_again(database: Database, started: Started) -> None:
    planned, first = planned_on(database), started()
    until(completed(planned))
    first.stop()
    reopened = {"status": "pending", "steps": provisioning.pending_steps(), "progress": 0}
    execute(
        database,
        update(operations).where(operations.c.run_id == planned.run_id).values(reopened),
        update(tenants).where(tenants.c.id == planned.tenant_id).values(status="provisioning"),
    )
    started()
    until(completed(planned))
    assert planned.tenant()["status"] == "active"


def test_an_idle_engine_stops_and_starts_again(database: Database, started: Started) -> None:
    worker = started(idle_seconds=0.1, sweep_seconds=0.3)
    time.sleep(1)
    assert not worker._queue.launched, "there is nothing to do"
    for _ in range(2):
        planned = planned_on(database)
        worker.submit(planned.run_id)
        finish(planned)
        until(lambda: not worker._queue.launched)


RUN_ALONE = """
import sys, time
from pathlib import Path
from service.clock import SystemClock
from service.db.engine import Database
from service.app import open_worker
from service.settings import from_arguments
settings = from_arguments(sys.argv[1:], {"FROST_PLATFORM_PROVISIONING_PACE": "600"})
open_worker(Database(settings.database_url), SystemClock(), settings).start()
time.sleep(600)
"""


@contextmanager
def running_alone(database: Database, data_dir: Path, planned: Planned) -> Iterator[None]:
    """A process of its own that has begun a run and never gets past a step's pace; it is killed at the end."""
    url = database.engine.url.render_as_string(hide_password=False)
    words = [sys.executable, "-c", RUN_ALONE, "--data-dir", str(data_dir), "--database", url]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until(lambda: is_running(planned))
        yield
    finally:
        process.kill()
        printed, _ = process.communicate()
    assert printed == "", "the workflow engine must not write to the console"


def test_the_next_process_finishes_the_work_of_a_killed_one(
    database: Database, started: Started, tmp_path: Path
) -> None:
    planned = planned_on(database)
    with running_alone(database, tmp_path, planned):
        if database.kind == "postgresql":
            # A run is taken over from a dead process only. A SQLite file has one process.
            started(sweep_seconds=0.3)
            time.sleep(2)
            assert planned.row()["seq"] == 1
    if database.kind == "postgresql":
        with database.write() as connection:
            # Every executor counts as lost at once, to avoid the wait.
            assert len(connection.execute(select(executors.c.id)).all()) == 2
            connection.execute(update(executors).values(seen_at=SystemClock().now().replace(year=2020)))
    else:
        started()
    finish(planned)
    assert planned.row()["seq"] == 8
