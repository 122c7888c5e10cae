"""What one credential can occupy: trials at a time, and the state of cursors."""

import asyncio
import gc
import itertools
import tracemalloc
from collections import Counter

import pytest
from sqlalchemy import func, select

from service.db.tables import metadata
from service.iam import simulate
from service.settings import Limits
from tests.hostile.concurrency import WAIT_SECONDS, Gate
from tests.hostile.world import IAM, MAX_CONCURRENT, TRIAL, World
from tests.service.running import OWNER, VIEWER

MAX_WAITING = Limits().max_waiting_cpu_intensive // 2


def test_trials_of_a_credential_run_in_turn_and_others_do_not_wait(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, viewer = world.session(OWNER), world.session(VIEWER)
    gate = Gate(simulate.read_document, MAX_CONCURRENT)

    async def scene() -> tuple[list[int], int]:
        async with world.client() as client:
            trials = [
                asyncio.create_task(client.post(f"{IAM}/simulate", headers=owner, json=TRIAL))
                for _ in range(MAX_CONCURRENT + MAX_WAITING + 6)
            ]
            await asyncio.to_thread(gate.is_full.wait, WAIT_SECONDS)
            other = await client.get("/api/v1/me", headers=viewer)
            for refused in itertools.islice(asyncio.as_completed(trials), 6):
                await refused
            gate.opened.set()
            return [answer.status_code for answer in await asyncio.gather(*trials)], other.status_code

    monkeypatch.setattr(simulate, "read_document", gate)
    statuses, other = asyncio.run(scene())
    assert other == 200
    assert Counter(statuses) == {200: MAX_CONCURRENT + MAX_WAITING, 503: 6}
    assert gate.most == MAX_CONCURRENT


@pytest.mark.slow
def test_a_thousand_open_cursors_leave_nothing_behind(world: World) -> None:
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
