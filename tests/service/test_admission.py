"""Admission control: fair threads, the registry of connections, and the time of a request's head on a real socket."""

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import uvicorn
from anyio.to_thread import run_sync
from starlette.types import Receive, Scope, Send

from service.errors import ApiError
from service.http_server.admission import MAX_RESERVED_REQUESTS, MAX_RESERVED_REQUESTS_OF_NETWORK, Admission, Requests
from service.http_server.bodies import BodyMemory, IncomingBody, KnownAddresses
from service.http_server.client import client_of
from service.http_server.connections import LOCAL, Connections, Source, State
from service.http_server.fair_threads import FairThreads
from service.http_server.listener import Listener
from service.http_server.protocol import HttpProtocol
from service.http_server.request_metrics import FLOOD_REJECTIONS
from service.http_server.turns import Kind
from service.principal import Principal
from service.settings import MEBIBYTE, Limits
from tests.service.running import read_until_closed


async def test_a_client_with_many_requests_does_not_delay_another() -> None:
    """The second client is served while the first one waits with more requests than there are threads."""
    go_on = threading.Event()
    running: Counter[str] = Counter()

    def work(client: str) -> str:
        running[client] += 1
        if client == "flood":
            go_on.wait(60)
        return client

    async def ask(client: str) -> str:
        with client_of(client):
            return await run_sync(work, client)

    FairThreads(threads=4, per_client=3).install()
    flood = [asyncio.create_task(ask("flood")) for _ in range(50)]
    try:
        assert await asyncio.wait_for(ask("other"), 60) == "other"
        assert running["flood"] <= 3
    finally:
        go_on.set()
    assert await asyncio.gather(*flood) == ["flood"] * 50


async def test_a_request_that_is_cancelled_while_it_waits_takes_no_thread() -> None:
    go_on = threading.Event()
    FairThreads(threads=1, per_client=1).install()
    first = asyncio.create_task(run_sync(go_on.wait, 60))
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(run_sync(int)) for _ in range(3)]
    await asyncio.sleep(0.1)
    waiting[0].cancel()
    go_on.set()
    await first
    assert await asyncio.wait_for(asyncio.gather(*waiting[1:]), 60) == [0, 0]
    assert await asyncio.wait_for(run_sync(int), 60) == 0


class Idle:
    """A connection that notes whether it was closed."""

    closed = False

    def close_early(self) -> None:
        self.closed = True


def test_the_connection_that_is_idle_for_longest_is_closed_first() -> None:
    now = 0.0
    connections = Connections(Limits(max_connections=80, max_connections_per_address=2), lambda: now)
    one = Source("192.0.2.1")
    first, second, third = Idle(), Idle(), Idle()
    for connection in (first, second):
        assert connections.has_room_for(one)
        connections.add(connection, one)
    # Both are new: their requests may be on the way.
    assert not connections.has_room_for(one)
    now = 10.0
    connections.set_state(first, State.BUSY)
    assert connections.has_room_for(one)
    assert (first.closed, second.closed) == (False, True)
    connections.add(third, one)
    connections.set_state(third, State.BUSY)
    assert not connections.has_room_for(one)
    assert connections.has_room_for(Source("192.0.2.2"))


def test_connections_and_requests_keep_an_eighth_for_the_unix_socket() -> None:
    """A trusted proxy has only the total."""
    connections = Connections(Limits(max_connections=16, max_connections_per_address=2))
    requests = Requests(Limits(max_requests=16, max_requests_per_address=16))
    for source, address, other, accepted in ((Source(), "192.0.2.1", "192.0.2.2", 14), (LOCAL, None, None, 2)):
        for _ in range(accepted):
            assert connections.has_room_for(source)
            connections.add(connection := Idle(), source)
            connections.set_state(connection, State.BUSY)
            requests.enter(address)
        assert not connections.has_room_for(source)
        with pytest.raises(ApiError):
            requests.enter(other)


def test_unknown_addresses_known_addresses_and_the_socket_share_memory() -> None:
    memory = BodyMemory(Limits(max_body_mebibytes=64, max_body_mebibytes_per_address=64))
    for address, is_known, size, expected in (
        ("192.0.2.1", False, MEBIBYTE, 16),
        ("192.0.2.1", False, 1024, 16 * 1024),
        ("192.0.2.2", True, MEBIBYTE, 24),
        (None, True, MEBIBYTE, 8),
    ):
        bodies = []
        while (body := IncomingBody(memory, address, 0.0, is_known)).take(size):
            bodies.append(body)
        assert len(bodies) == expected
    # A body that grows becomes a large one and gives everything back.
    memory = BodyMemory(Limits(max_body_mebibytes=1))
    for _ in range(3):
        body = IncomingBody(memory, "192.0.2.1", 0.0, known=False)
        parts = list(iter(lambda body=body: body.take(4096), False))
        assert len(parts) == MEBIBYTE // 4 // 4096
        body.release()
        assert memory.total == 0


def test_an_address_is_known_for_a_while_after_an_accepted_credential() -> None:
    now = 0.0
    addresses = KnownAddresses(lambda: now)
    addresses.add("192.0.2.1")
    assert ("192.0.2.1" in addresses, "192.0.2.2" in addresses) == (True, False)
    now = 4_000.0
    assert "192.0.2.1" not in addresses


async def nothing(scope: object, receive: object, send: object) -> None:
    """An application without requests. Without its parameters, uvicorn would call it as a factory."""


def protocol_of(admission: Admission, app: Callable[..., Awaitable[None]] = nothing) -> HttpProtocol:
    config = uvicorn.Config(app, lifespan="off", log_config=None)
    config.load()
    protocol = HttpProtocol(config, uvicorn.server.ServerState(), {})
    protocol.admission = admission
    return protocol


async def test_a_connection_that_is_closed_before_it_is_used_is_not_served() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        protocol = protocol_of(Admission(Limits()))
        protocol.close_early()
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: protocol, ours)
        assert await asyncio.wait_for(loop.sock_recv(theirs, 1), 5) == b""


@pytest.mark.parametrize("flood", [False, True])
def test_in_a_flood_a_rejected_connection_is_not_read_for_a_while(flood: bool) -> None:
    admission = Admission(Limits())
    for _ in range(FLOOD_REJECTIONS + 1 if flood else 1):
        admission.rejections.record("requests")
    content = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"

    async def reject(scope: dict[str, object], receive: object, send: Callable[..., Awaitable[None]]) -> None:
        scope["frost.shed"] = True
        await send({"type": "http.response.start", "status": 503, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def scene() -> tuple[bool, bool]:
        ours, theirs = socket.socketpair()
        with theirs:
            for end in (ours, theirs):
                end.setblocking(False)
            protocol = protocol_of(admission, reject)
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: protocol, ours)
            await loop.sock_sendall(theirs, content)
            assert (await asyncio.wait_for(loop.sock_recv(theirs, 4096), 60)).startswith(b"HTTP/1.1 503 ")
            paused = protocol.flow.read_paused
            protocol._resume_after_flood()
            await loop.sock_sendall(theirs, content)
            again = await asyncio.wait_for(loop.sock_recv(theirs, 4096), 60)
            protocol.transport.close()
            return paused, again.startswith(b"HTTP/1.1 503 ")

    assert asyncio.run(scene()) == (flood, True)


async def test_a_connection_that_cannot_be_set_up_is_not_counted() -> None:
    admission, loop = Admission(Limits()), asyncio.get_running_loop()

    async def fail(*_: object) -> None:
        raise RuntimeError("no transport")

    listening = socket.create_server(("127.0.0.1", 0))
    listener = Listener(listening, lambda: protocol_of(admission), admission)
    loop.connect_accepted_socket = fail  # type: ignore[method-assign,assignment]
    loop.set_exception_handler(lambda *_: None)
    with listening, socket.create_connection(listening.getsockname()) as connection:
        connection.setblocking(False)
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(loop.sock_recv(connection, 1), 30) == b""
        assert len(admission.connections) == 0
        listener.close()


BOUND = 0.3
ADMISSION = Admission(Limits(header_seconds=BOUND))
LONG = 50 * BOUND
"""Enough for a busy machine; the slow head takes twice as long."""
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers `/slow` after twice the bound, everything else at once."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    if scope["path"] == "/slow":
        await asyncio.sleep(2 * BOUND)
    await send({"type": "http.response.body", "body": b"ok"})


class Bounded(HttpProtocol):
    """The protocol of a server with a short time for heads."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.admission = ADMISSION


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=Bounded, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    serving = threading.Thread(target=server.run, args=([listener],))
    serving.start()
    with socket.create_connection(listener.getsockname(), timeout=60) as connected:
        yield connected
    server.should_exit = True
    serving.join()


@pytest.mark.parametrize("sent", [b"", WHOLE[:-2]])
def test_half_a_head_is_dropped(connection: socket.socket, sent: bytes) -> None:
    began = time.monotonic()
    connection.sendall(sent)
    answer = read_until_closed(connection)
    assert BOUND / 2 < time.monotonic() - began < LONG
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"REQUEST_TIMEOUT"' in answer


@pytest.mark.parametrize(("first", "pieces"), [(b"", WHOLE * 10), (WHOLE, b"\r\n" * 150)], ids=["letters", "line ends"])
def test_a_piece_now_and_then_does_not_move_the_bound(connection: socket.socket, first: bytes, pieces: bytes) -> None:
    """Neither the letters of a head nor line ends between two requests."""
    began = time.monotonic()
    connection.sendall(first)

    def drip() -> None:
        for letter in pieces:
            connection.send(bytes([letter]))
            time.sleep(BOUND / 10)

    with pytest.raises(OSError):
        drip()
    assert time.monotonic() - began < LONG


def test_half_a_later_head_is_dropped_too_after_the_answer_under_way(connection: socket.socket) -> None:
    connection.sendall(WHOLE)
    assert connection.recv(4096).endswith(b"ok")
    # Being quiet between two requests is another thing, with a longer bound.
    time.sleep(2 * BOUND)
    connection.sendall(WHOLE.replace(b"/", b"/slow", 1) + WHOLE[:9])
    first, _, rest = read_until_closed(connection).partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200 ")
    assert rest.startswith(b"okHTTP/1.1 408 ")


PROXY = "192.0.2.9"


def scope_of(client: str, *, path: str = "/api/v1/me", forwarded: str = "", key: str = "") -> dict[str, Any]:
    headers = [(b"x-forwarded-for", forwarded.encode()), (b"x-api-key", key.encode())]
    return {
        "method": "GET",
        "client": (client, 1),
        "path": path,
        "headers": [header for header in headers if header[1]],
    }


def test_the_lane_behind_a_trusted_proxy_is_that_of_each_request() -> None:
    admission = Admission(Limits(), {PROXY})
    for forwarded, network in (
        ("198.51.100.7", "198.51.100.0"),
        ("203.0.113.7", "203.0.113.0"),
        ("2001:db8:0:7::1", "2001:db8:0:7::"),
        ("::ffff:203.0.113.9", "203.0.113.0"),
    ):
        assert admission.lane_of(scope_of(PROXY, forwarded=forwarded), pipelined=False) == (Kind.UNKNOWN, network)
    forged = scope_of("198.51.100.9", forwarded="203.0.113.7")
    assert admission.lane_of(forged, pipelined=True) == (Kind.UNKNOWN, "198.51.100.0")


def test_a_credential_has_the_lane_of_its_person_while_it_is_accepted() -> None:
    admission = Admission(Limits())
    for key in ("one", "two"):
        scope = scope_of("192.0.2.1", key=key)
        assert admission.lane_of(scope, pipelined=False).kind is Kind.UNKNOWN
        admission.record_accepted(scope, Principal("api_key", "request", user_id="ada", key_id=key))
    # From any address, and one lane for all of a person.
    for key in ("one", "two"):
        scope = scope_of("198.51.100.1", key=key)
        assert admission.lane_of(scope, pipelined=False) == (Kind.ACCEPTED, "ada")
        assert admission.lane_of(scope, pipelined=True) == (Kind.PIPELINED, "ada")
    admission.record_refused(scope)
    assert admission.lane_of(scope, pipelined=True) == (Kind.UNKNOWN, "198.51.100.0")
    # Without a valid credential, whatever it is.
    sign_in = scope_of("198.51.100.1", path="/api/v1/auth/cli-config", key="invented")
    assert admission.lane_of(sign_in, pipelined=False) == (Kind.RESERVED, ("198.51.100.0", False))
    assert admission.lane_of(sign_in | {"method": "PUT"}, pipelined=False).kind is Kind.UNKNOWN


def test_requests_without_an_accepted_credential_leave_room_for_others_and_for_sign_in() -> None:
    requests = Requests(Limits(max_requests=64, max_requests_per_address=64))
    for number in range(16):
        requests.enter(f"192.0.{number}.1", Kind.UNKNOWN)
    with pytest.raises(ApiError):
        requests.enter("198.51.100.1", Kind.UNKNOWN)
    accepted = [requests.enter(f"198.51.{number}.1") for number in range(40)]
    with pytest.raises(ApiError):
        requests.enter("198.51.100.1")
    sign_ins = [requests.enter("192.0.2.1", Kind.RESERVED) for _ in range(MAX_RESERVED_REQUESTS_OF_NETWORK)]
    # One network does not take the places of another.
    with pytest.raises(ApiError):
        requests.enter("192.0.2.2", Kind.RESERVED)
    sign_ins.append(requests.enter("203.0.113.1", Kind.RESERVED))
    for leave in (*accepted, *sign_ins):
        leave()
        leave()
    assert requests.total == 16
    requests.enter("198.51.100.1")


def test_requests_for_sign_in_of_one_network_beyond_its_share_leave_the_places_of_the_others() -> None:
    requests = Requests(Limits(max_requests=1_000, max_requests_per_address=1_000))
    for _ in range(2 * MAX_RESERVED_REQUESTS):
        requests.enter("192.0.2.1", Kind.RESERVED)
    for number in range(250 - 2 * MAX_RESERVED_REQUESTS + MAX_RESERVED_REQUESTS_OF_NETWORK):
        requests.enter(f"203.0.{number}.1", Kind.UNKNOWN)
    with pytest.raises(ApiError):
        requests.enter("192.0.2.1", Kind.RESERVED)
    requests.enter("198.51.100.1", Kind.RESERVED)
