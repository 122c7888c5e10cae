"""Responses have the bytes that uvicorn sends."""

import asyncio
from typing import Any, cast

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.http_server.response_cycle import ResponseCycle


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def start(*headers: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(content: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": more}


async def send(
    kind: type[RequestResponseCycle], messages: list[dict[str, Any]], method: str, keep_alive: bool
) -> tuple[Any, ...]:
    """Return what a cycle sends, and its state; or its error."""
    transport, ended = Transport(), []
    cycle = kind(
        scope=cast("Any", {"type": "http", "method": method}),
        transport=transport,
        flow=FlowControl(transport),
        logger=cast("Any", None),
        access_logger=cast("Any", None),
        access_log=False,
        default_headers=[(b"date", b"today")],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: ended.append(True),
    )
    try:
        for message in messages:
            await cycle.send(cast("Any", message))
    except RuntimeError as error:
        return str(error), transport.sent
    state = cycle.response_started, cycle.response_complete, cycle.chunked_encoding, cycle.expected_content_length
    return transport.sent, transport.closed, ended, cycle.keep_alive, state


LENGTH = (b"content-length", b"2")


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "messages",
    [
        [start(LENGTH, (b"content-type", b"application/json")), body(b"{}")],
        [start((b"Content-Length", b"2"), (b"X-Mixed", b"value")), body(b"{}")],
        [start(LENGTH), body(b"{", more=True), body(b"}")],
        [start(LENGTH), body(b"{}", more=True), body(b"")],
        [start((b"content-type", b"text/event-stream")), body(b"a", more=True), body(b"b")],
        [start((b"transfer-encoding", b"chunked")), body(b"a")],
        [start(LENGTH, (b"connection", b"close")), body(b"{}")],
        [start(status=204), body(b"")],
        [start((b"content-length", b"0"), status=404), body(b"")],
        [start(LENGTH), body(b"{")],
        [start(LENGTH), body(b"{}}")],
        [start(LENGTH, (b"x-value", b"a\r\nset-cookie: b")), body(b"{}")],
        [start(LENGTH, (b"x-name\r\nset-cookie", b"a")), body(b"{}")],
        [start(LENGTH), start(LENGTH)],
        [start(LENGTH), body(b"{}"), body(b"")],
        [body(b"{}")],
    ],
)
async def test_a_response_is_that_of_uvicorn(messages: list[dict[str, Any]], method: str, keep_alive: bool) -> None:
    expected = await send(RequestResponseCycle, messages, method, keep_alive)
    # Twice, because names are checked once.
    for _ in range(2):
        assert await send(ResponseCycle, messages, method, keep_alive) == expected
