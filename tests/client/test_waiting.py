"""Waiting for an operation: signals, reading now and then, a platform out of reach."""

import asyncio
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from client import operations as client_operations
from client.errors import Exit, FrostError
from client.operations import Intervals
from client.transport.endpoint import Endpoint
from client.transport.events import Listening, Signal
from client.transport.exchange import Timing
from tests.client.wire import Answer, Context, Heard, Service, answer

RUNNING = {"operationId": "apply-default-tags-t", "runId": "r", "status": "running", "progress": 10}
AWAY = answer(503, {"error": {"code": "SERVICE_UNAVAILABLE", "message": "starting"}})
COMPLETED = {**RUNNING, "status": "completed", "progress": 100, "result": {"summary": {}}}


ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
QUICK = Intervals(coalesce=0.01)
HASTY = Timing(backoff=(0.0,))


def reader(*document: dict[str, Any]) -> tuple[client_operations.Read, list[float]]:
    """Reads one after the other, the last one for ever; and when each was read."""
    answers, times = list(document), []

    async def read() -> dict[str, Any]:
        times.append(time.monotonic())
        return answers.pop(0) if len(answers) > 1 else answers[0]

    return read, times


def signalling(*pauses: float, opened: bool = True) -> client_operations.Signals:
    """A stream that is open and gives a signal after each pause, then none any more."""

    async def signals(listening: Listening) -> AsyncIterator[Signal]:
        listening(opened)
        for pause in pauses:
            await asyncio.sleep(pause)
            yield Signal("resource")
        await asyncio.sleep(60)

    return signals


async def all_of(
    read: client_operations.Read, signals: client_operations.Signals, intervals: Intervals = QUICK
) -> list[str]:
    states = client_operations.readings(read, signals, client_operations.is_final, intervals=intervals)
    return [operation["status"] async for operation in states]


async def test_each_signal_causes_a_reading_until_it_is_over() -> None:
    read, _ = reader(RUNNING, RUNNING, COMPLETED)
    begun = time.monotonic()
    assert await all_of(read, signalling(0.05, 0.05)) == ["running", "running", "completed"]
    assert time.monotonic() - begun < QUICK.reread / 2


async def test_signals_that_come_together_cause_one_reading() -> None:
    read, times = reader(RUNNING, RUNNING, COMPLETED)
    together, read_again = asyncio.Event(), asyncio.Event()
    pauses: list[float] = []
    readings_before_the_last = 0

    async def signals(listening: Listening) -> AsyncIterator[Signal]:
        nonlocal readings_before_the_last
        listening(True)
        for _ in range(10):
            yield Signal("resource")
            await turns()
        together.set()
        await read_again.wait()
        await turns()
        readings_before_the_last = len(times)
        yield Signal("resource")
        await asyncio.Event().wait()

    async def pause(seconds: float) -> None:
        """The time in which signals count as one, which ends when all ten are there."""
        pauses.append(seconds)
        await together.wait()

    statuses = []
    async for operation in client_operations.readings(
        read, signals, client_operations.is_final, pause, intervals=QUICK
    ):
        statuses.append(operation["status"])
        if len(statuses) == 2:
            read_again.set()
    assert statuses == ["running", "running", "completed"]
    assert readings_before_the_last == 2
    assert pauses == [QUICK.coalesce] * 2


async def turns() -> None:
    """Run the event loop often enough for a read."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_reading_is_frequent_without_a_stream_and_rare_with_one() -> None:
    for opened, least, most in ((False, 0.0, 0.3), (True, 0.45, 3.0)):
        # The first pause is decided before the stream has had a chance to open.
        read, times = reader(RUNNING, RUNNING, COMPLETED)
        await all_of(read, signalling(opened=opened), QUICK._replace(poll=0.05, reread=0.5))
        assert least <= times[2] - times[1] <= most


async def test_a_stream_that_is_refused_for_good_leaves_reading() -> None:
    async def refused(listening: Listening) -> AsyncIterator[Signal]:
        raise FrostError("no", code="X", exit_code=Exit.NOT_ALLOWED)
        yield

    read, _ = reader(RUNNING, RUNNING, COMPLETED)
    assert await all_of(read, refused, QUICK._replace(poll=0.02)) == ["running", "running", "completed"]


async def test_leaving_ends_the_listening() -> None:
    ended = asyncio.Event()

    async def signals(listening: Listening) -> AsyncIterator[Signal]:
        try:
            await asyncio.sleep(60)
            yield Signal("resync")
        finally:
            ended.set()

    read, _ = reader(RUNNING)
    task = asyncio.create_task(all_of(read, signals))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


def served(*operations: Answer) -> Callable[[Heard], Iterable[bytes]]:
    """Streams are refused; the operation is the next of these, the last one for ever."""
    left = list(operations)

    def answering(heard: Heard) -> Iterable[bytes]:
        if heard.target.endswith("/events"):
            yield answer(404, {"error": {"code": "PATH_NOT_ROUTED", "message": "no route"}})
            return
        document = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(document, bytes):
            yield document

    return answering


def test_a_wait_survives_an_unreachable_platform_and_reports_it_once() -> None:
    intervals = QUICK._replace(poll=0.02)
    read: list[dict[str, Any]] = []
    lost: list[FrostError] = []
    with Service(served(answer(200, RUNNING), AWAY, AWAY, AWAY, AWAY, answer(200, COMPLETED))) as service:
        link = Context(service.endpoint)
        assert (
            client_operations.wait(link, "t", "r", read.append, lost=lost.append, intervals=intervals, timing=HASTY)
            == COMPLETED
        )
    assert (read[0]["status"], read[-1]["status"]) == ("running", "completed")
    assert lost
    assert {error.exit_code for error in lost} == {Exit.UNREACHABLE}
    assert all("/operations/r" in heard.target or heard.target.endswith("/events") for heard in service.heard)


def test_a_wait_ends_for_a_lost_platform_and_a_refusal() -> None:
    intervals = QUICK._replace(poll=0.02, lost=0.1)
    gone = answer(404, {"error": {"code": "NOT_FOUND", "message": "operation not found"}})
    for refusal, code in ((AWAY, Exit.UNREACHABLE), (gone, Exit.NOT_FOUND)):
        with Service(served(refusal)) as service, pytest.raises(FrostError) as caught:
            client_operations.wait(
                Context(service.endpoint), "t", "r", lambda one: None, intervals=intervals, timing=HASTY
            )
        assert caught.value.exit_code == code


def press_twice() -> None:
    """Send Ctrl-C twice."""
    for _ in range(2):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def wait_beside(hurry: threading.Thread, endpoint: Endpoint) -> None:
    """Wait during interruptions; the second one may come after the wait."""
    hurry.start()
    try:
        client_operations.wait(Context(endpoint), "t", "r", lambda one: None, intervals=QUICK)
    finally:
        hurry.join()


@pytest.fixture
def as_before() -> Iterator[None]:
    """Restore the handlers: those of a wait remain after an interruption."""
    former = {number: signal.getsignal(number) for number in ENDINGS}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.mark.slow
@pytest.mark.usefixtures("as_before")
def test_of_two_interruptions_at_once_the_first_ends_the_wait() -> None:
    former = signal.getsignal(signal.SIGINT)
    with Service(served(answer(200, RUNNING))) as service:
        for number in range(20):
            signal.signal(signal.SIGINT, former)
            hurry = threading.Timer(0.05 + number / 100, press_twice)
            with pytest.raises(KeyboardInterrupt):
                wait_beside(hurry, service.endpoint)


@pytest.mark.parametrize("within", [0.0, 0.02])
@pytest.mark.usefixtures("as_before")
def test_an_interruption_at_a_time_limit_is_an_interruption(within: float) -> None:
    """asyncio ends a timeout by cancellation, as an interruption does."""

    async def limited() -> dict[str, Any]:
        for _ in range(3):
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    try:
                        await asyncio.sleep(60)
                    except asyncio.CancelledError:
                        signal.raise_signal(signal.SIGINT)
                        raise
            await asyncio.sleep(0)
        return {}

    with pytest.raises(KeyboardInterrupt):
        client_operations._until_interrupted(limited())


@pytest.mark.usefixtures("as_before")
def test_an_interruption_does_not_wait_for_a_name_that_is_still_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake is a network without a name server."""
    answered = threading.Event()
    requested = threading.Event()

    def silent(*_: object, **__: object) -> list[object]:
        requested.set()
        answered.wait(60)
        return []

    monkeypatch.setattr("socket.getaddrinfo", silent)
    hurry = threading.Thread(target=lambda: (requested.wait(60), press_twice()))
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            wait_beside(hurry, Endpoint.parse("https://platform.example"))
        assert time.monotonic() - begun < 30  # the thread is still at it
    finally:
        answered.set()
