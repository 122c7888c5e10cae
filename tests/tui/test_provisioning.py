"""Watching provisioning, without a screen and without a platform."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from client.errors import Exit, FrostError
from tests.tui.tasks import Tasks
from tui.state.jobs import Provisioning

UNREACHABLE = FrostError("the platform is not running", code="UNREACHABLE", exit_code=Exit.UNREACHABLE)
NEW = {"id": "t", "status": "provisioning", "runId": "r"}
READY = {"id": "t", "status": "active", "runId": "r"}


class World(Tasks):
    """A platform with prepared answers that `let` delivers, and the reports to the workspace."""

    def __init__(self, *answers: dict[str, Any] | FrostError) -> None:
        super().__init__()
        self.answers = list(answers)
        self.gate = asyncio.Semaphore(0)
        self.ended: list[Any] = []
        self.provisioning = Provisioning(self.watch, self.spawn, lambda: None, lambda *about: self.ended.append(about))

    async def watch(self, *_: object) -> AsyncIterator[dict[str, Any]]:
        while self.answers:
            await self.gate.acquire()
            answer = self.answers.pop(0)
            if isinstance(answer, FrostError):
                raise answer
            yield answer

    async def let(self, answers: int = 1) -> None:
        for _ in range(answers):
            self.gate.release()
        for _ in range(20):
            await asyncio.sleep(0)


async def test_provisioning_is_watched_and_its_end_reported_once() -> None:
    world = World(UNREACHABLE, {"status": "running", "progress": 20}, {"status": "completed"})
    world.provisioning.noticed([NEW])
    await world.let()  # a failed watch begins again with the next list of tenants
    assert (world.provisioning.of("t"), world.ended) == (None, [])
    for _ in range(3):
        world.provisioning.noticed([NEW, {"id": "other", "status": "active"}])
    assert len(world.provisioning.running) == 1
    await world.let()
    assert (world.provisioning.of("t") or {}).get("progress") == 20
    assert world.provisioning.of("other") is None
    await world.let()
    world.provisioning.noticed([READY])
    await world.let()
    assert (world.ended, world.provisioning.running) == ([("t", {"status": "completed"})], [])


async def test_a_stopped_watch_reports_nothing() -> None:
    for answers in (0, 1):
        world = World({"status": "running"}, {"status": "failed"})
        world.provisioning.noticed([NEW])
        await world.let(answers)
        world.provisioning.stop()
        await world.let(2)
        assert (world.provisioning.of("t"), world.ended) == (None, [])
