"""More requests or connections than the platform can serve: others, health and the audit log are not affected."""

import asyncio
import http.client
import itertools
import re
import resource
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress

import pytest
from sqlalchemy import func, select

from service.authn.rate_limit import MAX_UNAUTHENTICATED
from service.db.tables import audit_log
from service.http_server.work_queues import RUNNING, RUNNING_PER_CREDENTIAL, Work
from service.settings import Limits
from tests.api import Answer, UnixConnection, exchange
from tests.benchmarks.flood import CONNECTIONS, FLOODERS, flooded
from tests.benchmarks.load import request
from tests.hostile.world import World
from tests.people import OWNER, WEB_SHOP
from tests.service.account import Key
from tests.service.conftest import KINDS, DemoUrl
from tests.service.held import changes_held
from tests.service.running import Running, tcp_address
from tests.waiting import until

OTHER = "127.0.9.9"
FLOOD_SECONDS = 300
"""Longer than any machine takes to refuse a request of each connection."""
TENANT = f"/api/v1/tenants/{WEB_SHOP}"
CHANGE = b'{"displayName": "Web shop"}'
JSON = {"Content-Type": "application/json"}
HALF = b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\n"
HEADS, HEAD_ADDRESSES, GOOD = 1_800, 40, 50
BATCH = 20


@pytest.fixture(params=KINDS)
def served(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[Running]:
    with Running(demo_url(request.param), "demo", "--listen", "127.0.0.1:0") as running:
        yield running


def metric(platform: Running, name: str) -> float:
    (value,) = re.findall(rf"^{re.escape(name)} (.*)$", platform.get("/metrics").body.decode(), re.M)
    return float(value)


@pytest.mark.slow
def test_health_and_others_are_answered_beside_900_connections(served: Running) -> None:
    """None of the changes of the flood ends, because the database is locked."""
    to = tcp_address(served)
    content = request("PATCH", TENANT, {"Authorization": f"Bearer {served.token(OWNER)}", **JSON}, CHANGE)
    places = RUNNING_PER_CREDENTIAL[Work.WRITE] + Limits().max_waiting_writes // 2
    # Records the use of the session, which would wait for the database later.
    assert served.get("/api/v1/me", as_=OWNER).status == 200

    def status(path: str, source: str) -> int:
        connection = http.client.HTTPConnection(*to, timeout=120, source_address=(source, 0))
        return exchange(connection, "GET", path, {}, None).status

    with changes_held(served), flooded(to[1], content, FLOODERS) as statuses:
        until(lambda: metric(served, 'frost_refused_total{limit="writes"}') > CONNECTIONS, FLOOD_SECONDS)
        for path, source in (
            *(("/healthz", OTHER), ("/healthz", FLOODERS[0]), ("/readyz", OTHER)),
            ("/.well-known/authzen-configuration", OTHER),
        ):
            assert [status(path, source) for _ in range(10)] == [200] * 10, path
        assert served.get("/healthz").status == 200
        running = metric(served, 'frost_requests_running{work="writes"}')
        waiting = metric(served, 'frost_requests_waiting{work="writes"}')
    assert set(statuses) <= {"503", "not connected"}
    assert statuses["503"] > CONNECTIONS
    assert running <= RUNNING_PER_CREDENTIAL[Work.WRITE]
    assert running + waiting <= places
    assert "overloaded: " in served.log


def ask(to: tuple[str, int], path: str, source: str, headers: dict[str, str] | None = None) -> Answer:
    connection = http.client.HTTPConnection(*to, timeout=120, source_address=(source, 0))
    return exchange(connection, "GET", path, headers or {}, None)


@contextmanager
def slow_heads(to: tuple[str, int]) -> Iterator[list[socket.socket]]:
    """Connections of 40 addresses with half a head, opened again when they are closed."""
    stop, opened = threading.Event(), threading.Event()
    heads: list[socket.socket] = []

    def connect(number: int) -> socket.socket:
        source = f"127.0.3.{1 + number % HEAD_ADDRESSES}"
        connection = socket.create_connection(to, timeout=120, source_address=(source, 0))
        with suppress(OSError):
            connection.sendall(HALF)
        connection.setblocking(False)
        return connection

    def is_open(connection: socket.socket) -> bool:
        try:
            connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def attack() -> None:
        heads.extend(connect(number) for number in range(HEADS))
        opened.set()
        while not stop.wait(0.01):
            for number, connection in enumerate(heads):
                if not is_open(connection):
                    connection.close()
                    heads[number] = connect(number)

    with ThreadPoolExecutor(1) as threads:
        attacking = threads.submit(attack)
        try:
            until(lambda: opened.is_set() or attacking.done(), FLOOD_SECONDS)
            yield heads
        finally:
            stop.set()
            attacking.result()
            for connection in heads:
                connection.close()


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * HEADS + 1_000
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_slow_heads_of_many_addresses_do_not_shut_out_others(network: Running, many_files: None) -> None:
    """No request of others fails, on new connections or on one that has been idle for long."""
    to, key = tcp_address(network), Key(network, "compute:read", rateLimit=60_000)
    credential = {"X-API-Key": key.secret}
    kept = http.client.HTTPConnection(*to, timeout=120, source_address=(OTHER, 0))
    kept.request("GET", "/api/v1/me", headers=credential)
    assert kept.getresponse().read()
    before = kept.sock
    with slow_heads(to):
        statuses = [ask(to, "/api/v1/me", OTHER, credential).status for _ in range(GOOD)]
        sign_ins = {path: ask(to, path, OTHER).status for path in ("/healthz", "/.well-known/authzen-configuration")}
        kept.request("GET", "/api/v1/me", headers=credential)
        response = kept.getresponse()
        assert (response.status, bool(response.read())) == (200, True)
        # Without a new connection.
        assert kept.sock is before
    assert statuses == [200] * GOOD
    assert set(sign_ins.values()) == {200}
    kept.close()


def send_until_refused(to: tuple[str, int], path: str, source: str) -> Counter[int]:
    """Send requests in batches, which are faster than the limit on any machine; return the statuses."""
    statuses: Counter[int] = Counter()
    with socket.create_connection(to, timeout=120, source_address=(source, 0)) as connection:
        while not statuses[429]:
            connection.sendall(request("GET", path, {}) * BATCH)
            received = b""
            while len(found := re.findall(rb"HTTP/1.1 (\d{3}) ", received)) < BATCH:
                piece = connection.recv(65536)
                assert piece, received
                received += piece
            statuses.update(map(int, found))
    return statuses


@pytest.mark.parametrize(("path", "status"), [("/api/v1/me", 401), ("/api/v1/nowhere", 404)])
def test_requests_without_a_credential_are_limited_by_network(network: Running, path: str, status: int) -> None:
    """An accepted credential is not refused from there, and neither are health and sign-in."""
    to, key, third = tcp_address(network), Key(network, "compute:read"), status % 256
    address, neighbour, other = f"127.0.{third}.1", f"127.0.{third}.2", f"127.0.{third + 20}.1"
    credential = {"X-API-Key": key.secret}
    assert ask(to, "/api/v1/me", address, credential).status == 200
    statuses = send_until_refused(to, path, address)
    assert set(statuses) == {status, 429}
    assert statuses[status] >= MAX_UNAUTHENTICATED - 1
    refused = ask(to, "/api/v1/nowhere", neighbour)
    assert (refused.status, refused.json()["error"]) == (429, "rate limit exceeded")
    assert int(refused.headers["retry-after"]) > 0
    assert ask(to, "/api/v1/me", address, credential).status == 200
    assert ask(to, path, other).status == status
    for open_path in ("/healthz", "/readyz", "/.well-known/authzen-configuration"):
        assert ask(to, open_path, address).status == 200
    assert metric(network, 'frost_refused_total{limit="unauthenticated"}') > 0


@pytest.mark.slow
def test_waiting_requests_leave_the_queue_with_their_client_or_when_the_platform_stops(own: Running) -> None:
    number, headers = 10, {"Authorization": f"Bearer {own.token(OWNER)}", **JSON}
    running = RUNNING_PER_CREDENTIAL[Work.WRITE]

    def is_waiting(number: int) -> bool:
        return metric(own, 'frost_requests_waiting{work="writes"}') == number

    def change(_: int) -> Answer | None:
        try:
            return exchange(UnixConnection(own.socket), "PATCH", TENANT, headers, CHANGE)
        except (OSError, http.client.HTTPException):
            return None  # It ran when the time was up.

    with changes_held(own):
        connections = [socket.socket(socket.AF_UNIX) for _ in range(running + 3)]
        for connection in connections:
            connection.connect(str(own.socket))
            connection.sendall(request("PATCH", TENANT, headers, CHANGE))
        until(lambda: is_waiting(3))
        for connection in connections:
            connection.close()
        until(lambda: is_waiting(0))
    until(lambda: metric(own, 'frost_requests_running{work="writes"}') == 0)
    with ThreadPoolExecutor(number) as threads:
        with changes_held(own):
            answers = [threads.submit(change, one) for one in range(number)]
            until(lambda: is_waiting(number - running))
            assert own.process
            own.process.terminate()
            until(lambda: sum(one.done() for one in answers) >= number - running)
        refused = [answer for one in answers if (answer := one.result()) and answer.status == 503]
    stopping = [answer for answer in refused if "the platform is stopping" in answer.body.decode()]
    assert len(stopping) == number - running
    assert all(int(answer.headers["retry-after"]) > 0 for answer in stopping)
    assert own.process.wait(60) == 0


async def test_a_refused_change_has_retry_after_and_no_audit_entry(world: World) -> None:
    owner, queue = await asyncio.to_thread(world.session, OWNER), world.platform.work.queues[Work.WRITE]

    def entries() -> int:
        world.platform.refusals.close()
        with world.platform.database.read() as connection:
            return connection.scalar(select(func.count()).select_from(audit_log)) or 0

    before = entries()
    async with world.client() as client, AsyncExitStack() as slots:
        for number in range(RUNNING[Work.WRITE]):
            await slots.enter_async_context(queue.slot(number))
        queue.close()
        refused = await client.patch(TENANT, headers=owner | JSON, content=CHANGE)
        read = await client.get("/api/v1/me", headers=owner)
    assert (refused.status_code, read.status_code) == (503, 200)
    assert refused.headers["retry-after"] in ("1", "2")
    assert refused.json()["error"]["hint"] == "try again; nothing was changed"
    assert entries() == before
    assert world.platform.request_metrics.rejections.counts == {"writes": 1}


def test_a_revoked_key_does_not_protect_its_idle_connection() -> None:
    """The connection of an accepted key outlasts many others."""
    variables = {"FROST_PLATFORM_MAX_CONNECTIONS": "40"}
    with Running(None, "demo", "--listen", "127.0.0.1:0", **variables) as platform, ExitStack() as connections:
        to, key = tcp_address(platform), Key(platform, "compute:read")
        networks = (f"127.{1 + number // 250}.{number % 250}.1" for number in itertools.count())

        def idle(headers: dict[str, str]) -> socket.socket:
            connection = http.client.HTTPConnection(*to, timeout=120, source_address=(next(networks), 0))
            connections.callback(connection.close)
            connection.request("GET", "/api/v1/me", headers=headers)
            connection.getresponse().read()
            assert connection.sock
            return connection.sock

        def is_closed(connection: socket.socket) -> bool:
            connection.setblocking(False)
            try:
                return connection.recv(1, socket.MSG_PEEK) == b""
            except BlockingIOError:
                return False

        held, first = idle({"X-API-Key": key.secret}), idle({})
        for _ in range(80):
            idle({})
        assert (is_closed(held), is_closed(first)) == (False, True)
        assert key.revoke().status in (200, 204)

        def is_replaced() -> bool:
            idle({})
            return is_closed(held)

        until(is_replaced, pause=0.1)
