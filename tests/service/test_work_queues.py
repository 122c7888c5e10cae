"""The queues of work by class and credential, without a server."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext, suppress

import pytest
from anyio.to_thread import run_sync
from starlette.requests import ClientDisconnect

from service.authz.route_policies import ROUTE_POLICIES
from service.errors import ApiError, Overloaded
from service.http_server.bodies import BodyMemory, IncomingBody
from service.http_server.client import client_of
from service.http_server.fair_threads import FairThreads
from service.http_server.request_metrics import ADVICE, FLOOD_REJECTIONS, Rejections
from service.http_server.work_queues import (
    MAX_RETRY_AFTER_SECONDS,
    MAX_STARTS,
    RUNNING,
    RUNNING_PER_CREDENTIAL,
    Bounds,
    Work,
    WorkQueue,
    WorkQueues,
    queue_key,
)
from service.principal import Principal
from service.settings import Limits


class Line:
    """A queue whose requests end when the test ends them."""

    def __init__(self, bounds: Bounds, **options: Callable[..., float]) -> None:
        self.rejections = Rejections()
        self.queue = WorkQueue("reads", bounds, self.rejections, **options)  # type: ignore[arg-type]
        self.started: list[str] = []
        self._ends: list[asyncio.Event] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def send(self, credential: str, number: int = 1) -> list[asyncio.Task[None]]:
        """Send requests, and return their tasks when each of them runs or waits."""
        tasks = [asyncio.create_task(self._request(credential)) for _ in range(number)]
        self.tasks += tasks
        await settle()
        return tasks

    async def end(self, number: int = 1) -> None:
        """End the requests that have run for longest."""
        for _ in range(number):
            self._ends.pop(0).set()
            await settle()

    async def end_all(self) -> None:
        while self._ends:
            await self.end()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        assert (self.queue.running, self.queue.waiting) == (0, 0)
        assert (self.queue._running, self.queue._waiting) == ({}, {})

    async def _request(self, credential: str) -> None:
        async with self.queue.slot(credential):
            self.started.append(credential)
            end = asyncio.Event()
            self._ends.append(end)
            await end.wait()


async def settle() -> None:
    """Run the event loop until nothing happens without the test."""
    for _ in range(10):
        await asyncio.sleep(0)


def bounds(running: int, per_credential: int, waiting: int = 1_000, waiting_per_credential: int = 500) -> Bounds:
    return Bounds(running, per_credential, waiting, waiting_per_credential, wait_seconds=600)


def refusal(task: asyncio.Task[None]) -> Overloaded:
    error = task.exception()
    assert isinstance(error, Overloaded), error
    assert error.status_code == 503
    return error


@pytest.mark.parametrize(
    ("running", "per_credential", "sent", "ended", "started"),
    [
        (4, 3, {"flood": 50, "other": 1}, 0, "flood flood flood other"),
        (2, 2, {"flood": 400, "other": 1}, 2, "flood flood flood other"),
        (1, 1, {"a": 30, "b": 3, "c": 3}, 9, "a a b c a b c a b c"),
        (3, 2, {"only": 5}, 0, "only only"),
        (3, 2, {"only": 5}, 1, "only only only"),
        (3, 2, {"only": 5}, 3, "only only only only only"),
    ],
    ids=["slots are left to others", "one turn of delay", "turns", "share", "no idle slot", "no idle slots"],
)
async def test_credentials_take_turns_within_their_share(
    running: int, per_credential: int, sent: dict[str, int], ended: int, started: str
) -> None:
    line = Line(bounds(running, per_credential))
    for credential, number in sent.items():
        await line.send(credential, number)
    await line.end(ended)
    assert line.started == started.split()
    await line.end_all()


async def test_beyond_its_waiting_places_a_credential_is_refused_and_others_wait() -> None:
    line = Line(bounds(running=1, per_credential=1, waiting=100, waiting_per_credential=3))
    scope: dict[str, object] = {}
    await line.send("flood", 4)
    with client_of("192.0.2.1", scope):
        refused, _ = await line.send("flood", 2)
    assert scope["frost.shed"] is True
    assert "too many of your requests are waiting (reads)" in refusal(refused).message
    (waiting,) = await line.send("other")
    assert not waiting.done()
    assert line.rejections.counts == {"reads": 2}
    await line.end_all()


async def test_a_full_queue_drops_a_request_of_the_largest_credential() -> None:
    line = Line(bounds(running=1, per_credential=1, waiting=6, waiting_per_credential=5))
    flood = await line.send("flood", 6)
    await line.send("second")
    (third,) = await line.send("third")
    assert not third.done()
    assert [task.done() for task in flood] == [False] * 5 + [True], "the newest has waited least"
    refusal(flood[5])
    assert line.queue.waiting == 6
    # The places are shared now: "flood" has 4, so it takes none of another one.
    refusal((await line.send("flood"))[0])
    await line.end_all()


async def test_if_all_have_the_same_share_a_newcomer_is_refused() -> None:
    line = Line(bounds(running=1, per_credential=1, waiting=3, waiting_per_credential=2))
    for credential in ("first", "a", "b", "c"):
        await line.send(credential)
    (newcomer,) = await line.send("d")
    assert "too many requests are waiting (reads)" in refusal(newcomer).message
    assert line.queue.waiting == 3
    await line.end_all()


async def test_a_request_that_waits_too_long_is_refused_and_takes_no_slot() -> None:
    line = Line(Bounds(1, 1, 10, 10, wait_seconds=0.01))
    _, late = await line.send("a", 2)
    await asyncio.wait([late], timeout=60)
    assert "waited for 0.01 seconds" in refusal(late).message
    assert line.started == ["a"]
    await line.end_all()


@pytest.mark.parametrize(("seconds", "lowest"), [(0.001, 1), (2.0, 4), (1_000.0, MAX_RETRY_AFTER_SECONDS / 2)])
@pytest.mark.parametrize("share", [0.0, 1.0])
async def test_retry_after_is_one_to_two_times_the_queue_time(seconds: float, lowest: float, share: float) -> None:
    now = 0.0
    line = Line(bounds(2, 2, 4, 4), clock=lambda: now, uniform=lambda low, high: low + share * (high - low))
    for _ in range(200):
        await line.send("a")
        now += seconds
        await line.end()
    await line.send("a", 6)
    (refused,) = await line.send("a")
    assert refusal(refused).headers == {"Retry-After": str(round(lowest * (1 + share)))}
    await line.end_all()


async def test_cancelled_and_disconnected_requests_leave_their_places() -> None:
    line = Line(bounds(running=1, per_credential=1))
    _, second, third = await line.send("a", 3)
    body = IncomingBody(BodyMemory(Limits()), None, 0.0)
    with client_of("192.0.2.1", {"frost.body": body}):
        (fourth,) = await line.send("a")
    second.cancel()
    body.abandon()
    await settle()
    assert isinstance(fourth.exception(), ClientDisconnect)
    assert body.on_disconnect is None
    assert line.queue.waiting == 1
    assert line.rejections.counts == {}
    await line.end()
    assert line.started == ["a", "a"]
    assert not third.done()
    await line.end_all()


async def test_a_request_that_is_cancelled_as_it_gets_a_slot_returns_it() -> None:
    line = Line(bounds(running=1, per_credential=1))
    first, second, third = await line.send("a", 3)
    line._ends.pop(0).set()
    while line.queue.waiting == 2:  # noqa: ASYNC110 - until the next iteration of the event loop
        await asyncio.sleep(0)
    # The slot is granted, and the task has not run since.
    assert line.started == ["a"]
    second.cancel()
    await settle()
    assert second.cancelled()
    assert line.started == ["a", "a"]
    assert first.done()
    assert not third.done()
    await line.end_all()


async def test_a_closed_queue_refuses_all_that_wait_and_lets_the_others_end() -> None:
    line = Line(bounds(running=1, per_credential=1))
    running, *waiting = await line.send("a", 4)
    line.queue.close()
    await settle()
    assert {refusal(task).message for task in waiting} == {"the platform is stopping"}
    refusal((await line.send("b"))[0])
    assert not running.done()
    await line.end_all()
    assert running.exception() is None


async def test_few_requests_start_in_an_iteration_of_the_event_loop() -> None:
    loop, iteration = asyncio.get_running_loop(), 0
    queue = WorkQueue("reads", bounds(6, 4), Rejections())
    starts: Counter[int] = Counter()

    def count() -> None:
        nonlocal iteration
        iteration += 1
        loop.call_soon(count)

    async def read(credential: int) -> None:
        async with queue.slot(credential):
            starts[iteration] += 1

    loop.call_soon(count)
    await asyncio.gather(*(read(number % 3) for number in range(900)))
    assert sum(starts.values()) == 900
    # A request may start an iteration after its slot was granted, so two grants can meet.
    assert max(starts.values()) <= 2 * MAX_STARTS
    assert len(starts) >= 900 / (2 * MAX_STARTS)


async def test_a_slot_has_a_thread_while_others_wait_for_one() -> None:
    FairThreads(threads=1, per_client=1).install()
    go_on = threading.Event()
    outside = [asyncio.create_task(run_sync(go_on.wait, 60)) for _ in range(3)]
    await settle()
    try:
        async with WorkQueue("reads", bounds(1, 1), Rejections()).slot("a"):
            assert await asyncio.wait_for(run_sync(int), 60) == 0
    finally:
        go_on.set()
    await asyncio.gather(*outside)
    assert await asyncio.wait_for(run_sync(int), 60) == 0


PERSON = Principal(kind="session", request_id="r", user_id="u", session_id="s")


@pytest.mark.parametrize("work", RUNNING)
async def test_the_classes_have_separate_slots(work: Work) -> None:
    limits = Limits(max_waiting_reads=0, max_waiting_writes=0, max_waiting_cpu_intensive=0, max_waiting_sign_ins=0)
    queues = WorkQueues(limits, Rejections())
    routes = {policy.work: policy for policy in ROUTE_POLICIES.values()}
    async with AsyncExitStack() as slots:
        for credential in range(RUNNING[work]):
            await slots.enter_async_context(queues.queues[work].slot(credential))
        for other, route in routes.items():
            with pytest.raises(Overloaded) if other is work else nullcontext():
                async with queues.slot(route, PERSON):
                    pass
    async with queues.slot(routes[work], PERSON):
        pass
    # No credential can take all slots or places of a class.
    assert RUNNING_PER_CREDENTIAL[work] < RUNNING[work]
    default = WorkQueues(Limits(), Rejections()).queues[work]._bounds
    assert default.waiting_per_credential <= default.waiting / 2


def test_a_route_has_its_class_by_method_or_policy() -> None:
    tenant = "/api/v1/tenants/{tenant_id}"
    for method, path, work in (
        ("GET", "/healthz", Work.HEALTH),
        ("GET", "/readyz", Work.HEALTH),
        ("GET", f"{tenant}/events", Work.EVENT_STREAM),
        ("GET", "/api/v1/me", Work.READ),
        ("POST", "/access/v1/evaluation", Work.READ),
        ("POST", "/access/v1/search/subject", Work.CPU_INTENSIVE),
        ("POST", f"{tenant}/iam/simulate", Work.CPU_INTENSIVE),
        ("POST", f"{tenant}/iam/policies", Work.CPU_INTENSIVE),
        ("POST", f"{tenant}/workload-identity/bindings", Work.CPU_INTENSIVE),
        ("PUT", f"{tenant}/workload-identity/bindings/{{binding_id}}", Work.CPU_INTENSIVE),
        ("DELETE", f"{tenant}/workload-identity/bindings/{{binding_id}}", Work.CPU_INTENSIVE),
        ("GET", f"{tenant}/workload-identity/bindings", Work.READ),
        ("POST", f"{tenant}/default-tags/preview", Work.CPU_INTENSIVE),
        ("PATCH", tenant, Work.WRITE),
        ("POST", "/api/v1/auth/workload-token", Work.SIGN_IN),
        ("POST", "/issuer/token", Work.SIGN_IN),
        ("DELETE", "/api/v1/me", Work.WRITE),
    ):
        assert ROUTE_POLICIES[method, path].work is work, path
    assert not [route for route, policy in ROUTE_POLICIES.items() if policy.audit_event and policy.work is Work.READ]


def test_clients_without_a_credential_queue_by_address() -> None:
    with client_of("192.0.2.1"):
        assert queue_key(Principal(kind="anonymous", request_id="r")) == "192.0.2.1"
        assert queue_key(PERSON) == "s"
        assert queue_key(Principal(kind="staff", request_id="r", peer_uid=7)) == "uid:7"


def test_the_log_names_the_class_and_what_to_do_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    rejections = Rejections(lambda: now)
    for _ in range(5):
        rejections.record("writes")
    now = 1.0
    rejections.record("connections")
    assert caplog.messages == [
        f"overloaded: {ADVICE['writes']}; refused since the start: writes 1",
        f"overloaded: {ADVICE['connections']}; refused since the start: connections 1, writes 5",
    ]
    # Rejections are a flood while they are many in a second.
    now = 10.0
    for _ in range(FLOOD_REJECTIONS):
        rejections.record("reads")
    assert not rejections.is_flood()
    rejections.record("reads")
    assert rejections.is_flood()
    now = 11.0
    assert not rejections.is_flood()


async def test_an_error_of_a_request_releases_its_slot() -> None:
    queue = WorkQueue("reads", bounds(1, 1), Rejections())
    for _ in range(3):
        with suppress(ApiError):
            async with queue.slot("a"):
                raise ApiError(400, "INVALID_INPUT", "no")
    assert queue.running == 0
