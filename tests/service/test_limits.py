"""The limits of the HTTP server. Each test has addresses of its own (127.0.0.x)."""

import itertools
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from http.client import HTTPResponse

import pytest

from service.http_server.protocol import MAX_TRAILER_BYTES
from tests.api import Answer
from tests.people import AURORA, OWNER, WEB_SHOP
from tests.service.held import changes_held
from tests.service.running import Running, read_until_closed, tcp_address
from tests.waiting import until

PROXY = "127.0.0.99"
PER_ADDRESS = 4
LIMITS = {
    "FROST_PLATFORM_MAX_CONNECTIONS_PER_ADDRESS": str(PER_ADDRESS),
    "FROST_PLATFORM_MAX_REQUESTS_PER_ADDRESS": "2",
    "FROST_PLATFORM_MAX_BODY_MEBIBYTES": "16",
    "FROST_PLATFORM_MAX_BODY_MEBIBYTES_PER_ADDRESS": "1",
    "FROST_PLATFORM_BODY_SECONDS": "2",
    "FROST_PLATFORM_BODY_BYTES_PER_SECOND": "1",
    "FROST_PLATFORM_PROXIES": PROXY,
}
NOWHERE = "/api/v1/nowhere"
"""Answered 404 once the whole body is there."""
JSON = "Content-Type: application/json\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
CONFIG = b"GET /.well-known/authzen-configuration HTTP/1.1\r\nHost: x\r\n\r\n"
NOTHING = b"GET /api/v1/nowhere HTTP/1.1\r\nHost: x\r\n\r\n"
_addresses = (f"127.0.{1 + number // 250}.{1 + number % 250}" for number in itertools.count())


@pytest.fixture(scope="module")
def limited() -> Iterator[Running]:
    with Running(None, "demo", "--listen", "127.0.0.1:0", **LIMITS) as running:
        yield running


@pytest.fixture
def address() -> str:
    return next(_addresses)


@pytest.fixture
def connect(limited: Running) -> Iterator[Callable[[str], socket.socket]]:
    """Connect from an address; every connection is closed at the end."""
    to = tcp_address(limited)
    with ExitStack() as stack:
        yield lambda source: stack.enter_context(socket.create_connection(to, timeout=60, source_address=(source, 0)))


Connect = Callable[[str], socket.socket]


def head(length: int, path: str = NOWHERE, more: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{JSON}{more}Content-Length: {length}\r\n\r\n".encode()


def answer(connection: socket.socket) -> Answer:
    """The first answer, read to its end."""
    response = HTTPResponse(connection)
    response.begin()
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


def status(connection: socket.socket, request: bytes) -> int:
    connection.sendall(request)
    return answer(connection).status


def send_repeatedly(connection: socket.socket, piece: bytes, times: int, pause_seconds: float) -> None:
    for _ in range(times):
        connection.sendall(piece)
        time.sleep(pause_seconds)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["/api/v1/auth/workload-token", f"/api/v1/tenants/{WEB_SHOP}", "/access/v1/evaluation", "/nowhere"]
)
def test_a_body_that_does_not_arrive_is_refused(connect: Connect, address: str, path: str) -> None:
    connection = connect(address)
    connection.sendall(head(100, path) + b"{")
    received = read_until_closed(connection)
    assert received.startswith(b"HTTP/1.1 408 "), received
    assert b"connection: close" in received.lower()
    unread = connect(address)
    unread.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert read_until_closed(unread).count(b"HTTP/1.1 ") == 1
    assert unread.recv(1) == b""


@pytest.mark.slow
def test_a_body_in_small_pieces_does_not_move_the_time(connect: Connect, address: str) -> None:
    connection = connect(address)
    connection.sendall(head(100_000))
    # Each piece comes within the time of a body, but all of them come below the minimum rate.
    with pytest.raises(OSError):
        send_repeatedly(connection, b" ", 60, 2)


def test_a_body_at_the_minimum_rate_is_read_to_its_end(connect: Connect, address: str) -> None:
    connection = connect(address)
    connection.sendall(head(200) + b" " * 198)
    time.sleep(2.5)  # Longer than the time of a small body, but shorter than that of 198 bytes at a byte a second.
    assert status(connection, b"{}") == 404


def test_trailers_are_no_headers_and_too_many_pipelined_requests_are_refused(
    connect: Connect, limited: Running, address: str
) -> None:
    request = "GET /api/v1/me HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-API-Key: {}\r\n\r\n"
    assert status(connect(address), request.format(limited.key("terraform")).encode()) == 401
    pipelined = connect(address)
    pipelined.sendall(HEALTH * 2_000)
    assert b"HTTP/1.1 400 " in read_until_closed(pipelined)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("line", [b"X-Trailer: " + b"a" * 1_000 + b"\r\n", b"a" * 1_011, b""])
def test_trailers_are_bounded(connect: Connect, address: str, method: str, line: bytes) -> None:
    """Many of them, one that does not end, and an extension of a chunk that does not end."""
    connection = connect(address)
    path = "/healthz" if method == "GET" else NOWHERE
    begin = f"{method} {path} HTTP/1.1\r\nHost: x\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n".encode()
    connection.sendall(begin + (b"0\r\n" if line else b"1;extension="))
    with pytest.raises(OSError):
        send_repeatedly(connection, line or b"a" * 1_000, 64 * MAX_TRAILER_BYTES // 1_000, 0.002)


@pytest.mark.parametrize(
    "request_head",
    [
        *(b"GET /healthz HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n"),
        *(b"GET /healthz HTTP/1.1\r\nHost: a\r\nhost: a\r\n", b"GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n"),
        *(b"GET /healthz HTTP/0.9\r\nHost: a\r\n", b"GET /healthz HTTP/2.0\r\nHost: a\r\n"),
        *(b"GET /healthz\r\n", b"GET /healthz\r\nHost: a\r\n"),
    ],
)
def test_a_head_without_host_or_version_is_refused(connect: Connect, address: str, request_head: bytes) -> None:
    connection = connect(address)
    connection.sendall(request_head + b"\r\n")
    received = read_until_closed(connection)
    assert received.startswith(b"HTTP/1.1 400 "), received
    assert b'"INVALID_REQUEST"' in received
    assert status(connect(address), b"GET /healthz HTTP/1.0\r\n\r\n") == 200, "HTTP/1.0 needs no host"


def test_a_body_with_a_content_coding_is_refused(connect: Connect, address: str) -> None:
    for path, coding, expected in (
        *((NOWHERE, "gzip", 415), (NOWHERE, "identity, br", 415), (NOWHERE, "Identity", 404)),
        ("/access/v1/evaluation", "gzip", 400),
    ):
        request = head(2, path, f"Content-Encoding: {coding}\r\n") + b"{}"
        assert status(connect(address), request) == expected, (path, coding)


def test_bodies_of_an_address_are_bounded_in_sum(connect: Connect) -> None:
    first, other = next(_addresses), next(_addresses)
    held, second = connect(first), connect(first)
    for connection in (held, second):
        connection.sendall(head(900_000) + b" " * 700_000)
    refused = answer(second)
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert status(connect(other), head(700_000) + b" " * 700_000) == 404
    held.close()
    until(lambda: status(connect(first), head(700_000) + b" " * 700_000) == 404)


def refusals(limited: Running) -> list[float]:
    """Return how many bodies were refused for their memory, and how many for their time."""
    metrics = limited.get("/metrics").body.decode()
    patterns = (rf'^frost_refused_total{{limit="{limit}"}} (.*)$' for limit in ("bodies", "late_bodies"))
    return [float(re.findall(pattern, metrics, re.M)[0]) for pattern in patterns]


@pytest.mark.slow
def test_bodies_of_strangers_leave_memory_for_known_clients_and_are_counted(connect: Connect, limited: Running) -> None:
    known, large, before = next(_addresses), b" " * 700_000, refusals(limited)
    asks_me = f"GET /api/v1/me HTTP/1.1\r\nHost: x\r\nX-API-Key: {limited.key('terraform')}\r\n\r\n".encode()
    assert status(connect(known), asks_me) == 200

    def is_full() -> bool:
        """Hold one more body that does not end, from another address; return whether a further one is refused."""
        with suppress(OSError):  # refused already: the connection is closed
            connect(next(_addresses)).sendall(head(1_000_000) + b" " * 950_000)
        return status(connect(next(_addresses)), head(700_000) + large) == 503

    until(is_full)
    renamed = limited.ask("PATCH", f"/api/v1/tenants/{WEB_SHOP}", as_=OWNER, body={"displayName": "Web shop"})
    assert renamed.status == 200
    assert limited.request("POST", NOWHERE, {"Content-Type": "application/json"}, large).status == 404
    assert status(connect(known), head(len(large)) + large) == 404
    # A small body of a new address is still read: it may be a sign-in.
    assert status(connect(next(_addresses)), head(2) + b"{}") == 404
    assert status(connect(next(_addresses)), head(100) + b"{") == 408
    assert all(later > earlier for later, earlier in zip(refusals(limited), before, strict=True))
    assert re.search(r"refused since the start: [^\n]*bodies \d", limited.log)


def test_behind_a_proxy_bodies_count_for_the_forwarded_address(connect: Connect) -> None:
    def held(client: str) -> socket.socket:
        connection = connect(PROXY)
        connection.sendall(head(900_000, more=f"X-Forwarded-For: {client}\r\n") + b" " * 700_000)
        return connection

    held("192.0.2.1")
    assert answer(held("192.0.2.1")).status == 503
    complete = held("192.0.2.2")
    complete.sendall(b" " * 200_000)
    assert answer(complete).status == 404


def test_an_address_has_so_many_connections_and_only_health_and_sign_in_beyond_them(
    connect: Connect, limited: Running, address: str
) -> None:
    busy = [connect(address) for _ in range(PER_ADDRESS)]
    for connection in busy:
        # The minimum rate leaves more than a minute for the last byte.
        connection.sendall(head(101) + b" " * 100)
    until(lambda: status(connect(address), NOTHING) == 503)
    refused, both = connect(address), connect(address)
    refused.sendall(NOTHING)
    received = read_until_closed(refused)
    assert received.startswith(b"HTTP/1.1 503 "), received
    assert all(line in received for line in (b"retry-after: 1", b"x-request-id: ", b"x-frost-version: "))
    # Nothing of the request was left unread: that would have reset the connection.
    assert refused.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    assert json.loads(received.partition(b"\r\n\r\n")[2])["error"]["code"] == "SERVICE_UNAVAILABLE"
    assert status(connect(address), HEALTH) == 200
    assert status(connect(address), HEALTH.replace(b"healthz", b"readyz")) == 200
    assert status(connect(address), CONFIG) == 200
    assert status(connect(address), head(2, "/api/v1/auth/workload-token") + b"{}") == 415
    both.sendall(HEALTH + NOTHING)
    received = read_until_closed(both)
    assert received.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 503 "))
    assert b"HTTP/1.1 404 " not in received
    other = connect(next(_addresses))
    other.sendall(CONFIG)
    host, port = tcp_address(limited)
    assert answer(other).json()["policy_decision_point"] == f"http://{host}:{port}"
    for connection in busy:
        assert status(connection, b" ") == 404


@pytest.mark.parametrize("late_body", [b"", b"{}"], ids=["no body", "a body after the answer"])
def test_idle_connections_of_an_address_are_closed_first(connect: Connect, address: str, late_body: bytes) -> None:
    request = NOTHING
    if late_body:
        request = request.replace(b"\r\n\r\n", b"\r\nContent-Length: %d\r\n\r\n" % len(late_body))
    idle = [connect(address) for _ in range(PER_ADDRESS)]
    for connection in idle:
        assert status(connection, request) == 404
        connection.sendall(late_body)
    until(lambda: status(connect(address), NOTHING) == 404, 2)
    assert idle[0].recv(1) == b""
    assert status(idle[-1], NOTHING) == 404


def test_a_bad_pipelined_request_is_refused_in_its_turn(connect: Connect, address: str) -> None:
    chunk = b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    for bad in (b"GET /healthz HTTP/1.1\r\n\r\n", b"no request\r\n\r\n", chunk):
        connection = connect(address)
        connection.sendall(HEALTH + CONFIG + bad + HEALTH)
        assert re.findall(rb"HTTP/1.1 (\d+)", read_until_closed(connection)) == [b"200", b"200", b"400"], bad


def test_health_waits_neither_for_the_request_limit_of_an_address_nor_for_the_audit_log(
    connect: Connect, limited: Running
) -> None:
    one, other = next(_addresses), next(_addresses)
    credential = f"Authorization: Bearer {limited.token(OWNER)}\r\n"

    def create(number: int) -> int:
        """Repeat the request until there is room, which other requests may take first."""
        body = json.dumps({"displayName": f"Held {number}"}).encode()
        request = head(len(body), f"/api/v1/organizations/{AURORA}/tenants", credential) + body
        while (answered := status(connect(one), request)) == 503:
            time.sleep(0.02)
        return answered

    def readiness() -> tuple[int, str | None]:
        ready = limited.get("/readyz")
        return ready.status, ready.json()["checks"].get("audit")

    with ThreadPoolExecutor(2) as threads:
        with changes_held(limited):
            until(lambda: readiness() == (200, "busy"))
            held = [threads.submit(create, number) for number in range(2)]
            until(lambda: status(connect(one), NOTHING) == 503)
            assert status(connect(other), CONFIG) == 200
            assert status(connect(one), HEALTH) == 200
            assert status(connect(one), HEALTH.replace(b"healthz", b"readyz")) == 200
        assert [one.result() for one in held] == [201, 201]
    until(lambda: status(connect(one), NOTHING) == 404)


def test_a_long_path_is_in_the_log_once_and_cut(limited: Running, connect: Connect, address: str) -> None:
    mark = "long-path-0001"
    # Short segments: a long one may be a secret and is masked.
    path = "/ppp" * 1_250
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: {mark}\r\n\r\n".encode()
    assert status(connect(address), request) == 404
    until(lambda: mark in limited.log)
    (line,) = [line for line in limited.log.splitlines() if mark in line]
    assert json.loads(line)["path"] == path[:512]
    assert line.count("ppp") == 512 // 4
    assert len(line) < 1_200
