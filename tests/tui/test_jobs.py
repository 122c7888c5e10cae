"""Applies and provisioning as the screens follow them, without a screen and without a platform."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from client.errors import Exit, FrostError
from client.models.default_tags import ApplyOperation, ApplyResult, ApplyRun, ApplyStarted
from client.models.tenants import Operation, Tenant
from tests.tui.tasks import Tasks
from tui.default_tags.apply_screen import not_changed_text
from tui.default_tags.apply_text import preview_lines, progress_lines
from tui.state.jobs import Applies, Provisioning

UNREACHABLE = FrostError("the platform is not running", code="UNREACHABLE", exit_code=Exit.UNREACHABLE)
GONE = FrostError("operation not found", code="NOT_FOUND", exit_code=Exit.NOT_FOUND)


RUNNING, DONE = "running", "completed"


def started(run_id: str) -> ApplyStarted:
    return ApplyStarted(operation_id="apply-default-tags-t", run_id=run_id)


def listed(run_id: str, status: str) -> ApplyRun:
    return ApplyRun(run_id=run_id, status=status)


class ApplyWorld(Tasks):
    """A platform with prepared answers, and the reports to the workspace."""

    def __init__(self, starts: Sequence[str | FrostError] = (), **answers: list[str | FrostError]) -> None:
        """`answers` of a run id are the states that are read of it, one after another."""
        super().__init__()
        self.names_runs = True
        self.answers, self.starts = answers, list(starts)
        self.asks = 0
        self.answering = asyncio.Event()
        self.answering.set()
        self.reports: list[Any] = []
        self.applies = Applies(
            self,
            self.watch,
            self.spawn,
            lambda: None,
            lambda tenant, operation: self.reports.append((tenant, operation.run_id, operation.status)),
            lambda tenant, error: self.reports.append((tenant, error.code)),
        )

    async def ask(self, call: Any) -> Any:
        self.asks += 1
        await self.answering.wait()
        answer = self.starts.pop(0)
        if isinstance(answer, FrostError):
            raise answer
        return started(answer)

    async def watch(self, tenant_id: str, run_id: str) -> Any:
        while self.answers[run_id]:
            await asyncio.sleep(0)
            answer = self.answers[run_id].pop(0)
            if isinstance(answer, FrostError):
                raise answer
            named = run_id if self.names_runs else ""
            yield ApplyOperation(operation_id="apply-default-tags-t", run_id=named, status=answer)

    async def settled(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    async def follow(self, run_id: str, *, afterwards: bool = False) -> None:
        """Follow a run; `afterwards` starts an own one after it."""
        self.applies.follow("t", started(run_id).operation)
        if afterwards:
            self.applies.start_afterwards("t")
        await self.settled()


async def test_a_run_is_followed_and_reported_once() -> None:
    world = ApplyWorld(r=[RUNNING, DONE])
    for _ in range(3):
        world.applies.noticed("t", [listed("r", RUNNING), listed("q", DONE)])
    assert world.applies.goes_on("t")
    await world.settled()
    assert (world.reports, world.applies.goes_on("t")) == ([("t", "r", "completed")], False)
    world.applies.noticed("t", [listed("r", RUNNING)])  # an answer from before the end of the run
    await world.settled()
    assert world.reports == [("t", "r", "completed")]


async def test_completed_and_missing_runs_are_not_followed() -> None:
    world = ApplyWorld(r=[GONE])
    world.applies.noticed("t", [listed("r", DONE), listed("q", "failed")])
    assert world.applies.of("t") is None
    await world.follow("r")
    assert (world.applies.of("t"), world.applies.running) == (None, [])


@pytest.mark.parametrize("runs", [[], [listed("s", DONE), listed("r", DONE)]])
async def test_a_completed_run_gives_way_to_the_runs_of_the_platform(runs: list[ApplyRun]) -> None:
    world = ApplyWorld(r=[RUNNING, DONE])
    world.applies.follow("t", started("r").operation)
    world.applies.noticed("t", runs)
    await world.settled()
    assert world.reports == [("t", "r", "completed")]  # it was followed until its end
    world.applies.noticed("t", runs)
    assert world.applies.of("t") is None


@pytest.mark.parametrize("names_runs", [True, False])  # `runId` is an addition to the contract
async def test_a_run_is_followed_again_after_a_lost_connection(names_runs: bool) -> None:
    world = ApplyWorld(r=[RUNNING, UNREACHABLE])
    world.names_runs = names_runs
    await world.follow("r")
    run = world.applies.of("t")
    assert (run.lost, run.open) == ("the platform is not running", True)
    world.answers["r"] = [DONE]
    world.applies.again()
    await world.settled()
    assert not run.lost
    assert world.reports == [("t", "r" if names_runs else "", "completed")]


async def test_an_own_run_begins_after_the_others() -> None:
    in_progress = FrostError("in progress", code="APPLY_IN_PROGRESS", exit_code=Exit.CONFLICT, run_id="third")
    world = ApplyWorld([in_progress, "own"], theirs=[DONE], third=[RUNNING, DONE], own=[DONE])
    world.applies.follow("t", started("theirs").operation)
    world.applies.start_afterwards("t")
    assert world.applies.waits("t")
    await world.settled()
    assert [report[1] for report in world.reports] == ["theirs", "third", "own"]
    assert not world.applies.waits("t")
    world = ApplyWorld(["own"], theirs=[DONE], own=[DONE])
    await world.follow("theirs")
    world.applies.start_afterwards("t")
    await world.settled()
    assert world.reports[-1] == ("t", "own", "completed")


async def test_an_own_run_is_tried_again_after_a_lost_answer_only() -> None:
    world = ApplyWorld([FrostError("not provisioned", code="TENANT_NOT_PROVISIONED")], theirs=["failed"])
    await world.follow("theirs", afterwards=True)
    assert (world.reports[-1], world.applies.waits("t")) == (("t", "TENANT_NOT_PROVISIONED"), False)
    world = ApplyWorld([UNREACHABLE, "own"], theirs=[DONE], own=[DONE])
    await world.follow("theirs", afterwards=True)
    assert world.applies.waits("t")
    world.applies.again()
    await world.settled()
    assert world.reports[-1] == ("t", "own", "completed")


async def test_a_queued_apply_is_sent_once_while_its_answer_is_pending() -> None:
    world = ApplyWorld(["own", "another"], theirs=[DONE], own=[DONE])
    world.answering.clear()
    await world.follow("theirs", afterwards=True)
    assert world.asks == 1
    world.applies.again()  # the end of the other run caused a refresh
    await world.settled()
    world.applies.noticed("t", [listed("own", RUNNING)])  # the platform has accepted the request
    await world.settled()
    world.answering.set()
    await world.settled()
    for _ in range(3):
        world.applies.again()
        await world.settled()
    assert world.asks == 1
    assert world.reports == [("t", "theirs", "completed"), ("t", "own", "completed")]
    assert not world.applies.waits("t")


async def test_another_context_has_no_runs() -> None:
    world = ApplyWorld(r=[RUNNING] * 1_000)
    world.applies.follow("t", started("r").operation)
    world.applies.start_afterwards("t")
    await asyncio.sleep(0)
    world.applies.stop()
    await world.settled()
    assert (world.applies.running, world.applies.waits("t"), world.reports) == ([], False, [])


def test_unlisted_types_and_a_cancelled_run_are_explained() -> None:
    unlisted = {"resourceType": "secret", "resourceId": "", "reason": "backend_unavailable", "message": "later"}
    zero = dict.fromkeys(("examined", "updated", "unchanged", "skipped", "failed"), 0)
    result = {"summary": zero | {"unlisted": 1}, "byType": {"secret": zero | {"unlisted": 1}}, "failures": [unlisted]}
    operation = ApplyOperation.model_validate({"operationId": "apply-x", "status": "completed", "result": result})
    warning = "! 1 type not examined, because it could not be listed: secret"
    assert warning in [line.plain for line in progress_lines(operation, 100)]

    failing = {"resourceType": "volume", "resourceId": "v", "reason": "invalid_state"}
    # An earlier version of the platform counts the type as failed.
    numbers = {"examined": 5, "updated": 2, "unchanged": 0, "skipped": 1, "failed": 3}
    result = ApplyResult.model_validate({"summary": numbers, "failures": [unlisted, failing, failing]})
    lines = [line.plain for line in preview_lines(result, "the stored tags", 100)]
    counts = "2 would change · 0 unchanged · 1 skipped · 2 failing"
    assert lines[:2] == [counts, "of 5 resources, for the stored tags"]  # the counts leave out the unlisted type
    assert warning in lines
    assert not_changed_text(result) == "0 complete, 1 skipped, 2 failures expected"

    error = "cancelled by an operator of the platform"
    operation = ApplyOperation(operation_id="apply-x", status="cancelled", error=error, error_code="cancelled")
    text = "\n".join(line.plain for line in progress_lines(operation, 120))
    assert text.startswith("× cancelled")
    assert f"! {error} [cancelled]" in text
    assert "Ask the operator" in text


NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


def tenant(tenant_id: str, status: str) -> Tenant:
    names = dict.fromkeys(("display_name", "slug", "organization_id", "organization_name", "role"), "x")
    return Tenant(id=tenant_id, status=status, run_id="r", created_at=NOW, updated_at=NOW, **names)


NEW, READY = tenant("t", "provisioning"), tenant("t", "active")


class ProvisioningWorld(Tasks):
    """A platform with prepared answers that `let` delivers, and the reports to the workspace."""

    def __init__(self, *answers: Operation | FrostError) -> None:
        super().__init__()
        self.answers = list(answers)
        self.gate = asyncio.Semaphore(0)
        self.ended: list[Any] = []
        self.provisioning = Provisioning(self.watch, self.spawn, lambda: None, lambda *about: self.ended.append(about))

    async def watch(self, *_: object) -> AsyncIterator[Operation]:
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
    completed = Operation(operation_id="o", status="completed")
    world = ProvisioningWorld(UNREACHABLE, Operation(operation_id="o", status="running", progress=20), completed)
    world.provisioning.noticed([NEW])
    await world.let()  # a failed watch begins again with the next list of tenants
    assert (world.provisioning.of("t"), world.ended) == (None, [])
    for _ in range(3):
        world.provisioning.noticed([NEW, tenant("other", "active")])
    assert len(world.provisioning.running) == 1
    await world.let()
    assert [operation.progress for operation in world.provisioning.running] == [20]
    assert world.provisioning.of("other") is None
    await world.let()
    world.provisioning.noticed([READY])
    await world.let()
    assert (world.ended, world.provisioning.running) == ([("t", completed)], [])


async def test_a_stopped_watch_reports_nothing() -> None:
    for answers in (0, 1):
        world = ProvisioningWorld(*(Operation(operation_id="o", status=status) for status in ("running", "failed")))
        world.provisioning.noticed([NEW])
        await world.let(answers)
        world.provisioning.stop()
        await world.let(2)
        assert (world.provisioning.of("t"), world.ended) == (None, [])
