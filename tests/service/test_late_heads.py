"""The time of a request's head is bounded, on a real socket."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from service.http_server.admission import Admission
from service.http_server.protocol import HttpProtocol
from service.settings import Limits
from tests.service.running import read_until_closed

BOUND = 0.3
ADMISSION = Admission(Limits(header_seconds=BOUND))
LONG = 50 * BOUND
"""What no machine is too busy for; the letters of the slow head would take twice as long."""
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
def address() -> Iterator[tuple[str, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=Bounded, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    serving = threading.Thread(target=server.run, args=([listener],))
    serving.start()
    yield listener.getsockname()
    server.should_exit = True
    serving.join()


@pytest.fixture
def connection(address: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=60) as connected:
        yield connected


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


def test_half_a_second_head_on_a_connection_is_dropped_too(connection: socket.socket) -> None:
    connection.sendall(WHOLE)
    assert connection.recv(4096).endswith(b"ok")
    # Being quiet between two requests is another thing, with a longer bound.
    time.sleep(2 * BOUND)
    connection.sendall(WHOLE[:9])
    assert read_until_closed(connection).startswith(b"HTTP/1.1 408 ")


def test_an_answer_under_way_is_never_cut_by_the_next_half_head(connection: socket.socket) -> None:
    connection.sendall(WHOLE.replace(b"/", b"/slow", 1) + WHOLE[:9])
    first, _, rest = read_until_closed(connection).partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200 ")
    assert rest.startswith(b"okHTTP/1.1 408 ")
