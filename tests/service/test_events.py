"""The event stream: its signals and its end."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Executable, delete, func, insert, select, text, update

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
from tests.service import factories
from tests.service.access import allow, document
from tests.service.clusters import Cluster, Workload
from tests.service.live import EventReader, Live
from tests.service.planned import BEFORE, NOW, Planned, planned_on, until
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


def listen(platform: Live, tenant: str, token: str = "", key: str = "") -> EventReader:
    """Open a stream and read its first event."""
    reader = EventReader(platform, tenant, token, key)
    assert reader.answer.status == 200
    assert reader.next() == ("resync", {})
    return reader


def close(*readers: EventReader) -> None:
    for reader in readers:
        reader.close()


@pytest.mark.slow
def test_a_stream_signals_each_step_of_provisioning(database_url: str) -> None:
    # Slow enough for a poll, four a second, at every step.
    with Live(database_url, pace=0.5) as platform:
        token = platform.owner()
        tenant = platform.create_tenant(token, "Telescope")
        reader = listen(platform, tenant["id"], token)
        assert reader.answer.headers["Content-Type"].startswith("text/event-stream")
        assert reader.answer.headers["Cache-Control"] == "no-cache"
        events = reader.until("operation.completed")
        kinds = {event[1]["type"] for event in events}
        assert kinds <= {"operation.progress", "operation.completed", "tenant.updated"}
        assert "operation.progress" in kinds
        name, signal = events[-1]
        assert name == "resource"
        assert signal == {
            "id": str(UUID(signal["id"])),
            "type": "operation.completed",
            "resourceType": "tenant",
            "resourceId": tenant["id"],
            "status": "completed",
            "timestamp": signal["timestamp"],
        }
        assert tenant["runId"] not in json.dumps(events)
        assert tenant["operationId"] not in json.dumps(events)
        close(reader)


def test_a_change_is_signalled_to_its_tenant_and_to_no_other(platform: Live) -> None:
    token, lake = platform.owner(), f"/api/v1/tenants/{DATA_LAKE}"
    own, other = (listen(platform, tenant, token) for tenant in (DATA_LAKE, WEB_SHOP))
    assert platform.call("PATCH", lake, token, {"displayName": "Data Ocean"}).status == 200
    signal = own.until("tenant.updated")[-1][1]
    assert (signal["resourceType"], signal["resourceId"], signal["status"]) == ("tenant", DATA_LAKE, "active")
    policy = {"name": "signalled", "document": document(allow("compute:*:read"))}
    assert platform.call("POST", f"{lake}/iam/policies", token, {**policy, "document": {}}).status == 400
    assert platform.call("POST", f"{lake}/iam/policies", token, policy).status == 201
    [(name, signal)] = own.until("policy.updated")
    assert name == "resource"
    assert (signal["resourceType"], signal["resourceId"], signal["status"]) == ("policy", "", "")
    assert platform.call("POST", f"{lake}/iam/groups", token, {"name": "signalled"}).status == 201
    assert len(own.until("group.updated")) == 1
    assert other.events.empty()
    close(own, other)


def assert_ended(reader: EventReader) -> None:
    assert reader.next(AT_ONCE) is None


def test_ending_a_session_ends_its_streams_and_no_others(platform: Live) -> None:
    ending, staying = platform.owner(), platform.owner()
    ended, kept = (listen(platform, WEB_SHOP, token) for token in (ending, staying))
    assert platform.call("POST", "/api/v1/sessions/current/end", ending).status == 204
    assert_ended(ended)
    assert kept.events.empty()
    close(kept)


AT = datetime(2026, 1, 1, tzinfo=UTC)
REVOCATIONS: dict[str, Executable] = {
    "session": update(sessions).where(sessions.c.ended_at.is_(None)).values(ended_at=AT),
    "key": update(api_keys).where(api_keys.c.name == "tenant-reader").values(revoked_at=AT),
    "account": update(users).where(users.c.email == MEMBER).values(deleted_at=AT),
}


@pytest.mark.parametrize("revoked", REVOCATIONS)
def test_a_revocation_by_another_process_ends_streams(
    platform: Live, platform_database: Database, revoked: str
) -> None:
    credential = {"key": "tenant-reader"} if revoked == "key" else {"token": platform.sign_in(MEMBER)}
    reader = listen(platform, WEB_SHOP, **credential)
    with platform_database.write() as connection:
        connection.execute(REVOCATIONS[revoked])
    assert_ended(reader)


@pytest.mark.parametrize("ended", ["issuer", "token", "grant"])
def test_the_streams_of_a_workload_end_with_its_access(platform: Live, platform_database: Database, ended: str) -> None:
    cluster = Cluster(platform)
    assert cluster.register().status == 200
    reader = listen(platform, WEB_SHOP, Workload(cluster, "media", "image-resizer").token)
    if ended == "issuer":
        assert platform.ask("DELETE", cluster.path, as_=OWNER).status == 204
    else:
        with platform_database.write() as connection:
            if ended == "token":
                connection.execute(update(workload_tokens).values(expires_at=datetime.now(UTC)))
            else:
                connection.execute(update(workload_identities).values(scopes=[]))
                connection.execute(delete(policy_attachments))
    assert_ended(reader)


def test_streams_of_a_tenant_end_with_the_membership(platform: Live, platform_database: Database) -> None:
    token = platform.sign_in(MEMBER)
    shop, staging = (listen(platform, tenant, token) for tenant in (WEB_SHOP, STAGING))
    by_key = listen(platform, WEB_SHOP, key="tenant-reader")
    # The member's membership is limited to named tenants.
    with platform_database.write() as connection:
        connection.execute(delete(membership_tenants).where(membership_tenants.c.tenant_id == WEB_SHOP))
    assert_ended(shop)
    assert staging.events.empty()
    # A key has at most the access of its creator.
    with platform_database.write() as connection:
        connection.execute(delete(membership_tenants))
        connection.execute(delete(memberships))
    assert_ended(staging)
    assert_ended(by_key)


@pytest.mark.slow
def test_stopping_the_platform_ends_streams(platform: Live) -> None:
    reader = listen(platform, WEB_SHOP, platform.owner())
    assert platform.stop() == 0
    assert reader.next() is None


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_closed_streams_no_longer_count_towards_the_limit(platform: Live) -> None:
    people = [OWNER, ADMIN, MEMBER, VIEWER, REGIONAL]
    tokens = [platform.sign_in(person) for person in people]
    readers = [EventReader(platform, WEB_SHOP, token) for token in tokens for _ in range(MAX_STREAMS // len(people))]
    assert len(readers) == MAX_STREAMS
    assert {reader.answer.status for reader in readers} == {200}
    token = platform.sign_in(BOREALIS_OWNER)
    displacing = EventReader(platform, NEWSROOM, token)
    assert displacing.answer.status == 200
    assert platform.read("/healthz")
    close(displacing, *readers)

    def has_room() -> bool:
        again = EventReader(platform, NEWSROOM, token)
        if again.answer.status == 200:
            close(again)
        return again.answer.status == 200

    until(has_room)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_new_stream_ends_one_of_the_person_with_the_most(database_url: str) -> None:
    limited = Live(database_url)
    limited.variables["FROST_PLATFORM_MAX_EVENT_STREAMS"] = "3"
    with limited as platform:
        owner, member, viewer, admin = map(platform.sign_in, (OWNER, MEMBER, VIEWER, ADMIN))
        readers = [listen(platform, WEB_SHOP, owner) for _ in range(3)]
        others = [listen(platform, WEB_SHOP, token) for token in (member, viewer)]
        assert [reader.next() for reader in readers[:2]] == [None, None], "the oldest streams end"
        for token in (owner, admin):
            refused = platform.call("GET", f"/api/v1/tenants/{WEB_SHOP}/events", token)
            assert (refused.status, refused.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
            assert 10 <= int(refused.headers["retry-after"]) <= 20
        assert 'frost_refused_total{limit="event_streams"} 2.0' in platform.get("/metrics").body.decode()
        close(*readers, *others)


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_streams_of_one_person_are_bounded(platform: Live) -> None:
    tokens = [platform.owner(), platform.owner()]
    readers = [listen(platform, WEB_SHOP, token) for token in tokens for _ in range(MAX_PER_PRINCIPAL // 2)]
    refused = platform.call("GET", f"/api/v1/tenants/{DATA_LAKE}/events", platform.owner())
    error = refused.json()["error"]
    assert (refused.status, error["code"], error["details"]["limit"]) == (429, "rate_limited", MAX_PER_PRINCIPAL)
    assert refused.headers["retry-after"] == str(error["details"]["retryAfterSeconds"])
    close(*readers, listen(platform, WEB_SHOP, platform.sign_in(MEMBER)))


# Within one process, where the clock of the waiting can be made short.


@pytest.fixture
def planned(database: Database) -> Planned:
    return planned_on(database)


def caller(database: Database) -> Principal:
    """A member of every organization with a session that lasts."""
    with database.write() as connection:
        factories.add(connection, {users: factories.user(at=BEFORE)})
        for organization_id in connection.scalars(select(organizations.c.id)).all():
            factories.add(connection, {memberships: factories.membership(BEFORE, organization_id=organization_id)})
        session = factories.session(at=BEFORE, expires_at=datetime(2030, 1, 1, tzinfo=UTC))
        factories.add(connection, {sessions: session})
    return Principal(kind="session", request_id="r", user_id="u", session_id="s")


@pytest.fixture
async def stream(planned: Planned) -> AsyncIterator[Stream]:
    """An open stream whose first event was read."""
    add(planned.database, [entry(None, "session.start")])
    signals = EventHub(planned.database, FixedClock(NOW))
    opened = signals.open(caller(planned.database), planned.tenant_id)
    assert await opened.next(60) == RESYNC
    yield opened
    signals.leave(opened)


async def next_types(stream: Stream) -> list[str]:
    """Return the types of the next signals."""
    text = await stream.next(60) or ""
    data = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    return [one["type"] for one in data]


async def collected(signals: EventHub, stream: Stream, seconds: float) -> list[str]:
    return [told async for told in routes._events(signals, stream, seconds, keepalive_seconds=0.1)]


async def test_a_quiet_stream_is_kept_alive_and_ends_with_its_time(planned: Planned) -> None:
    signals = EventHub(planned.database, FixedClock(NOW))
    stream = signals.open(caller(planned.database), planned.tenant_id)
    texts = await collected(signals, stream, 0.5)
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


async def test_nothing_is_polled_while_no_stream_is_open(planned: Planned) -> None:
    signals = EventHub(planned.database, FixedClock(NOW))
    await collected(signals, signals.open(caller(planned.database), planned.tenant_id), 0.1)
    await asyncio.sleep(2 * POLL_SECONDS)
    assert [task for task in asyncio.all_tasks() if task.get_name() == "event-streams"] == []


@pytest.mark.slow
async def test_an_operation_that_ends_between_two_polls_is_signalled(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pause in ("POLL_SECONDS", "BUSY_POLL_SECONDS"):  # long enough for a busy machine
        monkeypatch.setattr(signals_module, pause, 3.0)
    signals = EventHub(planned.database, FixedClock(NOW))
    opened = signals.open(caller(planned.database), planned.tenant_id)
    assert await opened.next(5) == RESYNC
    await planned.provisioning.run(planned.run_id)
    assert await next_types(opened) == ["operation.completed", "tenant.updated"]
    signals.leave(opened)


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


async def test_changes_of_one_kind_are_one_signal_and_refusals_are_none(planned: Planned, stream: Stream) -> None:
    entries = [
        entry(planned.tenant_id, "group.create", "refused"),
        entry(None, "group.create"),
        entry(planned.tenant_id, "policy.update"),
        entry(planned.tenant_id, "policy.attach"),
        entry(planned.tenant_id, "tenant.rename"),
    ]
    add(planned.database, entries)
    assert await next_types(stream) == ["policy.updated"]


async def test_a_change_that_commits_after_one_with_a_higher_id_is_signalled(planned: Planned, stream: Stream) -> None:
    for number, operation, signal in (
        (1_000, "group.create", "group.updated"),
        (999, "policy.update", "policy.updated"),
    ):
        add(planned.database, [{**entry(planned.tenant_id, operation), "id": number}])
        assert await next_types(stream) == [signal]


async def test_more_changes_than_a_poll_reads_are_a_resync(
    planned: Planned, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_ENTRIES", 2)
    add(planned.database, [entry(planned.tenant_id, "policy.update")] * 3)
    assert await stream.next(60) == RESYNC


async def test_entries_without_a_change_of_the_tenant_do_not_count(
    planned: Planned, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_ENTRIES", 2)
    entries = [
        *[entry(planned.tenant_id, "policy.update", "refused")] * 5,
        *[entry(None, "session.start")] * 5,
        *[entry(planned.tenant_id, "workload_identity.exchange")] * 5,
        entry(planned.tenant_id, "group.create"),
    ]
    add(planned.database, entries)
    assert await next_types(stream) == ["group.updated"]


async def test_a_reader_that_falls_behind_gets_a_resync() -> None:
    stream = Stream("t", "u", "s", None)
    for number in range(MAX_PENDING + 1):
        stream.put(f"event: resource\ndata: {number}\n\n")
    assert await stream.next(1) == RESYNC


async def test_a_stream_survives_a_failed_poll(planned: Planned, stream: Stream) -> None:
    with planned.database.write() as connection:
        connection.execute(text("ALTER TABLE sessions RENAME TO sessions_away"))
    await asyncio.sleep(3 * POLL_SECONDS)
    with planned.database.write() as connection:
        connection.execute(text("ALTER TABLE sessions_away RENAME TO sessions"))
        connection.execute(update(operations).values(seq=operations.c.seq + 1))
        connection.execute(update(tenants).values(display_name="Renamed"))
    assert await next_types(stream) == ["operation.progress", "tenant.updated"]
