"""What one caller can make the platform carry: bounded in turns and in state."""

import asyncio
import gc
import itertools
import threading
import tracemalloc
from collections import Counter
from typing import Any

import pytest
from sqlalchemy import func, select

from service.db.tables import metadata
from service.http_server.work_queues import RUNNING_PER_CREDENTIAL, Work
from service.iam import simulate
from service.settings import Limits
from tests.hostile.world import World
from tests.service.running import OWNER, VIEWER, WEB_SHOP

MAX_CONCURRENT = RUNNING_PER_CREDENTIAL[Work.CPU_INTENSIVE]
MAX_WAITING = Limits().max_waiting_cpu_intensive // 2
IAM = f"/api/v1/tenants/{WEB_SHOP}/iam"
TRIAL = {
    "documentText": '{"schemaVersion":"1","rules":[{"access":"allow","operations":["*"],"targets":["*"]}]}',
    "operation": "compute:instances:read",
    "target": "*",
}


def test_of_one_caller_few_trials_go_on_at_a_time_and_nobody_else_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trials do not end before somebody else was answered: without the line they hold every thread there is."""
    owner, viewer = world.session(OWNER), world.session(VIEWER)
    answered, lock, whole = threading.Event(), threading.Lock(), simulate.read_document
    seen: Counter[str] = Counter()
    inside = threading.Event()

    def long(*arguments: Any) -> Any:
        with lock:
            seen["inside"] += 1
            seen["most"] = max(seen["most"], seen["inside"])
            if seen["inside"] == MAX_CONCURRENT:
                inside.set()
        answered.wait(60)
        with lock:
            seen["inside"] -= 1
        return whole(*arguments)

    async def scene() -> tuple[list[int], int, bool]:
        async with world.client() as client:
            trials = [
                asyncio.create_task(client.post(f"{IAM}/simulate", headers=owner, json=TRIAL))
                for _ in range(MAX_CONCURRENT + MAX_WAITING + 6)
            ]
            await asyncio.to_thread(inside.wait, 60)
            other = await client.get("/api/v1/me", headers=viewer)
            in_time = not answered.is_set()
            for refused in itertools.islice(asyncio.as_completed(trials), 6):
                await refused
            answered.set()
            return [answer.status_code for answer in await asyncio.gather(*trials)], other.status_code, in_time

    monkeypatch.setattr(simulate, "read_document", long)
    statuses, other, in_time = asyncio.run(scene())
    assert (other, in_time) == (200, True)
    assert Counter(statuses) == {200: MAX_CONCURRENT + MAX_WAITING, 503: 6}
    assert seen["most"] == MAX_CONCURRENT


def test_the_line_is_gone_with_its_last_request(world: World) -> None:
    assert world.ask("POST", f"{IAM}/simulate", world.session(OWNER), TRIAL).status_code == 200
    queue = world.platform.work.queues[Work.CPU_INTENSIVE]
    assert (queue.running, queue.waiting, queue._running, queue._waiting) == (0, 0, {}, {})


@pytest.mark.slow
def test_a_thousand_open_cursors_leave_nothing_behind(world: World) -> None:
    """No row of any table, and no memory that grows with their number; all of them are good still."""
    owner = world.session(OWNER)
    for number in range(3):
        body = {"name": f"page {number}"}
        assert world.ask("POST", f"{IAM}/groups", owner, body).status_code == 201

    def rows() -> dict[str, int]:
        with world.platform.database.read() as connection:
            return {
                table.name: connection.scalar(select(func.count()).select_from(table)) or 0
                for table in metadata.sorted_tables
            }

    async def open_many(number: int) -> set[str]:
        async with world.client() as client:
            return {
                (await client.get(f"{IAM}/groups?limit={1 + count % 2}", headers=owner)).json()["nextCursor"]
                for count in range(number)
            }

    asyncio.run(open_many(50))
    before = rows()
    cursors: set[str] = set()
    growth = []
    tracemalloc.start()
    try:
        # What is made once, such as the statement that notes a session's use each minute, falls into one round alone.
        for _ in range(4):
            start = tracemalloc.get_traced_memory()[0]
            cursors |= asyncio.run(open_many(250))
            gc.collect()
            growth.append(tracemalloc.get_traced_memory()[0] - start)
    finally:
        tracemalloc.stop()
    assert rows() == before
    assert min(growth) < 16 * 1024, growth  # 250 cursors of a hundred bytes are more
    for cursor in cursors:
        assert world.get(f"{IAM}/groups?limit=1&cursor={cursor}", owner).json()["groups"]
