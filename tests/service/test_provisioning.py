"""Provisioning of a tenant, step by step and interrupted."""

import asyncio
import multiprocessing
import os
import signal

import pytest
from sqlalchemy import delete, event, insert, select
from sqlalchemy.exc import IntegrityError

from service.catalogue.operations import roles
from service.catalogue.resource_types import default_limits
from service.clock import FixedClock
from service.db.engine import Database
from service.db.tables import billing_accounts, isolation_projects, tenant_quotas
from service.jobs.job import retry_delay
from service.tenants.provisioning import STEPS, BackendUnavailable, ProvisioningJob, plan
from tests.service.audited import audited
from tests.service.planned import BEFORE, NOW, Planned, planned_on
from tests.service.queries import execute, fetch, fetch_scalars
from tests.waiting import until


@pytest.fixture
def planned(database: Database) -> Planned:
    return planned_on(database)


async def test_a_new_tenant_becomes_active_with_all_its_parts(planned: Planned) -> None:
    before = planned.tenant()
    # A limit that is set already stays.
    limits = default_limits() | {"vcpu": default_limits()["vcpu"] + 1}
    row = {"tenant_id": planned.tenant_id, "resource_type": "vcpu", "limit": limits["vcpu"]}
    execute(planned.database, insert(tenant_quotas).values(row))
    await planned.provisioning.run(planned.run_id)
    planned.is_whole()
    assert planned.tenant() == before | {"status": "active"}
    after, mine = planned.row(), planned.tenant_id
    quotas = select(tenant_quotas.c.resource_type, tenant_quotas.c.limit).where(tenant_quotas.c.tenant_id == mine)
    assert {row.resource_type: row.limit for row in fetch(planned.database, quotas)} == limits
    projects = select(isolation_projects.c.name).where(isolation_projects.c.tenant_id == mine)
    assert fetch_scalars(planned.database, projects) == [f"aurora-{planned.organization_id[:8]}-web-shop-{mine[:8]}"]
    # A finished run is not run again.
    await planned.provisioning.run(planned.run_id)
    planned.provisioning.run_step(planned.run_id, "billing_account")
    assert planned.row() == after
    planned.is_whole()


def test_every_movement_shows_the_step_at_work_and_raises_seq(planned: Planned) -> None:
    work, seen = planned.provisioning, list[tuple[str, int, str | None, int]]()

    def record() -> None:
        row = planned.row()
        seen.append((row["status"], row["seq"], row["current_step"], row["progress"]))

    record()
    while (name := work.start_step(planned.run_id)) is not None:
        # A step that is interrupted continues as the same attempt.
        assert work.start_step(planned.run_id) == name
        assert [step["attempts"] for step in planned.row()["steps"] if step["name"] == name] == [1]
        record()
        work.run_step(planned.run_id, name)
        record()
    assert seen == [
        ("pending", 0, None, 0),
        ("running", 1, "isolation (1/4)", 0),
        ("running", 2, "isolation (1/4)", 25),
        ("running", 3, "roles (2/4)", 25),
        ("running", 4, "roles (2/4)", 50),
        ("running", 5, "quotas (3/4)", 50),
        ("running", 6, "quotas (3/4)", 75),
        ("running", 7, "billing_account (4/4)", 75),
        ("completed", 8, "billing_account (4/4)", 100),
    ]


async def test_two_processes_at_one_run_do_each_step_once(planned: Planned) -> None:
    # The database refuses a second open operation of the kind.
    with pytest.raises(IntegrityError), planned.database.write() as connection:
        plan(connection, tenant_id=planned.tenant_id, started_by=None, at=NOW)
    await asyncio.gather(*(planned.provisioning.run(planned.run_id) for _ in range(4)))
    planned.is_whole()
    assert planned.row()["seq"] == 2 * len(STEPS)
    assert [step["attempts"] for step in planned.row()["steps"]] == [1] * 4
    with planned.database.write() as connection:
        plan(connection, tenant_id=planned.tenant_id, started_by=None, at=NOW)


async def test_a_failing_backend_is_tried_again_until_it_answers(database: Database) -> None:
    planned = planned_on(database, faults={"isolation": 1, "billing_account": 2, "roles": 1})
    work = planned.provisioning
    # A failed attempt is visible and leaves nothing of its step.
    assert work.start_step(planned.run_id) == "isolation"
    with pytest.raises(BackendUnavailable, match="isolation backend unavailable") as failure:
        work.run_step(planned.run_id, "isolation")
    assert work.record_failure(planned.run_id, "isolation", str(failure.value)) == 1
    step = planned.row()["steps"][0]
    assert (step["status"], step["attempts"], step["error"]) == ("retrying", 1, "isolation backend unavailable")
    assert planned.row()["status"] == "running"
    assert planned.parts() == (0, 0, 0, 0)
    await work.run(planned.run_id)
    planned.is_whole()
    assert [step["attempts"] for step in planned.row()["steps"]] == [2, 2, 1, 3]
    assert {step["error"] for step in planned.row()["steps"]} == {None}


async def test_an_unexpected_error_is_retried_and_shown_without_internals(planned: Planned) -> None:
    other = planned_on(planned.database)
    number = f"BA-{planned.tenant_id.replace('-', '')[:12].upper()}"
    row = {"tenant_id": other.tenant_id, "account_number": number, "created_at": BEFORE}
    execute(planned.database, insert(billing_accounts).values(row))
    running = asyncio.create_task(planned.provisioning.run(planned.run_id))
    await asyncio.to_thread(until, lambda: planned.row()["steps"][3]["status"] == "retrying")
    assert planned.row()["steps"][3]["error"] == "the step failed unexpectedly"
    execute(planned.database, delete(billing_accounts).where(billing_accounts.c.tenant_id == other.tenant_id))
    async with asyncio.timeout(60):
        await running
    planned.is_whole()


def test_waits_grow_to_a_minute_and_no_further() -> None:
    waits = [retry_delay(attempts, 0.6) for attempts in (1, 2, 3, 6, 7, 1000)]
    assert waits == pytest.approx([1.2, 2.4, 4.8, 38.4, 60, 60])


def run_until_killed(url: str, run_id: str, statement: int) -> None:
    """Run provisioning in a process that kills itself (-9) before its n-th statement or commit."""
    database = audited(url)
    left = statement

    def count(*_: object, **__: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(database.engine, "before_cursor_execute", count)
    event.listen(database.engine, "commit", count)
    asyncio.run(ProvisioningJob(database, FixedClock(NOW), pace=0).run(run_id))
    os._exit(0)


@pytest.mark.slow
def test_killed_before_any_statement_nothing_is_lost_or_done_twice(database: Database) -> None:
    forked = multiprocessing.get_context("fork")
    url = database.engine.url.render_as_string(hide_password=False)
    for statement in range(1, 200):
        planned = planned_on(database, faults={"quotas": 1})
        database.close()
        child = forked.Process(target=run_until_killed, args=(url, planned.run_id, statement))
        child.start()
        child.join(30)
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
        done = [step["status"] == "completed" for step in planned.row()["steps"]]
        numbers = (1, len(roles()), len(default_limits()), 1)
        assert planned.parts() == tuple(n if d else 0 for n, d in zip(numbers, done, strict=True))
        assert planned.row()["progress"] == 25 * sum(done)
        assert (planned.tenant()["status"] == "active") == all(done)
        asyncio.run(planned.provisioning.run(planned.run_id))
        planned.is_whole()
        assert [step["attempts"] for step in planned.row()["steps"]] == [1, 1, 2, 1]
    else:
        pytest.fail("the run did not come to its end")
    assert statement > 40
