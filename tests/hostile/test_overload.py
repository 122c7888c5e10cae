"""More requests than the platform can serve: others, health and the audit log are not affected."""

import asyncio
import http.client
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

import pytest
from sqlalchemy import func, select

from service.db.tables import audit_log
from service.http_server.work_queues import RUNNING, RUNNING_PER_CREDENTIAL, Work
from service.settings import Limits
from tests.api import Answer, UnixConnection, exchange
from tests.benchmarks.flood import CONNECTIONS, FLOODERS, flooded
from tests.benchmarks.load import request
from tests.hostile.world import World
from tests.people import OWNER, WEB_SHOP
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
