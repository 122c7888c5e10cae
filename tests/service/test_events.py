"""The event stream: its signals and its end."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Executable, delete, func, insert, select, text, update

from service.clock import FixedClock
from service.db import tables
from service.db.engine import Database
from service.jobs import event_stream, routes
from service.jobs.event_stream import RESYNC, EventHub, Stream
from service.jobs.queries import MAX_ENTRIES
from service.principal import Principal
from tests.api import Answer
from tests.people import ADMIN, BOREALIS_OWNER, DATA_LAKE, MEMBER, NEWSROOM, OWNER, REGIONAL, STAGING, VIEWER, WEB_SHOP
from tests.service import factories
from tests.service.access import allow, code, details, document
from tests.service.clusters import Cluster, Workload
from tests.service.live import EventReader, Live
from tests.service.planned import BEFORE, NOW, Planned, planned_on
from tests.service.queries import execute
from tests.waiting import until

KEEPALIVE = ": keepalive\n\n"
AT_ONCE = 10.0
"""Half a second is promised; the rest allows for a busy machine and is less than the life of a stream."""


@pytest.fixture
def platform(world_url: str | None) -> Iterator[Live]:
    with Live(world_url) as platform:
        yield platform


def listen(platform: Live, tenant: str, token: str = "", key: str = "") -> EventReader:
    reader = EventReader(platform, tenant, token, key)
    assert reader.answer.status == 200
    assert reader.next() == ("resync", {})
    return reader


@pytest.mark.slow
def test_a_stream_signals_each_step_of_provisioning_and_ends_with_the_platform(world_url: str | None) -> None:
    # Slow enough for a poll, four a second, at every step.
    with Live(world_url, pace=0.5) as platform:
        token = platform.owner()
        tenant = platform.create_tenant(token, "Telescope")
        reader = listen(platform, tenant["id"], token)
        assert reader.answer.headers["Content-Type"].startswith("text/event-stream")
        assert reader.answer.headers["Cache-Control"] == "no-cache"
        events = reader.until("operation.completed")
        kinds = {event[1]["type"] for event in events}
        assert {"operation.progress"} <= kinds <= {"operation.progress", "operation.completed", "tenant.updated"}
        name, signal = events[-1]
        members = {"resourceType": "tenant", "resourceId": tenant["id"], "status": "completed"}
        changing = {"id": str(UUID(signal["id"])), "timestamp": signal["timestamp"]}
        assert (name, signal) == ("resource", {"type": "operation.completed"} | members | changing)
        assert tenant["runId"] not in json.dumps(events)
        assert tenant["operationId"] not in json.dumps(events)
        assert platform.stop() == 0
        reader.read_to_end()


def test_a_change_is_signalled_to_its_tenant_and_to_no_other(platform: Live) -> None:
    token, lake = platform.owner(), f"/api/v1/tenants/{DATA_LAKE}"
    own, other = (listen(platform, tenant, token) for tenant in (DATA_LAKE, WEB_SHOP))

    def next_signal(kind: str) -> tuple[str, ...]:
        [*_, (name, signal)] = events = own.until(kind)
        assert kind == "tenant.updated" or len(events) == 1
        return name, signal["resourceType"], signal["resourceId"], signal["status"]

    assert platform.request("PATCH", lake, token=token, body={"displayName": "Data Ocean"}).status == 200
    assert next_signal("tenant.updated") == ("resource", "tenant", DATA_LAKE, "active")
    policy = {"name": "signalled", "document": document(allow("compute:*:read"))}
    assert platform.request("POST", f"{lake}/iam/policies", token=token, body={**policy, "document": {}}).status == 400
    assert platform.request("POST", f"{lake}/iam/policies", token=token, body=policy).status == 201
    assert next_signal("policy.updated") == ("resource", "policy", "", "")
    assert platform.request("POST", f"{lake}/iam/groups", token=token, body={"name": "signalled"}).status == 201
    assert next_signal("group.updated") == ("resource", "group", "", "")
    assert other.events.empty()
    own.close()
    other.close()


Revoke = Callable[[str], Answer] | list[Executable]
AT = datetime(2026, 1, 1, tzinfo=UTC)
OF_WORKLOAD = [update(tables.workload_identities).values(scopes=[]), delete(tables.policy_attachments)]


def test_a_revocation_ends_streams_and_no_others(platform: Live, platform_database: Database) -> None:
    cluster, staying = Cluster(platform), listen(platform, WEB_SHOP, platform.owner())

    def workload() -> str:
        assert cluster.register().status == 200
        return Workload(cluster, "media", "image-resizer").token

    def member() -> str:
        return platform.sign_in(MEMBER)

    # Ended by this process, by its operator and by another process.
    revocations: list[tuple[Callable[[], str], Revoke]] = [
        (platform.owner, lambda token: platform.request("POST", "/api/v1/sessions/current/end", token=token)),
        (workload, lambda _: platform.ask("DELETE", cluster.path, as_=OWNER)),
        (workload, [update(tables.workload_tokens).values(expires_at=datetime.now(UTC))]),
        (workload, OF_WORKLOAD),
        (lambda: "", [update(tables.api_keys).where(tables.api_keys.c.name == "tenant-reader").values(revoked_at=AT)]),
        (member, [update(tables.users).where(tables.users.c.email == MEMBER).values(deleted_at=AT)]),
    ]
    for credential, revoke in revocations:
        token = credential()
        reader = listen(platform, WEB_SHOP, token, key="" if token else "tenant-reader")
        if callable(revoke):
            assert revoke(token).status == 204
        else:
            execute(platform_database, *revoke)
        assert reader.next(AT_ONCE) is None, revoke
    assert None not in staying.events.queue
    execute(platform_database, update(tables.sessions).where(tables.sessions.c.ended_at.is_(None)).values(ended_at=AT))
    staying.read_to_end(AT_ONCE)


def test_streams_of_a_tenant_end_with_the_membership(platform: Live, platform_database: Database) -> None:
    token = platform.sign_in(MEMBER)
    shop, staging = (listen(platform, tenant, token) for tenant in (WEB_SHOP, STAGING))
    by_key = listen(platform, WEB_SHOP, key="tenant-reader")
    # The member's membership is limited to named tenants.
    execute(
        platform_database, delete(tables.membership_tenants).where(tables.membership_tenants.c.tenant_id == WEB_SHOP)
    )
    assert shop.next(AT_ONCE) is None
    assert staging.events.empty()
    # A key has at most the access of its creator.
    execute(platform_database, delete(tables.membership_tenants), delete(tables.memberships))
    assert staging.next(AT_ONCE) is None
    assert by_key.next(AT_ONCE) is None


@pytest.mark.slow
@pytest.mark.parametrize("world_url", ["sqlite"], indirect=True)
def test_closed_streams_no_longer_count_towards_the_limits(platform: Live) -> None:
    people = [OWNER, ADMIN, MEMBER, VIEWER, REGIONAL]
    tokens = [platform.sign_in(person) for person in people]
    readers = [
        EventReader(platform, WEB_SHOP, token)
        for token in tokens
        for _ in range(event_stream.MAX_STREAMS // len(people))
    ]
    assert (len(readers), {reader.answer.status for reader in readers}) == (event_stream.MAX_STREAMS, {200})
    refused = platform.request("GET", f"/api/v1/tenants/{DATA_LAKE}/events", token=platform.owner())
    limited = details(refused)
    assert (*code(refused), limited["limit"]) == (429, "rate_limited", event_stream.MAX_PER_PRINCIPAL)
    assert refused.headers["retry-after"] == str(limited["retryAfterSeconds"])
    token = platform.sign_in(BOREALIS_OWNER)
    displacing = EventReader(platform, NEWSROOM, token)
    assert displacing.answer.status == 200
    assert platform.read("/healthz")
    for reader in (displacing, *readers):
        reader.close()
    until(lambda: EventReader(platform, NEWSROOM, token).answer.status == 200)


@pytest.mark.parametrize("world_url", ["sqlite"], indirect=True)
def test_a_new_stream_ends_one_of_the_person_with_the_most(world_url: str | None) -> None:
    limited = Live(world_url)
    limited.variables["FROST_PLATFORM_MAX_EVENT_STREAMS"] = "3"
    with limited as platform:
        owner, member, viewer, admin = map(platform.sign_in, (OWNER, MEMBER, VIEWER, ADMIN))
        readers = [listen(platform, WEB_SHOP, owner) for _ in range(3)]
        others = [listen(platform, WEB_SHOP, token) for token in (member, viewer)]
        assert [reader.next() for reader in readers[:2]] == [None, None], "the oldest streams end"
        for token in (owner, admin):
            refused = platform.request("GET", f"/api/v1/tenants/{WEB_SHOP}/events", token=token)
            assert code(refused) == (503, "SERVICE_UNAVAILABLE")
            assert 10 <= int(refused.headers["retry-after"]) <= 20
        assert 'frost_refused_total{limit="event_streams"} 2.0' in platform.get("/metrics").body.decode()
        for reader in (*readers, *others):
            reader.close()


# Within one process, where the clock of the waiting can be made short.


@pytest.fixture
def planned(database: Database) -> Planned:
    return planned_on(database)


def caller(database: Database) -> Principal:
    """A member of every organization with a session that lasts."""
    with database.write() as connection:
        factories.add(connection, {tables.users: factories.user(at=BEFORE)})
        for organization_id in connection.scalars(select(tables.organizations.c.id)).all():
            factories.add(
                connection, {tables.memberships: factories.membership(BEFORE, organization_id=organization_id)}
            )
        session = factories.session(at=BEFORE, expires_at=datetime(2030, 1, 1, tzinfo=UTC))
        factories.add(connection, {tables.sessions: session})
    return Principal(kind="session", request_id="r", user_id="u", session_id="s")


@pytest.fixture
def hub(planned: Planned) -> EventHub:
    return EventHub(planned.database, FixedClock(NOW))


@pytest.fixture
def opened(planned: Planned, hub: EventHub) -> Callable[[], Stream]:
    """Opens a stream of a tenant on the event loop."""
    principal = caller(planned.database)
    return lambda: hub.open(principal, planned.tenant_id)


@pytest.fixture
async def stream(planned: Planned, hub: EventHub, opened: Callable[[], Stream]) -> AsyncIterator[Stream]:
    """An open stream whose first event was read."""
    add(planned.database, entry(None, "session.start"))
    stream = opened()
    assert await stream.next(60) == RESYNC
    yield stream
    hub.leave(stream)


async def next_types(stream: Stream) -> list[str]:
    text = await stream.next(60) or ""
    data = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    return [one["type"] for one in data]


async def collect(hub: EventHub, stream: Stream, seconds: float) -> list[str]:
    return [text async for text in routes._events(hub, stream, seconds, keepalive_seconds=0.1)]


async def test_a_quiet_stream_is_kept_alive_and_ends_with_its_time_or_its_session(
    planned: Planned, hub: EventHub, opened: Callable[[], Stream]
) -> None:
    texts: list[str] = []
    for seconds in (0.5, 2, 8, 32):  # on a busy machine, the first poll may end after a short stream
        if RESYNC not in texts:
            texts = await collect(hub, opened(), seconds)
    assert set(texts) == {RESYNC, KEEPALIVE}
    assert texts.count(RESYNC) == 1
    assert len(texts) >= 3
    assert hub.open_streams == 0
    await asyncio.sleep(2 * event_stream.POLL_SECONDS)
    polling = [task for task in asyncio.all_tasks() if task.get_name() == "event-streams"]
    assert polling == [], "nothing is polled while no stream is open"
    execute(planned.database, update(tables.sessions).values(expires_at=NOW))
    # A poll may take longer than the pause between two keepalives.
    assert {*await collect(hub, opened(), 10)} <= {KEEPALIVE}


@pytest.mark.slow
async def test_an_operation_that_ends_between_two_polls_is_signalled(
    planned: Planned,
) -> None:
    # Long enough for a busy machine.
    hub = EventHub(planned.database, FixedClock(NOW), poll_seconds=3.0, busy_poll_seconds=3.0)
    stream = hub.open(caller(planned.database), planned.tenant_id)
    assert await stream.next(5) == RESYNC
    await planned.provisioning.run(planned.run_id)
    assert await next_types(stream) == ["operation.completed", "tenant.updated"]


def entry(tenant_id: str | None, operation: str, outcome: str = "done", **members: Any) -> dict[str, Any]:
    change = {"tenant_id": tenant_id, "operation": operation, "outcome": outcome}
    return factories.entry("policy:p", NOW, **change | members)


def add(database: Database, *rows: dict[str, Any]) -> None:
    with database.write() as connection:
        last = connection.scalar(select(func.max(tables.audit_log.c.sequence))) or 0
        numbered = [{**row, "sequence": number} for number, row in enumerate(rows, last + 1)]
        connection.execute(insert(tables.audit_log), numbered)


async def test_changes_of_one_kind_are_one_signal_and_refusals_are_none(planned: Planned, stream: Stream) -> None:
    database, tenant = planned.database, planned.tenant_id
    others = [entry(tenant, "group.create", "refused"), entry(None, "group.create")]
    changes = [entry(tenant, operation) for operation in ("policy.update", "policy.attach", "tenant.rename")]
    add(database, *others, *changes)
    assert await next_types(stream) == ["policy.updated"]
    # A change may commit after one with a higher id.
    add(database, entry(tenant, "group.create", id=1_000))
    assert await next_types(stream) == ["group.updated"]
    add(database, entry(tenant, "policy.update", id=999))
    assert await next_types(stream) == ["policy.updated"]


async def test_more_changes_of_the_tenant_than_are_read_or_sent_are_a_resync(planned: Planned, stream: Stream) -> None:
    tenant = planned.tenant_id
    others = [entry(tenant, "policy.update", "refused"), entry(None, "session.start")]
    others.append(entry(tenant, "workload_identity.exchange"))
    add(planned.database, *others * MAX_ENTRIES, entry(tenant, "group.create"))
    assert await next_types(stream) == ["group.updated"]
    add(planned.database, *[entry(tenant, "policy.update")] * (MAX_ENTRIES + 1))
    assert await stream.next(60) == RESYNC
    for number in range(event_stream.MAX_PENDING + 1):
        stream.put(f"event: resource\ndata: {number}\n\n")
    assert await stream.next(1) == RESYNC


async def test_a_stream_survives_a_failed_poll(planned: Planned, stream: Stream) -> None:
    execute(planned.database, text("ALTER TABLE sessions RENAME TO sessions_away"))
    await asyncio.sleep(3 * event_stream.POLL_SECONDS)
    renamed = update(tables.tenants).values(display_name="Renamed")
    back = text("ALTER TABLE sessions_away RENAME TO sessions")
    execute(planned.database, back, update(tables.operations).values(seq=tables.operations.c.seq + 1), renamed)
    assert await next_types(stream) == ["operation.progress", "tenant.updated"]
