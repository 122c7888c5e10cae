"""The event stream: what it signals, and when it hangs up."""

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import delete, func, insert, select, text, update

from service.clock import FixedClock
from service.db.engine import Database
from service.db.tables import (
    api_keys,
    audit_log,
    membership_tenants,
    memberships,
    operations,
    organizations,
    policy_attachments,
    sessions,
    tenants,
    users,
    workload_identities,
    workload_tokens,
)
from service.jobs import event_stream as signals_module
from service.jobs import queries, routes
from service.jobs.event_stream import (
    MAX_PENDING,
    MAX_PER_PRINCIPAL,
    MAX_STREAMS,
    POLL_SECONDS,
    RESYNC,
    EventHub,
    Stream,
)
from service.principal import Principal
from tests.service.clusters import Cluster, Workload
from tests.service.live import EventReader, Live
from tests.service.planned import BEFORE, NOW, Planned, planned_on
from tests.service.running import (
    ADMIN,
    BOREALIS_OWNER,
    DATA_LAKE,
    MEMBER,
    NEWSROOM,
    OWNER,
    REGIONAL,
    STAGING,
    VIEWER,
    WEB_SHOP,
)

AT_ONCE = 10.0
"""Half a second is promised; the rest is what a busy machine may add, and still less than a stream lasts."""


@pytest.fixture
def platform(database_url: str) -> Iterator[Live]:
    with Live(database_url) as platform:
        yield platform


@pytest.fixture
def platform_database(platform: Live) -> Iterator[Database]:
    """The platform's own database, as another process sees it."""
    database = Database(platform.database_url)
    yield database
    database.close()


@pytest.mark.slow
def test_a_stream_says_resync_and_then_each_step_of_provisioning(database_url: str) -> None:
    # Slow enough for a look, four a second, at every step.
    with Live(database_url, pace=0.5) as platform:
        token = platform.owner()
        tenant = platform.create_tenant(token, "Telescope")
        reader = EventReader(platform, tenant["id"], token)
        assert reader.answer.status == 200
        assert reader.answer.headers["Content-Type"].startswith("text/event-stream")
        assert reader.answer.headers["Cache-Control"] == "no-cache"
        assert reader.next() == ("resync", {})
        told = reader.until("operation.completed")
        kinds = {event[1]["type"] for event in told}
        assert kinds <= {"operation.progress", "operation.completed", "tenant.updated"}
        assert "operation.progress" in kinds
        name, signal = told[-1]
        assert name == "resource"
        assert signal == {
            "id": str(UUID(signal["id"])),
            "type": "operation.completed",
            "resourceType": "tenant",
            "resourceId": tenant["id"],
            "status": "completed",
            "timestamp": signal["timestamp"],
        }
        assert tenant["runId"] not in json.dumps(told)
        assert tenant["operationId"] not in json.dumps(told)
        reader.close()


def test_renaming_a_tenant_is_signalled_to_it_and_to_no_other(platform: Live) -> None:
    token = platform.owner()
    readers = [EventReader(platform, tenant, token) for tenant in (DATA_LAKE, WEB_SHOP)]
    for reader in readers:
        assert reader.next() == ("resync", {})
    answer = platform.call("PATCH", f"/api/v1/tenants/{DATA_LAKE}", token, {"displayName": "Data Ocean"})
    assert answer.status == 200
    signal = readers[0].until("tenant.updated")[-1][1]
    assert (signal["resourceType"], signal["resourceId"], signal["status"]) == ("tenant", DATA_LAKE, "active")
    assert readers[1].events.empty()
    for reader in readers:
        reader.close()


def test_a_change_of_a_policy_is_signalled_to_its_tenant_and_to_no_other(platform: Live) -> None:
    token = platform.owner()
    readers = [EventReader(platform, tenant, token) for tenant in (DATA_LAKE, WEB_SHOP)]
    for reader in readers:
        assert reader.next() == ("resync", {})
    rule = {"name": "read", "access": "allow", "operations": ["compute:*:read"], "targets": ["*"]}
    body = {"name": "signalled", "document": {"schemaVersion": "1", "rules": [rule]}}
    refused = platform.call("POST", f"/api/v1/tenants/{DATA_LAKE}/iam/policies", token, {**body, "document": {}})
    assert refused.status == 400
    answer = platform.call("POST", f"/api/v1/tenants/{DATA_LAKE}/iam/policies", token, body)
    assert answer.status == 201
    [(name, signal)] = readers[0].until("policy.updated")
    assert name == "resource"
    assert (signal["resourceType"], signal["resourceId"], signal["status"]) == ("policy", "", "")
    group = platform.call("POST", f"/api/v1/tenants/{DATA_LAKE}/iam/groups", token, {"name": "signalled"})
    assert group.status == 201
    assert len(readers[0].until("group.updated")) == 1
    assert readers[1].events.empty()
    for reader in readers:
        reader.close()


def hangs_up(reader: EventReader, since: float) -> None:
    assert reader.next() is None
    assert time.monotonic() - since < AT_ONCE


def test_ending_a_session_ends_its_streams_and_no_others(platform: Live) -> None:
    ending, staying = platform.owner(), platform.owner()
    ended, kept = (EventReader(platform, WEB_SHOP, token) for token in (ending, staying))
    assert ended.next() == kept.next() == ("resync", {})
    assert platform.call("POST", "/api/v1/sessions/current/end", ending).status == 204
    hangs_up(ended, time.monotonic())
    assert kept.events.empty()
    kept.close()


def test_a_session_another_process_ended_loses_its_streams(platform: Live, platform_database: Database) -> None:
    token = platform.owner()
    reader = EventReader(platform, WEB_SHOP, token)
    assert reader.next() == ("resync", {})
    with platform_database.write() as connection:
        connection.execute(update(sessions).where(sessions.c.ended_at.is_(None)).values(ended_at=datetime.now(UTC)))
    hangs_up(reader, time.monotonic())


def test_revoking_an_api_key_ends_its_streams(platform: Live, platform_database: Database) -> None:
    reader = EventReader(platform, WEB_SHOP, key="tenant-reader")
    assert reader.next() == ("resync", {})
    with platform_database.write() as connection:
        connection.execute(
            update(api_keys).where(api_keys.c.name == "tenant-reader").values(revoked_at=datetime.now(UTC))
        )
    hangs_up(reader, time.monotonic())


@pytest.mark.parametrize("ended", ["issuer", "token", "grant"])
def test_a_workload_hears_nothing_more_when_what_it_was_given_has_ended(
    platform: Live, platform_database: Database, ended: str
) -> None:
    cluster = Cluster(platform)
    assert cluster.register().status == 200
    reader = EventReader(platform, WEB_SHOP, Workload(cluster, "media", "image-resizer").token)
    assert reader.next() == ("resync", {})
    if ended == "issuer":
        assert platform.ask("DELETE", cluster.path, as_=OWNER).status == 204
    else:
        with platform_database.write() as connection:
            if ended == "token":
                connection.execute(update(workload_tokens).values(expires_at=datetime.now(UTC)))
            else:
                connection.execute(update(workload_identities).values(scopes=[]))
                connection.execute(delete(policy_attachments))
    hangs_up(reader, time.monotonic())


@pytest.mark.slow
def test_a_person_who_is_gone_hears_nothing_more(platform: Live, platform_database: Database) -> None:
    token = platform.sign_in(MEMBER)
    reader = EventReader(platform, WEB_SHOP, token)
    assert reader.next() == ("resync", {})
    with platform_database.write() as connection:
        connection.execute(update(users).where(users.c.email == MEMBER).values(deleted_at=datetime.now(UTC)))
    hangs_up(reader, time.monotonic())


def test_who_may_no_longer_enter_a_tenant_hears_nothing_more_of_it(platform: Live, platform_database: Database) -> None:
    token = platform.sign_in(MEMBER)
    shop, staging = (EventReader(platform, tenant, token) for tenant in (WEB_SHOP, STAGING))
    by_key = EventReader(platform, WEB_SHOP, key="tenant-reader")
    assert shop.next() == staging.next() == by_key.next() == ("resync", {})
    # The member's membership is limited to named tenants.
    with platform_database.write() as connection:
        connection.execute(delete(membership_tenants).where(membership_tenants.c.tenant_id == WEB_SHOP))
    hangs_up(shop, time.monotonic())
    assert staging.events.empty()
    # A key reaches as far as who made it.
    with platform_database.write() as connection:
        connection.execute(delete(membership_tenants))
        connection.execute(delete(memberships))
    hangs_up(staging, time.monotonic())
    hangs_up(by_key, time.monotonic())


@pytest.mark.slow
def test_stopping_the_platform_ends_streams_instead_of_waiting_for_them(platform: Live) -> None:
    token = platform.owner()
    reader = EventReader(platform, WEB_SHOP, token)
    assert reader.next() == ("resync", {})
    began = time.monotonic()
    assert platform.stop() == 0
    assert time.monotonic() - began < 60
    assert reader.next() is None


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_streams_are_bounded_and_the_rest_of_the_platform_stays_quick(platform: Live) -> None:
    people = [OWNER, ADMIN, MEMBER, VIEWER, REGIONAL]
    tokens = [platform.sign_in(person) for person in people]
    readers = [EventReader(platform, WEB_SHOP, token) for token in tokens for _ in range(MAX_STREAMS // len(people))]
    assert len(readers) == MAX_STREAMS
    assert {reader.answer.status for reader in readers} == {200}
    token = platform.sign_in(BOREALIS_OWNER)
    displacing = EventReader(platform, NEWSROOM, token)
    assert displacing.answer.status == 200
    took = []
    for _ in range(20):
        began = time.monotonic()
        platform.read("/healthz")
        took.append(time.monotonic() - began)
    assert sorted(took)[10] < 1
    displacing.close()
    for reader in readers:
        reader.close()
    end = time.monotonic() + 60
    while (again := EventReader(platform, NEWSROOM, token)).answer.status != 200:
        assert time.monotonic() < end, "streams whose readers have gone still count"
        time.sleep(0.1)
    again.close()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_person_with_fewer_streams_ends_one_of_the_person_with_the_most(database_url: str) -> None:
    limited = Live(database_url)
    limited.variables["FROST_PLATFORM_MAX_EVENT_STREAMS"] = "3"
    with limited as platform:
        owner, member, viewer, admin = map(platform.sign_in, (OWNER, MEMBER, VIEWER, ADMIN))
        readers = [EventReader(platform, WEB_SHOP, owner) for _ in range(3)]
        assert [reader.next() for reader in readers] == [("resync", {})] * 3
        others = [EventReader(platform, WEB_SHOP, token) for token in (member, viewer)]
        assert [reader.next() for reader in others] == [("resync", {})] * 2
        assert [reader.next() for reader in readers[:2]] == [None, None], "the oldest streams end"
        for token in (owner, admin):
            refused = platform.call("GET", f"/api/v1/tenants/{WEB_SHOP}/events", token)
            assert (refused.status, refused.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
            assert 10 <= int(refused.headers["retry-after"]) <= 20
        assert 'frost_refused_total{limit="event_streams"} 2.0' in platform.get("/metrics").body.decode()
        for reader in (*readers, *others):
            reader.close()


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_one_person_cannot_take_all_the_streams(platform: Live) -> None:
    tokens = [platform.owner(), platform.owner()]
    readers = [EventReader(platform, WEB_SHOP, token) for token in tokens for _ in range(MAX_PER_PRINCIPAL // 2)]
    assert {reader.answer.status for reader in readers} == {200}
    refused = platform.call("GET", f"/api/v1/tenants/{DATA_LAKE}/events", platform.owner())
    error = refused.json()["error"]
    assert (refused.status, error["code"], error["details"]["limit"]) == (429, "rate_limited", MAX_PER_PRINCIPAL)
    assert refused.headers["retry-after"] == str(error["details"]["retryAfterSeconds"])
    other = EventReader(platform, WEB_SHOP, platform.sign_in(MEMBER))
    assert other.answer.status == 200
    for reader in (*readers, other):
        reader.close()


# Within one process, where the clock of the waiting can be made short.


@pytest.fixture
def planned(database: Database) -> Planned:
    return planned_on(database)


def caller(database: Database) -> Principal:
    """A member of every organization with a session that lasts."""
    with database.write() as connection:
        connection.execute(insert(users).values(id="u", email="owner@aurora.example", name="O", created_at=BEFORE))
        for organization_id in connection.scalars(select(organizations.c.id)).all():
            connection.execute(
                insert(memberships).values(
                    user_id="u", organization_id=organization_id, role="owner", created_at=BEFORE
                )
            )
        connection.execute(
            insert(sessions).values(
                id="s",
                issuer="i",
                subject="s",
                user_id="u",
                device="d",
                place="p",
                started_at=BEFORE,
                last_seen_at=BEFORE,
                expires_at=datetime(2030, 1, 1, tzinfo=UTC),
            )
        )
    return Principal(kind="session", request_id="r", user_id="u", session_id="s")


async def collected(signals: EventHub, stream: Stream, seconds: float) -> list[str]:
    return [told async for told in routes._events(signals, stream, seconds, keepalive_seconds=0.1)]


async def test_a_quiet_stream_is_kept_alive_and_ends_with_its_time(planned: Planned) -> None:
    signals = EventHub(planned.database, FixedClock(NOW))
    stream = signals.open(caller(planned.database), planned.tenant_id)
    began = time.monotonic()
    texts = await collected(signals, stream, 0.5)
    assert 0.4 < time.monotonic() - began < 60
    assert set(texts) == {RESYNC, ": keepalive\n\n"}
    assert texts.count(RESYNC) == 1
    assert len(texts) >= 3
    assert signals.open_streams == 0


async def test_a_session_that_runs_out_ends_its_streams(planned: Planned) -> None:
    who = caller(planned.database)
    with planned.database.write() as connection:
        connection.execute(update(sessions).values(expires_at=NOW))
    signals = EventHub(planned.database, FixedClock(NOW))
    assert await collected(signals, signals.open(who, planned.tenant_id), 5) == []


async def test_nothing_is_looked_at_while_no_stream_is_open(planned: Planned) -> None:
    signals = EventHub(planned.database, FixedClock(NOW))
    await collected(signals, signals.open(caller(planned.database), planned.tenant_id), 0.1)
    await asyncio.sleep(2 * POLL_SECONDS)
    assert [task for task in asyncio.all_tasks() if task.get_name() == "event-streams"] == []


@pytest.mark.slow
async def test_a_change_between_two_looks_is_never_missed(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that begins and ends before anybody looks again is told all the same."""
    for pause in ("POLL_SECONDS", "BUSY_POLL_SECONDS"):  # long enough for a busy machine
        monkeypatch.setattr(signals_module, pause, 3.0)
    signals = EventHub(planned.database, FixedClock(NOW))
    stream = signals.open(caller(planned.database), planned.tenant_id)
    assert await stream.next(5) == RESYNC
    await planned.provisioning.run(planned.run_id)
    told = await stream.next(10) or ""
    assert [data["type"] for data in signals_of(told)] == ["operation.completed", "tenant.updated"]
    signals.leave(stream)


def signals_of(told: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in told.splitlines() if line.startswith("data: ")]


def entry(tenant_id: str | None, operation: str, outcome: str = "done") -> dict[str, Any]:
    return {
        "at": NOW,
        "request_id": "r",
        "actor_kind": "session",
        "actor_id": "u",
        "tenant_id": tenant_id,
        "operation": operation,
        "target": "policy:p",
        "outcome": outcome,
        "details": {},
    }


def add(database: Database, rows: list[dict[str, Any]]) -> None:
    """Add entries to the end of the log."""
    with database.write() as connection:
        last = connection.scalar(select(func.max(audit_log.c.sequence))) or 0
        numbered = [{**row, "sequence": number} for number, row in enumerate(rows, last + 1)]
        connection.execute(insert(audit_log), numbered)


async def test_changes_of_one_kind_are_one_signal_and_refusals_are_none(planned: Planned) -> None:
    signals = EventHub(planned.database, FixedClock(NOW))
    stream = signals.open(caller(planned.database), planned.tenant_id)
    assert await stream.next(60) == RESYNC
    entries = [
        entry(planned.tenant_id, "group.create", "refused"),
        entry(None, "group.create"),
        entry(planned.tenant_id, "policy.update"),
        entry(planned.tenant_id, "policy.attach"),
        entry(planned.tenant_id, "tenant.rename"),
    ]
    add(planned.database, entries)
    told = await stream.next(60) or ""
    assert [(data["type"], data["resourceId"]) for data in signals_of(told)] == [("policy.updated", "")]
    signals.leave(stream)


async def test_a_change_that_commits_after_one_with_a_higher_id_is_signalled(planned: Planned) -> None:
    signals = EventHub(planned.database, FixedClock(NOW))
    add(planned.database, [{**entry(planned.tenant_id, "group.create"), "id": 1_000}])
    stream = signals.open(caller(planned.database), planned.tenant_id)
    assert await stream.next(60) == RESYNC
    add(planned.database, [{**entry(planned.tenant_id, "policy.update"), "id": 999}])
    told = await stream.next(60) or ""
    assert [data["type"] for data in signals_of(told)] == ["policy.updated"]
    signals.leave(stream)


async def test_more_changes_than_are_looked_at_tell_readers_to_read_everything(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_ENTRIES", 2)
    signals = EventHub(planned.database, FixedClock(NOW))
    add(planned.database, [entry(None, "session.start")])
    stream = signals.open(caller(planned.database), planned.tenant_id)
    assert await stream.next(60) == RESYNC
    add(planned.database, [entry(planned.tenant_id, "policy.update")] * 3)
    assert await stream.next(60) == RESYNC
    signals.leave(stream)


async def test_entries_that_change_nothing_of_the_tenant_do_not_count(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refusals, changes of other tenants and exchanged tokens made every reader read everything again."""
    monkeypatch.setattr(queries, "MAX_ENTRIES", 2)
    signals = EventHub(planned.database, FixedClock(NOW))
    stream = signals.open(caller(planned.database), planned.tenant_id)
    assert await stream.next(60) == RESYNC
    entries = [
        *[entry(planned.tenant_id, "policy.update", "refused")] * 5,
        *[entry(None, "session.start")] * 5,
        *[entry(planned.tenant_id, "workload_identity.exchange")] * 5,
        entry(planned.tenant_id, "group.create"),
    ]
    add(planned.database, entries)
    told = await stream.next(60) or ""
    assert [data["type"] for data in signals_of(told)] == ["group.updated"]
    signals.leave(stream)


async def test_a_reader_that_falls_behind_is_told_to_read_everything_again() -> None:
    stream = Stream("t", "u", "s", None)
    for number in range(MAX_PENDING + 1):
        stream.put(f"event: resource\ndata: {number}\n\n")
    assert await stream.next(1) == RESYNC


async def test_streams_outlive_a_database_that_cannot_be_read_for_a_moment(planned: Planned) -> None:
    signals = EventHub(planned.database, FixedClock(NOW))
    stream = signals.open(caller(planned.database), planned.tenant_id)
    assert await stream.next(5) == RESYNC
    with planned.database.write() as connection:
        connection.execute(text("ALTER TABLE sessions RENAME TO sessions_away"))
    await asyncio.sleep(3 * POLL_SECONDS)
    with planned.database.write() as connection:
        connection.execute(text("ALTER TABLE sessions_away RENAME TO sessions"))
        connection.execute(update(operations).values(seq=operations.c.seq + 1))
        connection.execute(update(tenants).values(display_name="Renamed"))
    told = await stream.next(5) or ""
    assert [data["type"] for data in signals_of(told)] == ["operation.progress", "tenant.updated"]
    signals.leave(stream)
