"""Responses: the bytes that uvicorn sends, in few writes, with the headers of the platform."""

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.api.middleware import add_headers, is_canonical_path, new_request_id
from service.http_server.joined_writes import MAX_PENDING_BYTES, JoinedWrites
from service.http_server.response_cycle import ResponseCycle
from service.settings import VERSION


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.writes.append(data)

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
    """Return the bytes that a cycle sends and its state, or its error."""
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
        return str(error), b"".join(transport.writes)
    state = cycle.response_started, cycle.response_complete, cycle.chunked_encoding, cycle.expected_content_length
    return b"".join(transport.writes), transport.closed, ended, cycle.keep_alive, state


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


LARGE = b"x" * (MAX_PENDING_BYTES + 1)


@pytest.mark.parametrize(
    ("steps", "sent"),
    [
        ((b"head", b"body"), [b"headbody"]),
        ((b"head", b"", b"body"), [b"head", b"body"]),
        ((b"head", b"body", b"head", b"body"), [b"headbody", b"headbody"]),
        ((b"head", None), [b"head"]),
        ((LARGE, b"x"), [LARGE, b"x"]),
        ((b"head", LARGE), [b"head" + LARGE]),
    ],
)
async def test_the_head_and_the_body_of_a_response_are_one_write(
    steps: tuple[bytes | None, ...], sent: list[bytes]
) -> None:
    """None closes the transport, and `b""` is the next iteration of the event loop."""
    transport = Transport()
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    for step in steps:
        if step is None:
            joined.close()
        elif step:
            joined.write(step)
        else:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert transport.writes == sent


@given(st.lists(st.sampled_from([b"a", b"..", b".", b"", b"%2e", b"%2f", b"x.y", b".x", b"\xff", b"a~b", b"a:b"])))
def test_a_plain_path_has_no_other_form(segments: list[bytes]) -> None:
    path = b"/" + b"/".join(segments)
    unclean = {b"", b".", b"..", b"%2e", b"%2f", b"\xff"}
    assert is_canonical_path(path) is (path == b"/" or not unclean.intersection(segments))


def test_a_request_id_is_a_random_uuid() -> None:
    ids = {new_request_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    variants = {(UUID(each).version, UUID(each).variant, str(UUID(each)) == each) for each in ids}
    assert variants == {(4, "specified in RFC 4122", True)}


def test_a_response_keeps_its_own_cache_control() -> None:
    headers = [(b"cache-control", b"public")]
    add_headers(headers, "some-id")
    assert dict(headers) == {
        b"cache-control": b"public",
        b"x-request-id": b"some-id",
        b"x-frost-version": VERSION.encode(),
        b"x-content-type-options": b"nosniff",
    }
