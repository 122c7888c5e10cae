"""The event stream as signals, over real sockets."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.api import platform
from client.errors import Exit, FrostError
from client.transport import events
from client.transport.async_client import AsyncClient
from client.transport.events import Signal, read
from client.transport.exchange import Timing
from tests.client.wire import Answer, Context, Heard, Service, answer, over, session

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
EVENT = (
    b"event: resource\n"
    b'data: {"id":"e","type":"tenant.active","resourceType":"tenant","resourceId":"t",'
    b'"status":"active","timestamp":"z"}\n\n'
)
SIGNAL = Signal("resource", "tenant.active", "tenant", "t", "active", "z")
RESYNC = Signal("resync")


async def first(
    link: Context, count: int, received: list[Signal] | None = None, timing: Timing = Timing()
) -> list[Signal]:
    """The first signals of tenant t-1, also put into `received` as they come. Pauses between streams are short."""
    received = [] if received is None else received
    async with AsyncClient(link, timing=timing) as client, asyncio.timeout(60):
        async for signal in events.signals(client, "t-1", reopen_seconds=0.02, longest_pause=0.05):
            received.append(signal)
            if len(received) == count:
                break
    return received


def open_stream(*pieces: bytes) -> Answer:
    """A stream that says this and stays open."""

    def answering(_: Heard) -> Iterable[bytes]:
        yield HEAD
        yield from pieces
        time.sleep(60)

    return answering


async def test_an_event_is_a_signal_as_soon_as_it_comes() -> None:
    with Service(open_stream(b": keepalive\n\n", EVENT)) as service:
        begun = time.monotonic()
        assert await first(Context(service.endpoint), 1) == [SIGNAL]
        assert time.monotonic() - begun < 30
    heard = service.heard[0]
    assert heard.target == "/api/v1/tenants/t-1/events"
    assert (heard.headers["accept"], heard.headers["cache-control"]) == ("text/event-stream", "no-cache")


async def test_an_ended_and_a_reopened_stream_each_give_a_resync() -> None:
    with Service(open_stream(EVENT)) as service:  # opening for the first time is no signal
        assert (await first(Context(service.endpoint), 1))[0].kind == "resource"
    with Service(HEAD + EVENT, open_stream(EVENT)) as service:
        assert await first(Context(service.endpoint), 4) == [SIGNAL, RESYNC, RESYNC, SIGNAL]
    assert len(service.heard) == 2


async def test_a_refused_stream_is_tried_again_without_a_signal() -> None:
    for refusal in (
        answer(404, {"error": {"code": "PATH_NOT_ROUTED", "message": "no route"}}),
        answer(426, {"error": {"code": "X", "message": "no"}}),
        answer(200, b"<html>", Content_Type="text/html"),
        answer(500, b""),
    ):
        with Service(refusal, refusal, open_stream(EVENT)) as service:
            assert await first(Context(service.endpoint), 2) == [RESYNC, SIGNAL]


async def test_the_end_of_the_session_and_of_the_access_end_the_signals() -> None:
    unauthenticated = answer(401, {"error": {"code": "AUTHENTICATION_REQUIRED", "message": "no"}})
    with Service(HEAD + EVENT, unauthenticated) as service:
        signals: list[Signal] = []
        with pytest.raises(FrostError) as caught:
            await first(Context(service.endpoint, session(), [over()]), 3, signals)
    assert signals == [SIGNAL, RESYNC]
    assert caught.value.exit_code == Exit.NOT_SIGNED_IN
    denied = answer(403, {"error": {"code": "TENANT_ACCESS_DENIED", "message": "tenant access denied"}})
    with Service(denied) as service, pytest.raises(FrostError) as caught:
        await first(Context(service.endpoint), 1)
    assert caught.value.exit_code == Exit.NOT_ALLOWED


async def test_a_stream_that_falls_silent_counts_as_ended() -> None:
    with Service(open_stream(EVENT)) as service:
        assert await first(Context(service.endpoint), 2, timing=Timing(silence=0.2)) == [SIGNAL, RESYNC]


async def test_a_stream_outlives_the_total_time_of_a_request() -> None:
    def late(_: Heard) -> Iterable[bytes]:
        yield HEAD
        time.sleep(0.5)
        yield EVENT

    with Service(late) as service:
        assert await first(Context(service.endpoint), 1, timing=Timing(total=0.2)) == [SIGNAL]


async def test_leaving_the_signals_hangs_up() -> None:
    hung_up = asyncio.Event()
    loop = asyncio.get_running_loop()

    def until_gone(_: Heard) -> Iterable[bytes]:
        yield HEAD
        try:
            while True:
                yield EVENT
                time.sleep(0.01)
        finally:
            loop.call_soon_threadsafe(hung_up.set)

    with Service(until_gone) as service:
        async with AsyncClient(Context(service.endpoint)) as client:
            signals = events.signals(client, "t-1")
            async for _ in signals:
                break
            await signals.aclose()  # type: ignore[attr-defined]
            async with asyncio.timeout(60):
                await hung_up.wait()


async def pieces_of(text: bytes, cuts: list[int]) -> AsyncIterator[bytes]:
    at = 0
    for end in [*sorted(cuts), len(text)]:
        if end > at:
            yield text[at:end]
            at = end


@given(st.lists(st.integers(0, len(EVENT) * 3 + 60)), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_however_the_bytes_are_parted_the_signals_are_the_same(cuts: list[int], ending: bytes) -> None:
    text = (b": keepalive\n\n" + EVENT + b"event: other\ndata: x\n\nevent: resync\ndata: {}\n\n" + EVENT).replace(
        b"\n", ending
    )

    async def collected() -> list[Signal]:
        # a lone CR may be half of CRLF: the last event is only certain with the byte that follows
        return [signal async for signal in read(pieces_of(text + b": end" + ending, cuts))]

    assert asyncio.run(collected()) == [SIGNAL, RESYNC, SIGNAL]


async def test_an_event_is_read_as() -> None:
    for text, expected in (
        (b"event: resource\ndata: not json\n\n", [RESYNC]),
        (b"event: resource\ndata: [1]\n\n", [RESYNC]),
        (b'event: resource\ndata: {"type": 7}\n\n', [Signal("resource")]),
        (b'event: resource\ndata: {"type":\ndata: "x"}\n\n', [Signal("resource", "x")]),
        (b'data: {"type": "x"}\n\n', []),
        (b"event: resync\n\n", [RESYNC]),
        (b"event: resource\ndata: " + b"a" * 100_000, []),
        (b"event: resource\n" + b"data: aaaaaaaaaaaaaaa\n" * 10_000 + b"\n", []),
    ):
        cuts = list(range(0, len(text), 4096))
        assert [signal async for signal in read(pieces_of(text, cuts))] == expected, text[:40]


@pytest.mark.parametrize("kind", ["request", "stream"])
async def test_cancelled_work_leaves_every_connection_free(kind: str) -> None:
    """Each request or stream ends the one before, at any moment."""
    with Service(answer(200, [])) as service:
        async with AsyncClient(Context(service.endpoint)) as client, asyncio.timeout(60):
            for moment in range(400):
                waiting = client.ask(platform.status()) if kind == "request" else anext(events.signals(client, "t"))
                asking = asyncio.ensure_future(waiting)
                await asyncio.sleep(moment % 40 / 10_000)
                asking.cancel()
                with contextlib.suppress(asyncio.CancelledError, FrostError):
                    await asking
            with pytest.raises(FrostError) as caught:  # the answer is malformed, but it arrives
                await client.ask(platform.status())
            assert caught.value.exit_code is not Exit.UNREACHABLE
