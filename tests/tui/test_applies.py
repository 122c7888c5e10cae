"""Following applies, without a screen and without a platform."""

import asyncio
from typing import Any

import pytest

from client.errors import Exit, FrostError
from tests.tui.tasks import Tasks
from tui.default_tags.apply_screen import not_changed_text
from tui.default_tags.apply_text import preview_lines, progress_lines
from tui.state.jobs import Applies

Answers = dict[str, list[dict[str, Any] | FrostError]]
"""By run id: what is read of it, one after another."""
UNREACHABLE = FrostError("the platform is not running", code="UNREACHABLE", exit_code=Exit.UNREACHABLE)
GONE = FrostError("operation not found", code="NOT_FOUND", exit_code=Exit.NOT_FOUND)


class Started:
    def __init__(self, run_id: str) -> None:
        self.run_id, self.operation_id = run_id, "apply-default-tags-t"

    def wire(self) -> dict[str, Any]:
        return {"runId": self.run_id, "operationId": self.operation_id, "status": "pending"}


class World(Tasks):
    """A platform that answers as it was told, and everything that was told to the workspace."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self.answers = answers
        self.starts: list[str | FrostError] = []
        self.told: list[Any] = []
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


async def test_a_run_is_followed_and_reported_once() -> None:
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


async def test_completed_and_missing_runs_are_not_followed() -> None:
    world = World({})
    world.applies.noticed("t", [{"runId": "r", "status": "completed"}, {"runId": "q", "status": "failed"}])
    assert world.applies.of("t") is None
    world = World({"r": [GONE]})
    world.applies.follow("t", "r", {})
    await world.settled()
    assert world.applies.of("t") is None
    assert world.applies.running == []


@pytest.mark.parametrize("now", [[], [{"runId": "s", "status": "completed"}, {"runId": "r", "status": "completed"}]])
async def test_a_completed_run_gives_way_to_what_the_platform_lists(now: list[dict[str, str]]) -> None:
    world = World({"r": [{"status": "running"}, {"status": "completed"}]})
    world.applies.follow("t", "r", {})
    world.applies.noticed("t", now)
    await world.settled()
    assert world.told == [("t", "r", "completed")]  # as long as it went on, it was followed
    world.applies.noticed("t", now)
    assert world.applies.of("t") is None


async def test_a_run_is_followed_again_after_a_lost_connection() -> None:
    world = World({"r": [{"status": "running"}, UNREACHABLE]})
    world.applies.follow("t", "r", {})
    await world.settled()
    run = world.applies.of("t")
    assert run.lost == "the platform is not running"
    assert run.open
    world.answers["r"] = [{"status": "completed"}]
    world.applies.again()
    await world.settled()
    assert not run.lost
    assert world.told == [("t", "r", "completed")]


async def test_an_own_run_begins_after_the_others() -> None:
    done = {"status": "completed"}
    world = World({"theirs": [done], "third": [{"status": "running"}, done], "own": [done]})
    world.starts = [conflict("third"), "own"]
    world.applies.follow("t", "theirs", {})
    world.applies.start_afterwards("t")
    assert world.applies.waits("t")
    await world.settled()
    assert [told[1] for told in world.told] == ["theirs", "third", "own"]
    assert not world.applies.waits("t")
    world = World({"theirs": [{"status": "completed"}], "own": [{"status": "completed"}]})
    world.applies.follow("t", "theirs", {})
    await world.settled()
    world.starts = ["own"]
    world.applies.start_afterwards("t")
    await world.settled()
    assert world.told[-1] == ("t", "own", "completed")


async def test_an_own_run_is_tried_again_after_a_lost_answer_only() -> None:
    refusal = FrostError("not provisioned", code="TENANT_NOT_PROVISIONED")
    world = World({"theirs": [{"status": "failed"}]})
    world.starts = [refusal]
    world.applies.follow("t", "theirs", {})
    world.applies.start_afterwards("t")
    await world.settled()
    assert world.told[-1] == ("t", "TENANT_NOT_PROVISIONED")
    assert not world.applies.waits("t")
    world = World({"theirs": [{"status": "completed"}], "own": [{"status": "completed"}]})
    world.starts = [UNREACHABLE, "own"]
    world.applies.follow("t", "theirs", {})
    world.applies.start_afterwards("t")
    await world.settled()
    assert world.applies.waits("t")
    world.applies.again()
    await world.settled()
    assert world.told[-1] == ("t", "own", "completed")


async def test_another_context_has_no_runs() -> None:
    world = World({"r": [{"status": "running"}] * 1_000})
    world.applies.follow("t", "r", {})
    world.applies.start_afterwards("t")
    await asyncio.sleep(0)
    world.applies.stop()
    await world.settled()
    assert world.applies.running == []
    assert not world.applies.waits("t")
    assert world.told == []


def test_progress_of_a_failed_type_and_of_a_cancelled_run() -> None:
    zero = dict.fromkeys(("examined", "updated", "unchanged", "skipped", "failed"), 0)
    failed = {"resourceType": "secret", "resourceId": "", "reason": "backend_unavailable", "message": "later"}
    result = {"summary": zero | {"failed": 1}, "byType": {"secret": zero | {"failed": 1}}, "failures": [failed]}
    operation = {"operationId": "apply-x", "status": "completed", "result": result}
    lines = [line.plain for line in progress_lines(operation, 100, {})]
    assert "! 1 type not examined, because it could not be listed: secret" in lines
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


def test_the_counts_of_a_preview_add_up_without_unlisted_types() -> None:
    numbers = {"examined": 5, "updated": 2, "unchanged": 0, "skipped": 1, "failed": 3}
    unlisted = {"resourceType": "secret", "resourceId": "", "reason": "backend_unavailable"}
    failing = {"resourceType": "volume", "resourceId": "v", "reason": "invalid_state"}
    result = {"summary": numbers, "failures": [unlisted, failing, failing]}
    lines = [line.plain for line in preview_lines(result, "the stored tags", 100)]
    assert lines[:2] == [
        "2 would change · 0 unchanged · 1 skipped · 2 failing",
        "of 5 resources, for the stored tags",
    ]
    assert "! 1 type not examined, because it could not be listed: secret" in lines
    assert not_changed_text({"result": result}) == "0 complete, 1 skipped, 2 failures expected"
