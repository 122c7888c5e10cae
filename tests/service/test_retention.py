"""Old rows are removed in small batches; rows that the platform uses remain."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Table, event, func, insert, select, text, update

from service import retention as service_retention
from service.authn.bearer_tokens import BearerTokens
from service.authn.oidc_provider import ExternalIssuer
from service.clock import FixedClock, SystemClock
from service.db import tables
from service.db.engine import Database
from service.db.revisions import lock_domains
from service.default_tags import apply_job
from service.default_tags import queries as store
from service.default_tags.queries import propagated
from service.errors import ApiError
from service.jobs.worker import Worker
from service.retention import REUSE_PERIOD, RetentionSweep, rules
from service.settings import Retention, from_arguments
from tests.service import factories
from tests.service.identity_provider import Provider
from tests.service.issuing import NOW as SIGN_IN_TIME
from tests.service.issuing import HandClock, Issuing
from tests.service.queries import execute, fetch, fetch_scalars
from tests.service.tagged import NOW, Tagged
from tests.waiting import until

DAY = timedelta(days=1)
SETTINGS = Retention()


def run(database: Database, at: datetime = NOW, settings: Retention = SETTINGS, **limits: int) -> int:
    """Run a whole sweep; return the number of its batches."""
    retention, batches = RetentionSweep(database, FixedClock(at), settings, **({"batch_rows": 200} | limits)), 0
    while retention.remove_batch() != service_retention.SWEEP_SECONDS:
        batches += 1
    return batches


def add(database: Database, table: Table, *rows: dict[str, Any]) -> None:
    execute(database, insert(table).values(list(rows)))


def stored(database: Database, table: Table) -> set[Any]:
    """Return the first column of the primary key of all rows."""
    return set(fetch_scalars(database, select(next(iter(table.primary_key)))))


def operation(tagged: Tagged, run_id: str, age: timedelta, kind: str = "provision_tenant", **members: Any) -> Any:
    done = NOW - age
    row = {"run_id": run_id, "operation_id": "o", "tenant_id": tagged.tenant_id, "kind": kind, "status": "completed"}
    row |= {"resource_type": "tenant", "progress": 100, "steps": [], "seq": 1, "counts": {}, "snapshot": None}
    return row | {"created_at": done, "updated_at": done, "completed_at": done} | members


def session(tagged: Tagged, session_id: str, started: datetime, **members: Any) -> dict[str, Any]:
    times = {"expires_at": started + timedelta(days=30), "ended_at": None}
    return factories.session(session_id, started, user_id=tagged.owner_id, **(times | members))


def many_operations(tagged: Tagged, age: timedelta = 100 * DAY) -> None:
    add(tagged.database, tables.operations, *(operation(tagged, str(uuid4()), age) for _ in range(25)))


def version(tagged: Tagged, number: int, changed_at: datetime, policy_id: str | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {"tenant_id": tagged.tenant_id, "version": number, "changed_at": changed_at}
    row["changed_by"] = tagged.owner_id
    if policy_id is None:
        return row | {"tags": {"version": str(number)}}
    row |= {"policy_id": policy_id, "name": "p", "description": "", "document": "{}", "authored_by": tagged.owner_id}
    return row | {"change": "update", "changed": []}


def quota_request(tagged: Tagged, request_id: str, status: str, age: timedelta, **members: Any) -> dict[str, Any]:
    row = {"id": request_id, "scope": "organization", "organization_id": tagged.organization_id, "status": status}
    row |= {"resource_type": "vcpu", "limit_before": 1, "limit": 2, "reason": "", "requested_by": tagged.owner_id}
    return row | {"created_at": NOW - age, "decided_at": None} | members


@pytest.fixture
def tagged(database: Database) -> Tagged:
    return Tagged(database)


def test_ended_jobs_and_requests_are_removed_and_open_ones_remain(tagged: Tagged) -> None:
    old, year = timedelta(days=91), timedelta(days=366)
    jobs = [
        operation(tagged, "old", old),
        operation(tagged, "failed", old, status="failed"),
        operation(tagged, "young", timedelta(days=89)),
        operation(tagged, "open", old, status="running", completed_at=None),
        operation(tagged, "pending", old, kind="other", status="pending", completed_at=None),
    ]
    requests = [
        quota_request(tagged, "denied", "denied", year),
        quota_request(tagged, "approved", "approved", 2 * year, decided_at=NOW - year),
        quota_request(tagged, "decided late", "rejected", year, decided_at=NOW - DAY),
        quota_request(tagged, "pending", "pending", 2 * year),
        quota_request(tagged, "young", "denied", DAY),
    ]
    add(tagged.database, tables.operations, *jobs)
    add(tagged.database, tables.quota_requests, *requests)
    run(tagged.database)
    assert stored(tagged.database, tables.operations) == {"young", "open", "pending"}
    assert stored(tagged.database, tables.quota_requests) == {"decided late", "pending", "young"}


def test_the_latest_applies_and_every_run_with_an_undo_log_remain(tagged: Tagged) -> None:
    snapshot = {"snapshot": {"tags": {}, "undoes": None}}
    ages = {f"run-{number:02}": timedelta(days=100 + number) for number in range(store.MAX_UNDO_RUNS + 3)}
    rows = [operation(tagged, run_id, age, kind=apply_job.KIND, **snapshot) for run_id, age in ages.items()]
    add(tagged.database, tables.operations, *rows)
    with tagged.database.write() as connection:
        store.log_added_keys(connection, tagged.tenant_id, "run-11", "instance", [("r", ["env"])])
        listed = store.list_latest_runs(connection, tagged.tenant_id, apply_job.KIND)
    run(tagged.database)
    assert stored(tagged.database, tables.operations) == {"run-11", *(row["run_id"] for row in listed)}
    with tagged.database.read() as connection:
        assert store.list_latest_runs(connection, tagged.tenant_id, apply_job.KIND) == listed


def test_sessions_are_removed_with_their_refresh_tokens(tagged: Tagged) -> None:
    rows = {
        "ended": session(tagged, "ended", NOW - timedelta(days=31, hours=1), ended_at=NOW - timedelta(days=31)),
        "expired": session(tagged, "expired", NOW - timedelta(days=61)),
        "ended yesterday": session(tagged, "ended yesterday", NOW - timedelta(days=40), ended_at=NOW - DAY),
        "expired yesterday": session(tagged, "expired yesterday", NOW - timedelta(days=31)),
        "active": session(tagged, "active", NOW - DAY),
    }
    # Still valid by their own time: the session's issuer may have had another lifetime.
    rows["ended"]["expires_at"] = NOW + DAY
    add(tagged.database, tables.sessions, *rows.values())
    token = {"client_id": "c", "scope": "", "issued_at": NOW - timedelta(days=80)}
    for name, row in rows.items():
        times = token | {"session_id": name, "expires_at": row["expires_at"]}
        add(tagged.database, tables.refresh_tokens, *(times | {"token_hash": f"{name} {n}"} for n in range(3)))
    run(tagged.database, batch_rows=2)
    assert stored(tagged.database, tables.sessions) == {"ended yesterday", "expired yesterday", "active"}
    left = fetch_scalars(tagged.database, select(tables.refresh_tokens.c.session_id))
    assert sorted(left) == ["active"] * 3 + ["expired yesterday"] * 3


def test_the_last_versions_of_policies_and_default_tags_remain(tagged: Tagged) -> None:
    database, old = tagged.database, NOW - timedelta(days=3)
    policy = {"tenant_id": tagged.tenant_id, "name": "p", "document": "{}", "authored_by": tagged.owner_id}
    times = {"created_at": old, "updated_at": old}
    for policy_id, versions in (("many", 130), ("few", 100)):
        add(database, tables.policies, policy | times | {"id": policy_id, "version": versions})
        numbers = range(1, versions + 1)
        add(database, tables.policy_versions, *(version(tagged, each, old, policy_id) for each in numbers))
    execute(
        database, update(tables.tenants).where(tables.tenants.c.id == tagged.tenant_id).values(default_tags_version=107)
    )
    add(database, tables.default_tag_versions, *(version(tagged, each, old) for each in range(1, 108)))
    run(database, batch_rows=7)
    left = tables.policy_versions.c
    query = select(left.policy_id, func.min(left.version), func.max(left.version), func.count())
    remaining = {tuple(row) for row in fetch(database, query.group_by(left.policy_id))}
    assert remaining == {("many", 31, 130, 100), ("few", 1, 100, 100)}
    assert set(fetch_scalars(database, select(tables.default_tag_versions.c.version))) == set(range(8, 108))


def test_default_tags_that_apply_to_new_resources_remain(tagged: Tagged) -> None:
    """With a tag propagation of a day, new resources get the version of yesterday."""
    database = tagged.database
    execute(database, update(tables.tenants).values(default_tags_version=200))
    ages = {number: timedelta(days=3) if number <= 50 else timedelta(hours=1) for number in range(1, 201)}
    add(database, tables.default_tag_versions, *(version(tagged, each, NOW - age) for each, age in ages.items()))
    run(database)
    with database.read() as connection:
        assert propagated(connection, tagged.tenant_id, NOW - DAY) == {"version": "50"}
    assert set(fetch_scalars(database, select(tables.default_tag_versions.c.version))) == set(range(50, 201))


def test_expired_keys_codes_and_tokens_are_removed(tagged: Tagged) -> None:
    database = tagged.database

    def code_row(age: timedelta) -> dict[str, Any]:
        return {"client_id": "c", "scope": "", "device": "", "expires_at": NOW - age}

    ages = {"old": REUSE_PERIOD + timedelta(seconds=1), "young": REUSE_PERIOD}
    for name, age in ages.items():
        device = {"device_code_hash": name, "user_code": name, "status": "used", "created_at": NOW, "interval": 5}
        add(database, tables.device_codes, code_row(age) | device)
        code = {"code_hash": name, "user_id": tagged.owner_id, "redirect_uri": "", "code_challenge": ""}
        add(database, tables.authorization_codes, code_row(age) | code | {"auth_time": NOW})
        key = {"actor_id": name, "operation": "o", "key": name, "request_hash": "h", "resource_id": "r"}
        add(database, tables.idempotency_keys, key | {"created_at": NOW - age})
    identity = {"id": "i", "tenant_id": tagged.tenant_id, "cluster_id": "c", "namespace": "n", "service_account": "s"}
    times = {"created_at": NOW, "updated_at": NOW}
    add(database, tables.workload_identities, identity | times | {"scopes": [], "created_by": tagged.owner_id})
    for name, end in (("old", NOW), ("young", NOW + timedelta(seconds=1))):
        token = {"token_hash": name, "identity_id": "i", "issued_at": NOW - DAY, "expires_at": end}
        add(database, tables.workload_tokens, token)
    run(database)
    names = (tables.device_codes, tables.authorization_codes, tables.idempotency_keys, tables.workload_tokens)
    assert [stored(database, table) for table in names] == [{"young"}] * 4


def test_zero_keeps_everything(tagged: Tagged) -> None:
    old = timedelta(days=10_000)
    add(tagged.database, tables.operations, operation(tagged, "old", old))
    add(tagged.database, tables.quota_requests, quota_request(tagged, "old", "denied", old))
    add(tagged.database, tables.sessions, session(tagged, "old", NOW - old))
    run(tagged.database, settings=Retention(0, 0, 0, 0))
    for table in (tables.operations, tables.quota_requests, tables.sessions):
        assert stored(tagged.database, table) == {"old"}


def test_a_sweep_without_due_rows_writes_nothing(tagged: Tagged, monkeypatch: pytest.MonkeyPatch) -> None:
    add(tagged.database, tables.sessions, session(tagged, "active", NOW))

    def refuse(*_: object) -> None:
        raise AssertionError("a sweep without due rows opened a write transaction")

    monkeypatch.setattr(tagged.database, "write", refuse)
    assert run(tagged.database) == 0


def test_a_batch_is_small_and_followed_by_a_pause(tagged: Tagged) -> None:
    many_operations(tagged)
    retention = RetentionSweep(tagged.database, FixedClock(NOW), SETTINGS, batch_rows=10)

    def fail(*arguments: Any) -> None:
        if arguments[2].startswith("DELETE"):
            raise RuntimeError("the database is away")

    left = []
    for is_failing in (False, True, False, False):
        if is_failing:
            event.listen(tagged.database.engine, "before_cursor_execute", fail)
            with pytest.raises(RuntimeError):
                retention.remove_batch()
            event.remove(tagged.database.engine, "before_cursor_execute", fail)
        else:
            assert service_retention.MIN_PAUSE_SECONDS <= retention.remove_batch() < service_retention.SWEEP_SECONDS
        left.append(len(stored(tagged.database, tables.operations)))
    assert left == [15, 15, 5, 0], "the failed batch is repeated"
    assert retention.remove_batch() == service_retention.SWEEP_SECONDS
    # More rows than are queried at once.
    many_operations(tagged)
    assert run(tagged.database, batch_rows=5, queried_batches=2) == 5
    assert not stored(tagged.database, tables.operations)


def test_locked_rows_are_skipped_and_a_change_of_a_person_is_awaited(pair: tuple[Database, Database]) -> None:
    one, other = pair
    people = [Tagged(one), Tagged(one)]
    add(one, tables.operations, *(operation(people[0], name, 100 * DAY) for name in "ab"))
    with one.write() as holding:
        holding.execute(select(tables.operations).where(tables.operations.c.run_id == "a").with_for_update())
        run(other)
        assert stored(other, tables.operations) == {"a"}
    run(other)
    assert stored(other, tables.operations) == set()
    add(one, tables.sessions, *(session(of, str(uuid4()), NOW - 90 * DAY) for of in people))
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with ThreadPoolExecutor(1) as thread:
        with one.write() as connection:
            lock_domains(connection, [people[0].owner_id])
            sweeping = thread.submit(run, other)
            until(lambda: bool(connection.scalar(waiting)))
            connection.execute(update(tables.sessions).values(end_reason="raced"))
        sweeping.result()
    assert stored(other, tables.sessions) == set()


@pytest.mark.parametrize(
    ("table", "index"),
    [("refresh_tokens", "expires_at"), ("operations", "completed_at"), ("idempotency_keys", "created_at")],
)
def test_due_rows_of_large_tables_are_found_by_an_index(database: Database, table: str, index: str) -> None:
    rule = next(rule for rule in rules(SETTINGS, NOW) if rule.table.name == table)
    query = str(service_retention._due(rule).compile(database.engine, compile_kwargs={"literal_binds": True}))
    with database.read() as connection:
        if database.kind == "postgresql":
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        word = "EXPLAIN" if database.kind == "postgresql" else "EXPLAIN QUERY PLAN"
        plan = "\n".join(str(line) for line in connection.exec_driver_sql(f"{word} {query}"))
    assert f"ix_{table}_{index}" in plan


def test_the_worker_sweeps_repeatedly(database: Database, tmp_path: Path) -> None:
    url = database.engine.url.render_as_string(hide_password=False)
    settings = from_arguments(["--data-dir", str(tmp_path), "--database", url], {})
    often = RetentionSweep(database, SystemClock(), SETTINGS, interval=0.05, batch_rows=10)
    worker = Worker(database, SystemClock(), settings, {}, periodic_work=often.remove_batch)
    tagged = Tagged(database)
    worker.start()
    try:
        for _ in range(2):
            many_operations(tagged, 900 * DAY)
            until(lambda: not stored(database, tables.operations))
    finally:
        worker.stop()


def test_a_removed_outside_session_is_not_started_again(database: Database, tmp_path: Path, provider: Provider) -> None:
    Issuing(database, tmp_path).populate()
    clock = HandClock()
    trusting = BearerTokens(database, clock, ExternalIssuer(provider.url))

    def code_of(token: str) -> str | None:
        try:
            trusting.authenticate(token, request_id="r", peer_uid=None)
        except ApiError as refusal:
            return refusal.code
        return None

    signed_in = int(SIGN_IN_TIME.timestamp()) - 5
    assert code_of(provider.token()) is None
    execute(database, update(tables.sessions).values(ended_at=SIGN_IN_TIME + DAY))
    later = SIGN_IN_TIME + timedelta(days=100)
    clock.instant = later
    times = {"iat": int(later.timestamp()), "exp": int(later.timestamp()) + 600}
    refreshed = provider.token(**times, auth_time=signed_in)
    assert code_of(refreshed) == "AUTHENTICATION_REQUIRED"
    run(database, later)
    assert not stored(database, tables.sessions)
    assert code_of(refreshed) == "REAUTHENTICATION_REQUIRED"
    assert code_of(provider.token(**times, auth_time=int(later.timestamp()) - 5)) is None
