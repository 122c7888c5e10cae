"""Event streams are shared by tenant; a signal causes only the reads of the lists that it names.

The screens run on a real platform. A relay in front of its socket counts the requests and sends the signals.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from client.errors import Exit, FrostError
from client.models.default_tags import ApplyStarted
from client.models.tenants import Tenant
from client.transport.events import Listening, Signal
from tests.conftest import signed_in
from tests.homes import Home
from tests.people import DATA_LAKE, WEB_SHOP
from tests.tui.relay import EVENTS, Relay, settle, signal, start_apply
from tests.tui.screens import SIGNALS_ONLY, Ui, opened
from tests.tui.tasks import Tasks
from tui.state.event_stream import EventStreams
from tui.state.refresh import PROGRESS, TENANT, ReadAgain, Refresh, Update, lists_of

DENIED = FrostError("denied", code="X", exit_code=Exit.NOT_ALLOWED)


@pytest.fixture
def home(demo_platform: Path) -> Iterator[Home]:
    """A platform whose applies last as long as a test."""
    with signed_in(demo_platform, FROST_PLATFORM_APPLY_PACE="30") as home:
        yield home


@pytest.fixture
def relay(home: Home) -> Iterator[Relay]:
    relay = Relay(home)
    yield relay
    relay.close()


@pytest.fixture
async def ui(home: Home, relay: Relay, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ui]:
    async with opened(home, monkeypatch, limits=SIGNALS_ONLY) as ui:
        await ui.expect_head("Web Shop")
        yield ui


@pytest.mark.slow
async def test_followed_runs_share_one_stream_of_their_tenant(home: Home, relay: Relay, ui: Ui) -> None:
    await settle(ui, relay)
    run = await asyncio.to_thread(start_apply, home, WEB_SHOP)
    applies, provisioning = ui.app.workspace.applies, ui.app.workspace.provisioning
    applies.follow(WEB_SHOP, ApplyStarted(operation_id="", run_id=run).operation)
    tenant = ui.app.workspace.find(WEB_SHOP).wire()
    provisioning.noticed([Tenant.model_validate({**tenant, "status": "provisioning", "runId": run})])
    reads = f"/api/v1/tenants/{WEB_SHOP}/operations/{run}"
    await ui.until(lambda: relay.requests.count(reads) >= 2, "both reads of the run")
    assert (await anext(applies._watch(WEB_SHOP, run))).run_id == run
    await settle(ui, relay)
    assert relay.opened[EVENTS] == 1

    other = f"/api/v1/tenants/{DATA_LAKE}/events"
    run = await asyncio.to_thread(start_apply, home, DATA_LAKE)
    applies.follow(DATA_LAKE, ApplyStarted(operation_id="", run_id=run).operation)
    await ui.until(lambda: relay.open[other] == 1, "the stream of the other tenant")
    await ui.switch("Data Lake")
    assert (relay.open[other], relay.opened[other]) == (1, 1)
    ui.app.workspace.arrive(ui.app.workspace.connection, signed_out="signed out")
    await ui.until(lambda: relay.open.total() == 0, "the end of all streams")


@pytest.mark.slow
async def test_a_signal_causes_only_the_reads_of_what_it_names(relay: Relay, ui: Ui) -> None:
    await ui.policy("from the office")
    await settle(ui, relay)
    before = len(relay.requests)
    for resource_type in ("database", "instance", "volume", "bucket", "quota_request", "default_tags"):
        relay.signals.put(signal(resource_type))
    await settle(ui, relay)
    assert relay.requests[before:] == []
    policies = f"/api/v1/tenants/{WEB_SHOP}/iam/policies"
    for cause, path, most in ((signal("policy"), policies, 2), (signal("tenant"), "/api/v1/tenants", 9)):
        before = len(relay.requests)
        relay.signals.put(cause)
        await ui.until(lambda path=path, before=before: path in relay.requests[before:], f"{path} read again")
        await settle(ui, relay)
        reads = relay.requests[before:]
        assert (reads.count(path), len(reads) <= most) == (1, True), reads
    before = len(relay.requests)
    relay.signals.put(None)
    await ui.until(lambda: relay.opened[EVENTS] == 2, "the next stream")
    await settle(ui, relay)
    assert relay.requests[before:].count(policies) == 1
    await ui.switch("Data Lake")
    await ui.until(lambda: relay.open[EVENTS] == 0, "the end of the stream of the former tenant")


# --- without a platform ----------------------------------------------------------------------------------------------


class Sources(Tasks):
    """Streams that a test opens, feeds and ends."""

    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[str, asyncio.Queue[Signal | FrostError]] = {}
        self.open: Counter[str] = Counter()
        self.opened: Counter[str] = Counter()
        self.errors: list[FrostError] = []
        self.streams = EventStreams(self.read, self.spawn, self.errors.append)

    async def read(self, tenant_id: str, listening: Listening) -> AsyncIterator[Signal]:
        self.open[tenant_id] += 1
        self.opened[tenant_id] += 1
        listening(True)
        try:
            while True:
                event = await self.queues.setdefault(tenant_id, asyncio.Queue()).get()
                if isinstance(event, FrostError):
                    raise event
                yield event
        finally:
            self.open[tenant_id] -= 1

    async def send(self, tenant_id: str, *events: Signal | FrostError) -> None:
        for event in events:
            self.queues.setdefault(tenant_id, asyncio.Queue()).put_nowait(event)
        await turns()


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_subscriptions_share_a_stream_until_the_last() -> None:
    sources, first, second = Sources(), [], []
    one = sources.streams.subscribe("t", first.append)
    other = sources.streams.subscribe("t", second.append)
    await sources.send("t", Signal("resync"))
    assert (first, second, sources.opened["t"]) == ([Signal("resync")], [Signal("resync")], 1)
    sources.streams.unsubscribe(one)
    await sources.send("t", Signal("resync"))
    assert (len(first), len(second), sources.open["t"]) == (1, 2, 1)
    sources.streams.unsubscribe(other)
    sources.streams.unsubscribe(other)
    await turns()
    assert sources.open["t"] == 0


async def test_subscriptions_survive_an_error_of_the_stream() -> None:
    sources, states, late = Sources(), [], []
    sources.streams.subscribe("t", lambda _: None, states.append)
    await turns()
    sources.streams.subscribe("t", lambda _: None, late.append)
    assert (states, late) == ([True], [True])
    await sources.send("t", DENIED)
    assert (states, late, sources.errors) == ([True, False], [True, False], [DENIED])
    sources.streams.resume()
    await turns()
    assert (states[-1], late[-1], sources.opened["t"]) == (True, True, 2)


async def test_a_stopped_subscription_closes_no_later_stream() -> None:
    sources = Sources()
    former = sources.streams.subscribe("t", lambda _: None)
    await turns()
    sources.streams.stop()
    sources.streams.subscribe("t", lambda _: None)
    sources.streams.unsubscribe(former)
    await turns()
    assert sources.open["t"] == 1


async def test_a_reader_receives_signals_about_its_type_only() -> None:
    sources, signals = Sources(), []

    async def read() -> None:
        async for one in sources.streams.signals("t", ("tenant",), lambda _: None):
            signals.append(one.resource_type)  # noqa: PERF401 - read while the stream is open

    reader = asyncio.ensure_future(read())
    await turns()
    await sources.send("t", *(Signal("resource", "", kind) for kind in ("policy", "tenant", "")), Signal("resync"))
    assert signals == ["tenant", "", ""]
    reader.cancel()
    await turns()
    assert sources.open["t"] == 0


async def test_a_signal_requests_only_the_lists_of_its_type() -> None:
    sources, changed, loads = Sources(), list[Update](), list[None]()

    async def load() -> None:
        loads.append(None)

    async def pause(_: float) -> None:
        """Signals that are sent together count as one."""
        await turns()

    refresh = Refresh(sources.streams, sources.spawn, load, changed.append, lambda: True, pause)
    refresh.follow("t")
    await turns()
    for resource_type in ("policy", "group", "api_key", "quota_request", "volume", TENANT):
        changed.clear()
        await sources.send("t", Signal("resource", "changed", resource_type), Signal("resource", PROGRESS, "policy"))
        await turns()
        assert changed == [ReadAgain(name) for name in sorted(lists_of(resource_type))]
        assert len(loads) == (resource_type == TENANT)
    refresh.stop()
    await turns()
    assert sources.open["t"] == 0
