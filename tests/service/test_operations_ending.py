"""Jobs that end early: failed for good, cancelled by an operator, or no longer permitted."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Executable, delete, select, text, update

from service.clock import FixedClock
from service.db.engine import Database
from service.db.tables import api_keys, audit_log, memberships
from service.default_tags import apply_job
from service.default_tags import queries as store
from service.default_tags.apply_batch import TagChange
from service.jobs import queries
from service.tenants import provisioning
from service.tenants.provisioning import ProvisioningJob
from tests.api import Answer
from tests.people import OWNER, SANDBOX, WEB_SHOP
from tests.service import factories
from tests.service.access import code
from tests.service.conftest import KINDS, DemoUrl
from tests.service.planned import planned_on
from tests.service.queries import execute, fetch
from tests.service.running import Running
from tests.service.tagged import BEFORE, NOW, Tagged
from tests.waiting import until

BASE = f"/api/v1/tenants/{WEB_SHOP}"
APPLY = f"{BASE}/default-tags/apply"


@pytest.fixture(params=KINDS)
def run_slowly(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[Running]:
    """A platform whose applies wait ten minutes after each portion."""
    with Running(demo_url(request.param), FROST_PLATFORM_APPLY_PACE="600") as platform:
        set_tags(platform, env="slow")
        yield platform


@pytest.fixture
def tagged(database: Database) -> Tagged:
    """A tenant with 20 resources, whose portions have 5."""
    tagged = Tagged(database, 5)
    tagged.many(20)
    return tagged


def fail_calls(patch: pytest.MonkeyPatch, module: Any, name: str, is_failing: Callable[[int], bool]) -> list[int]:
    """Have some calls of a function fail, by their number from 1 on; return the numbers of all calls."""
    function, calls = getattr(module, name), list[int]()

    def call(*arguments: Any) -> None:
        calls.append(len(calls) + 1)
        if is_failing(len(calls)):
            raise OSError("broken")
        function(*arguments)

    patch.setattr(module, name, call)
    return calls


def set_tags(platform: Running, **tags: str) -> None:
    assert platform.ask("PUT", f"{BASE}/default-tags", as_=OWNER, body={"tags": tags}).status == 200


def operation(platform: Running, run_id: str) -> dict[str, Any]:
    return dict(platform.get(f"{BASE}/operations/{run_id}", as_=OWNER).json())


def start_apply(platform: Running, as_: str = OWNER) -> str:
    answer = platform.ask("POST", APPLY, as_=as_)
    assert answer.status == 202, answer
    return str(answer.json()["runId"])


def has_status(platform: Running, run_id: str, status: str) -> bool:
    return bool(operation(platform, run_id)["status"] == status)


async def test_the_tries_are_counted_between_successes_only(tagged: Tagged, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fail_calls(monkeypatch, store, "add_tags", lambda call: call % 2 == 1)
    run_id = tagged.planned()
    await replace(tagged.applying, max_tries=2).run(run_id)
    assert (tagged.operation(run_id)["status"], len(calls)) == ("completed", 8)


async def test_a_run_that_failed_half_way_can_be_undone(tagged: Tagged, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tagged.all_rows()
    run_id = tagged.planned()
    assert tagged.applying.start(run_id)
    assert tagged.applying.run_batch(run_id, 5)
    fail_calls(monkeypatch, store, "add_tags", lambda _: True)
    await replace(tagged.applying, max_tries=3).run(run_id)
    row = tagged.operation(run_id)
    assert (row["status"], row["error_code"]) == ("failed", "WORKFLOW_ERROR")
    assert "5 resources were changed until then" in row["error"]
    assert row["counts"]["summary"]["updated"] == 5
    assert tagged.audited() == [("platform", "default_tags.apply.complete", "failed")]
    monkeypatch.undo()
    assert tagged.undone(run_id)["summary"]["updated"] == 5
    assert {id: row["tags"] for id, row in tagged.all_rows().items()} == {id: row["tags"] for id, row in before.items()}


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("state", ["57014", "40P01", "40001"])
async def test_repeated_transient_errors_count_as_tries(tagged: Tagged, state: str) -> None:
    with tagged.database.write() as connection:
        raising = f"BEGIN RAISE EXCEPTION 'it is broken' USING ERRCODE = '{state}'; END"
        function = f"CREATE FUNCTION broken() RETURNS trigger AS $$ {raising} $$ LANGUAGE plpgsql"
        trigger = "CREATE TRIGGER broken BEFORE UPDATE OF tags ON resources FOR EACH ROW EXECUTE FUNCTION broken()"
        for statement in (function, trigger):
            connection.execute(text(statement))
    run_id = tagged.planned()
    async with asyncio.timeout(60):
        await replace(tagged.applying, max_tries=3).run(run_id)
    error = tagged.operation(run_id)["error"]
    assert error.startswith("failed after 3 attempts")
    assert "it is broken" not in error


async def test_storing_the_end_of_a_failed_run_is_retried(tagged: Tagged, monkeypatch: pytest.MonkeyPatch) -> None:
    portions = fail_calls(monkeypatch, store, "add_tags", lambda _: True)
    ends = fail_calls(monkeypatch, apply_job, "_end_early", lambda call: call < 3)
    run_id = tagged.planned()
    await replace(tagged.applying, max_tries=3).run(run_id)
    row = tagged.operation(run_id)
    assert (row["status"], len(ends), len(portions)) == ("failed", 3, 3)
    assert row["error"].startswith("failed after 3 attempts")
    assert "(OSError)" in row["error"]
    assert row["error"].endswith("nothing was changed")
    assert row["completed_at"] is not None
    assert row["result"] is None
    # The tenant is free.
    tagged.planned()


async def test_a_provisioning_fails_after_some_tries_and_can_be_planned_again(database: Database) -> None:
    planned = planned_on(database, faults={"roles": 100})
    async with asyncio.timeout(60):
        await ProvisioningJob(database, FixedClock(NOW), pace=0, max_tries=3).run(planned.run_id)
    row = planned.row()
    assert (row["status"], row["error_code"]) == ("failed", "WORKFLOW_ERROR")
    assert row["error"] == "failed after 3 attempts at roles (2/4): roles backend unavailable"
    assert [(step["status"], step["attempts"]) for step in row["steps"][:2]] == [("completed", 1), ("failed", 3)]
    assert planned.tenant()["status"] == "provisioning"
    assert planned.audited() == [("platform", "tenant.provision")]
    assert provisioning.plan_again(database, NOW) != []
    assert provisioning.plan_again(database, NOW) == []
    with database.read() as connection:
        again = queries.open_run(connection, planned.tenant_id, provisioning.KIND)
    assert again is not None
    await planned.provisioning.run(again["run_id"])
    assert planned.tenant()["status"] == "active"
    assert planned.row() == row
    assert provisioning.plan_again(database, NOW) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_next_start_provisions_a_tenant_whose_run_failed(kind: str, demo_url: DemoUrl) -> None:
    with Running(demo_url(kind), FROST_PLATFORM_OPERATION_TRIES="1", FROST_PLATFORM_PROVISIONING_PACE="0") as platform:

        def runs() -> list[dict[str, Any]]:
            listed = platform.get("/api/v1/platform/operations").json()["operations"]
            return [one for one in listed if one["tenantId"] == SANDBOX]

        until(lambda: [one["status"] for one in runs()] == ["failed"], 60)
        assert platform.get(f"/api/v1/tenants/{SANDBOX}", as_=OWNER).json()["status"] == "provisioning"
        platform.kill()
        platform.start()
        until(lambda: [one["status"] for one in runs()] == ["completed", "failed"], 60)
        assert platform.get(f"/api/v1/tenants/{SANDBOX}", as_=OWNER).json()["status"] == "active"


def test_an_operator_cancels_a_run_and_the_tenant_is_free(run_slowly: Running) -> None:
    def cancel(name: str) -> Answer:
        return run_slowly.ask("POST", f"/api/v1/platform/operations/{name}/cancel")

    run_id = start_apply(run_slowly)
    until(lambda: has_status(run_slowly, run_id, "running"), 60)
    assert run_slowly.ask("POST", APPLY, as_=OWNER).status == 409
    answer = cancel(run_id)
    assert answer.status == 200, answer
    cancelled = answer.json()
    assert (cancelled["runId"], cancelled["status"], cancelled["errorCode"]) == (run_id, "cancelled", "cancelled")
    assert "cancelled by an operator" in cancelled["error"]
    assert operation(run_slowly, run_id) == cancelled
    shown = run_slowly.get(f"{BASE}/default-tags/runs", as_=OWNER).json()["runs"][0]
    assert (shown["runId"], shown["status"]) == (run_id, "cancelled")
    with closing(Database(run_slowly.database_url)) as database:
        (entry,) = fetch(database, select(audit_log).where(audit_log.c.operation == "operation.cancel"))
    assert (entry.target, entry.tenant_id, entry.actor_kind) == (f"operation:{run_id}", WEB_SHOP, "staff")
    assert code(cancel(run_id)) == (409, "OPERATION_OVER")
    # The operation id names the latest run.
    second = start_apply(run_slowly)
    assert second != run_id
    by_name = cancel(f"apply-default-tags-{WEB_SHOP}")
    assert (by_name.status, by_name.json()["runId"]) == (200, second)
    assert cancel("no-such").status == 404
    # A restart does not take it up again.
    run_slowly.kill()
    run_slowly.variables["FROST_PLATFORM_APPLY_PACE"] = "0"
    run_slowly.start()
    following = start_apply(run_slowly)
    until(lambda: has_status(run_slowly, following, "completed"), 60)
    assert operation(run_slowly, run_id) == cancelled


LOSSES: dict[str, tuple[Executable, str]] = {
    "membership": (delete(memberships), "organization; 5 resources were changed until then"),
    "role": (update(memberships).values(role="member"), "organization; 5 resources were changed until then"),
    "revoked key": (update(api_keys).values(revoked_at=NOW), "API key"),
    "deleted key": (delete(api_keys), "API key"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_run_stops_when_its_person_or_key_loses_the_right_to_it(tagged: Tagged, loss: str) -> None:
    key_id = "0192f7c1-0000-4000-8000-000000000001" if loss.endswith("key") else None
    members = {"tenant_id": tagged.tenant_id, "user_id": tagged.owner_id, "scopes": ["organizations:write"]}
    with tagged.database.write() as connection:
        factories.add(connection, {api_keys: factories.api_key(key_id or "k", BEFORE, key_prefix="x", **members)})
        change = TagChange(tagged.tenant_id, {"a": "b"})
        run_id = apply_job.plan(connection, change, started_by=tagged.owner_id, at=BEFORE, key_id=key_id)
    assert tagged.applying.start(run_id)
    assert tagged.applying.run_batch(run_id, 5)
    statement, error = LOSSES[loss]
    execute(tagged.database, statement)
    assert not tagged.applying.run_batch(run_id, 5)
    row = tagged.operation(run_id)
    assert (row["status"], row["error_code"]) == ("failed", "forbidden")
    assert error in row["error"]
    assert tagged.audited() == [("platform", "default_tags.apply.complete", "refused")]
    tagged.planned()
