"""Following applies, without a screen and without a platform: found again, one after another, never for ever."""

import asyncio
from typing import Any

import pytest

from client.errors import Exit, FrostError
from tui.default_tags.apply_text import progress_lines
from tui.state.jobs import Applies

Answers = dict[str, list[dict[str, Any] | FrostError]]
"""By run id: what is read of it, one after another."""
UNREACHABLE = FrostError("nobody listens there", code="UNREACHABLE", exit_code=Exit.UNREACHABLE)
GONE = FrostError("operation not found", code="NOT_FOUND", exit_code=Exit.NOT_FOUND)


class Started:
    def __init__(self, run_id: str) -> None:
        self.run_id, self.operation_id = run_id, "apply-default-tags-t"

    def wire(self) -> dict[str, Any]:
        return {"runId": self.run_id, "operationId": self.operation_id, "status": "pending"}


class World:
    """A platform that answers as it was told, and everything that was told to the workspace."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.starts: list[str | FrostError] = []
        self.told: list[Any] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.applies = Applies(
            self,
            self.watch,
            self.spawn,
            lambda: None,
            lambda tenant, operation: self.told.append((tenant, operation["runId"], operation["status"])),
            lambda tenant, error: self.told.append((tenant, error.code)),
        )

    async def ask(self, call: Any) -> Any:
        answer = self.starts.pop(0)
        if isinstance(answer, FrostError):
            raise answer
        return Started(answer)

    def spawn(self, name: str, work: Any) -> None:
        if name in self.tasks:
            self.tasks.pop(name).cancel()
        if work is not None:
            self.tasks[name] = asyncio.create_task(work())

    async def watch(self, tenant_id: str, run_id: str) -> Any:
        while self.answers[run_id]:
            await asyncio.sleep(0)
            answer = self.answers[run_id].pop(0)
            if isinstance(answer, FrostError):
                raise answer
            yield {"runId": run_id, **answer}

    async def settled(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)


def conflict(run_id: str) -> FrostError:
    return FrostError("in progress", code="APPLY_IN_PROGRESS", exit_code=Exit.CONFLICT, run_id=run_id)


async def test_a_run_is_followed_once_and_told_once_when_it_is_over() -> None:
    world = World({"r": [{"status": "running"}, {"status": "completed"}]})
    for _ in range(3):
        world.applies.noticed("t", [{"runId": "r", "status": "running"}, {"runId": "q", "status": "completed"}])
    assert world.applies.goes_on("t")
    await world.settled()
    assert world.told == [("t", "r", "completed")]
    assert not world.applies.goes_on("t")
    world.applies.noticed("t", [{"runId": "r", "status": "running"}])  # read before it ended, told after
    await world.settled()
    assert world.told == [("t", "r", "completed")]


async def test_runs_that_are_over_are_not_followed() -> None:
    world = World({})
    world.applies.noticed("t", [{"runId": "r", "status": "completed"}, {"runId": "q", "status": "failed"}])
    assert world.applies.of("t") is None


@pytest.mark.parametrize("now", [[], [{"runId": "s", "status": "completed"}, {"runId": "r", "status": "completed"}]])
async def test_a_run_that_is_over_gives_way_to_one_that_came_and_went_unseen_or_to_a_backup_without_it(
    now: list[dict[str, str]],
) -> None:
    world = World({"r": [{"status": "running"}, {"status": "completed"}]})
    world.applies.follow("t", "r", {})
    world.applies.noticed("t", now)
    await world.settled()
    assert world.told == [("t", "r", "completed")]  # as long as it went on, it was followed
    world.applies.noticed("t", now)
    assert world.applies.of("t") is None


async def test_a_lost_connection_is_said_and_followed_again() -> None:
    world = World({"r": [{"status": "running"}, UNREACHABLE]})
    world.applies.follow("t", "r", {})
    await world.settled()
    run = world.applies.of("t")
    assert run is not None
    assert run.lost == "nobody listens there"
    assert run.open
    world.answers["r"] = [{"status": "completed"}]
    world.applies.again()
    await world.settled()
    assert not run.lost
    assert world.told == [("t", "r", "completed")]


async def test_a_run_that_is_not_there_is_not_shown_as_going_on_for_ever() -> None:
    world = World({"r": [GONE]})
    world.applies.follow("t", "r", {})
    await world.settled()
    assert world.applies.of("t") is None
    assert world.applies.running == []


async def test_an_own_run_waits_for_each_one_that_was_quicker() -> None:
    done = {"status": "completed"}
    world = World({"theirs": [done], "third": [{"status": "running"}, done], "own": [done]})
    world.starts = [conflict("third"), "own"]
    world.applies.follow("t", "theirs", {})
    world.applies.start_afterwards("t")
    assert world.applies.waits("t")
    await world.settled()
    assert [told[1] for told in world.told] == ["theirs", "third", "own"]
    assert not world.applies.waits("t")


async def test_an_own_run_that_is_refused_is_told_and_not_tried_for_ever() -> None:
    refusal = FrostError("not provisioned", code="TENANT_NOT_PROVISIONED")
    world = World({"theirs": [{"status": "failed"}]})
    world.starts = [refusal]
    world.applies.follow("t", "theirs", {})
    world.applies.start_afterwards("t")
    await world.settled()
    assert world.told[-1] == ("t", "TENANT_NOT_PROVISIONED")
    assert not world.applies.waits("t")


async def test_an_own_run_whose_turn_comes_without_an_answer_begins_once_there_is_one() -> None:
    world = World({"theirs": [{"status": "completed"}], "own": [{"status": "completed"}]})
    world.starts = [UNREACHABLE, "own"]
    world.applies.follow("t", "theirs", {})
    world.applies.start_afterwards("t")
    await world.settled()
    assert world.applies.waits("t")
    world.applies.again()
    await world.settled()
    assert world.told[-1] == ("t", "own", "completed")


async def test_one_that_ended_while_it_was_asked_about_does_not_hold_the_own_one_up() -> None:
    world = World({"theirs": [{"status": "completed"}], "own": [{"status": "completed"}]})
    world.applies.follow("t", "theirs", {})
    await world.settled()
    world.starts = ["own"]
    world.applies.start_afterwards("t")
    await world.settled()
    assert world.told[-1] == ("t", "own", "completed")


async def test_nothing_is_left_of_another_context() -> None:
    world = World({"r": [{"status": "running"}] * 1_000})
    world.applies.follow("t", "r", {})
    world.applies.start_afterwards("t")
    await asyncio.sleep(0)
    world.applies.stop()
    await world.settled()
    assert world.applies.running == []
    assert not world.applies.waits("t")
    assert world.told == []


def test_a_type_that_could_not_be_listed_has_a_line_of_its_own() -> None:
    zero = dict.fromkeys(("examined", "updated", "unchanged", "skipped", "failed"), 0)
    failed = {"resourceType": "secret", "resourceId": "", "reason": "backend_unavailable", "message": "later"}
    result = {"summary": zero | {"failed": 1}, "byType": {"secret": zero | {"failed": 1}}, "failures": [failed]}
    operation = {"operationId": "apply-x", "status": "completed", "result": result}
    lines = [line.plain for line in progress_lines(operation, 100, {})]
    assert "! 1 type not examined, it could not be listed: secret" in lines


def test_a_cancelled_run_shows_its_state_its_reason_and_what_to_do() -> None:
    operation = {
        "operationId": "apply-x",
        "status": "cancelled",
        "error": "cancelled by an operator of the platform",
        "errorCode": "cancelled",
    }
    lines = "\n".join(line.plain for line in progress_lines(operation, 120, {}))
    assert lines.startswith("× cancelled")
    assert "! cancelled by an operator of the platform [cancelled]" in lines
    assert "Ask the operator" in lines
