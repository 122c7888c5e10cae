"""Jobs on the real workflow engine: started, parked, taken over."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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
from tests.service.planned import completed, planned_on, until

pytestmark = pytest.mark.slow

Started = Callable[..., Worker]


def settings_for(database: Database, data_dir: Path, pace: float, tries: int = 10) -> Settings:
    url = database.engine.url.render_as_string(hide_password=False)
    variables = {"FROST_PLATFORM_PROVISIONING_PACE": str(pace), "FROST_PLATFORM_OPERATION_TRIES": str(tries)}
    return from_arguments(["--data-dir", str(data_dir), "--database", url], variables)


@pytest.fixture
def started(database: Database, tmp_path: Path) -> Iterator[Started]:
    """Starts the operations of a process on the test's database; one at a time."""
    running: list[Worker] = []

    def start(pace: float = 0.01, tries: int = 10, **intervals: float) -> Worker:
        settings = settings_for(database, tmp_path, pace, tries)
        running.append(open_worker(database, SystemClock(), settings, **intervals))
        running[-1].start()
        return running[-1]

    yield start
    for one in running:
        one.stop()


def test_a_submitted_run_is_carried_out(database: Database, started: Started) -> None:
    operations_here = started()
    planned = planned_on(database)
    operations_here.submit(planned.run_id)
    assert operations_here.open_count() == 1
    until(completed(planned))
    planned.is_whole()
    assert operations_here.open_count() == 0


def test_a_run_that_was_broken_off_is_taken_up(
    database: Database, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_step, broken = provisioning.ProvisioningJob.start_step, []

    def once(self: provisioning.ProvisioningJob, run_id: str) -> str | None:
        if not broken:
            broken.append(run_id)
            raise asyncio.CancelledError
        return start_step(self, run_id)

    monkeypatch.setattr(provisioning.ProvisioningJob, "start_step", once)
    operations_here = started()
    planned = planned_on(database)
    operations_here.submit(planned.run_id)
    until(completed(planned))
    assert broken == [planned.run_id]
    planned.is_whole()


def test_a_job_that_always_raises_fails_with_its_error(
    database: Database, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def breaks(self: provisioning.ProvisioningJob, run_id: str) -> str | None:
        calls.append(run_id)
        raise LookupError("it is broken")

    monkeypatch.setattr(provisioning.ProvisioningJob, "start_step", breaks)
    worker_here = started(tries=3)
    planned = planned_on(database)
    worker_here.submit(planned.run_id)
    until(lambda: planned.row()["status"] == "failed")
    row = planned.row()
    assert calls == [planned.run_id] * 3
    assert row["error_code"] == "WORKFLOW_ERROR"
    assert row["error"] == "failed after 3 attempts: internal error (LookupError); the platform's log has the details"
    assert row["completed_at"] is not None
    assert planned.audited() == [("platform", "tenant.provision")]
    assert worker_here.open_count() == 0
    monkeypatch.undo()
    (again,) = provisioning.plan_again(database, SystemClock().now())
    worker_here.submit(again)
    until(lambda: planned.tenant()["status"] == "active")


def test_a_run_submitted_twice_is_carried_out_once(database: Database, started: Started) -> None:
    operations_here = started()
    planned = planned_on(database)
    for _ in range(20):
        operations_here.submit(planned.run_id)
    until(completed(planned))
    operations_here.submit(planned.run_id)
    time.sleep(0.5)
    planned.is_whole()
    assert planned.row()["seq"] == 8


def test_many_runs_do_not_wait_for_each_other(database: Database, started: Started) -> None:
    stuck = [planned_on(database, faults={"isolation": 1000}) for _ in range(20)]
    operations_here = started(pace=0.1)
    until(lambda: all(planned.row()["steps"][0]["status"] == "retrying" for planned in stuck))
    planned = planned_on(database)
    operations_here.submit(planned.run_id)
    until(completed(planned))
    assert operations_here.open_count() == 20


def test_stop_parks_within_two_seconds_and_the_next_process_goes_on(database: Database, started: Started) -> None:
    planned = planned_on(database)
    first = started(pace=600)
    until(lambda: planned.row()["status"] == "running")
    before = time.monotonic()
    first.stop()
    assert time.monotonic() - before < 60  # a tenth of a step
    parked = planned.row()
    assert (parked["status"], parked["steps"][0]["status"]) == ("running", "running")
    started()
    until(completed(planned))
    planned.is_whole()
    assert [step["attempts"] for step in planned.row()["steps"]] == [1] * 4


def test_the_workflows_of_old_operations_are_deleted(database: Database, started: Started) -> None:
    clock = SystemClock()
    operations_here = started()
    first = planned_on(database)
    operations_here.submit(first.run_id)
    until(completed(first))
    until(lambda: operations_here._queue.workflows([first.run_id])[first.run_id][0] == "SUCCESS")
    assert operations_here._queue.delete_ended(clock.now() - timedelta(days=1)) == 0
    assert operations_here._queue.delete_ended(clock.now() + timedelta(days=1)) == 1
    assert operations_here._queue.workflows([first.run_id]) == {}


# On PostgreSQL the rows and the workflows are one database.
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_run_with_a_lost_workflow_is_started_again(database: Database, started: Started, tmp_path: Path) -> None:
    planned = planned_on(database)
    first = started(pace=600)
    until(lambda: planned.row()["status"] == "running")
    first.stop()
    for file in tmp_path.glob("workflows.db*"):
        file.unlink()
    started()
    until(completed(planned))
    planned.is_whole()


def test_an_open_run_with_an_ended_workflow_is_run_again(database: Database, started: Started) -> None:
    planned = planned_on(database)
    first = started()
    until(completed(planned))
    first.stop()
    with database.write() as connection:
        connection.execute(
            update(operations)
            .where(operations.c.run_id == planned.run_id)
            .values(status="pending", steps=provisioning.pending_steps(), progress=0)
        )
        connection.execute(update(tenants).where(tenants.c.id == planned.tenant_id).values(status="provisioning"))
    started()
    until(completed(planned))
    assert planned.tenant()["status"] == "active"


def test_an_idle_engine_stops_and_starts_again(database: Database, started: Started) -> None:
    operations_here = started(idle_seconds=0.1, sweep_seconds=0.3)
    for _ in range(2):
        planned = planned_on(database)
        operations_here.submit(planned.run_id)
        until(completed(planned))
        until(lambda: not operations_here._queue.launched)
        planned.is_whole()


def test_a_process_runs_one_engine(database: Database, started: Started, tmp_path: Path) -> None:
    planned = planned_on(database)
    first = started(pace=600)
    until(lambda: planned.row()["status"] == "running")
    second = open_worker(database, SystemClock(), settings_for(database, tmp_path, 0))
    with pytest.raises(RuntimeError, match="already"):
        second._queue.launch()
    first.stop()


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


def alone(database: Database, data_dir: Path) -> "subprocess.Popen[str]":
    """A process of its own that runs operations and never gets past a step's pace."""
    url = database.engine.url.render_as_string(hide_password=False)
    return subprocess.Popen(
        [sys.executable, "-c", RUN_ALONE, "--data-dir", str(data_dir), "--database", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_next_process_finishes_the_work_of_a_killed_one(
    database: Database, started: Started, tmp_path: Path
) -> None:
    planned = planned_on(database)
    process = alone(database, tmp_path)
    try:
        until(lambda: planned.row()["status"] == "running")
    finally:
        process.send_signal(signal.SIGKILL)
        printed, _ = process.communicate()
    assert printed == "", "the workflow engine must not write to the console"
    if database.kind == "postgresql":
        silence(database)
    started()
    until(completed(planned))
    planned.is_whole()
    assert planned.row()["seq"] == 8


def silence(database: Database) -> None:
    """Makes every executor look long unseen, instead of waiting until it is."""
    with database.write() as connection:
        assert connection.execute(select(executors.c.id)).all()
        connection.execute(update(executors).values(seen_at=SystemClock().now().replace(year=2020)))


# A SQLite file has one process.
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_only_the_runs_of_dead_processes_are_taken_over(database: Database, started: Started, tmp_path: Path) -> None:
    planned = planned_on(database)
    process = alone(database, tmp_path)
    try:
        until(lambda: planned.row()["status"] == "running")
        started(sweep_seconds=0.3)
        time.sleep(2)
        assert planned.row()["seq"] == 1
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    with database.read() as connection:
        assert len(connection.execute(select(executors.c.id)).all()) == 2
    silence(database)
    until(completed(planned))
    planned.is_whole()


def test_nothing_loads_the_workflow_engine_while_nothing_is_open(tmp_path: Path) -> None:
    program = """
import sys, time
from service.clock import SystemClock
from service.db.engine import Database
from service.db.tables import metadata
from service.jobs import routes
from service.app import open_worker
from service.settings import from_arguments
settings = from_arguments(sys.argv[1:], {})
database = Database(settings.database_url)
metadata.create_all(database.engine)
operations = open_worker(database, SystemClock(), settings)
operations.start()
assert operations.open_count() == 0
time.sleep(1)
operations.stop()
assert "dbos" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "--data-dir", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
