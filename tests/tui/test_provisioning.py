"""Watching provisioning, without a screen and without a platform."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from client.errors import Exit, FrostError
from tests.tui.tasks import Tasks
from tui.state.jobs import Provisioning

UNREACHABLE = FrostError("the platform is not running", code="UNREACHABLE", exit_code=Exit.UNREACHABLE)
NEW = {"id": "t", "status": "provisioning", "runId": "r"}
READY = {"id": "t", "status": "active", "runId": "r"}


class World(Tasks):
    """A platform that answers as it was told (a fake for time only), and what was told to the workspace."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[dict[str, Any] | FrostError] = []
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


@pytest.fixture
def world() -> World:
    return World()


async def test_provisioning_is_watched_and_its_end_reported_once(world: World) -> None:
    world.answers = [{"status": "running", "progress": 20}, {"status": "completed"}]
    for _ in range(3):
        world.provisioning.noticed([NEW, {"id": "other", "status": "active"}])
    assert len(world.provisioning.running) == 1
    await world.let()
    assert (world.provisioning.of("t") or {}).get("progress") == 20
    assert world.provisioning.of("other") is None
    await world.let()
    world.provisioning.noticed([READY])
    await world.let()
    assert world.ended == [("t", {"status": "completed"})]
    assert world.provisioning.running == []


async def test_a_failed_watch_begins_again_with_the_tenants(world: World) -> None:
    world.answers = [UNREACHABLE, {"status": "completed"}]
    world.provisioning.noticed([NEW])
    await world.let()
    assert world.provisioning.of("t") is None
    assert world.ended == []
    world.provisioning.noticed([NEW])
    await world.let()
    assert world.ended == [("t", {"status": "completed"})]


@pytest.mark.parametrize("answered", [0, 1], ids=["before the first answer", "on the way"])
async def test_a_stopped_watch_reports_nothing(world: World, answered: int) -> None:
    world.answers = [{"status": "running"}, {"status": "failed"}]
    world.provisioning.noticed([NEW])
    await world.let(answered)
    world.provisioning.stop()
    await world.let(2)
    assert world.provisioning.of("t") is None
    assert world.ended == []
