"""Cursors have no state on the platform."""

import asyncio
import gc
import tracemalloc

import pytest
from sqlalchemy import func, select

from service.db.tables import metadata
from tests.hostile.world import IAM, World
from tests.service.running import OWNER


@pytest.mark.slow
def test_a_thousand_open_cursors_leave_nothing_behind(world: World) -> None:
    owner = world.session(OWNER)
    for number in range(3):
        assert world.ask("POST", f"{IAM}/groups", owner, {"name": f"page {number}"}).status_code == 201

    def rows() -> dict[str, int | None]:
        with world.platform.database.read() as connection:
            tables = metadata.sorted_tables
            return {table.name: connection.scalar(select(func.count()).select_from(table)) for table in tables}

    async def open_many(number: int) -> set[str]:
        async with world.client() as client:
            return {
                (await client.get(f"{IAM}/groups?limit={1 + count % 2}", headers=owner)).json()["nextCursor"]
                for count in range(number)
            }

    asyncio.run(open_many(50))
    before, growth, cursors = rows(), [], set[str]()
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
