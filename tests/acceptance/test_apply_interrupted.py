"""Interrupted waits for an apply, on real terminals, at random moments."""

import json
import os
import random
import signal
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.shell import signed_in
from tests.acceptance.tagging import SLOW, Tags, flat, interrupt, whole

pytestmark = pytest.mark.slow

MOMENTS = 40
STARTING = 1.0
"""Seconds an interpreter may take to begin on a busy machine."""
PYTHON_STOPPED = ("Could not import runpy module", "Failed to import the site module")
"""What an interpreter says that is stopped while it loads its own modules: it exits with 1 then."""


@pytest.fixture(scope="module")
def slow(demo_platform: Path) -> Iterator[Tags]:
    """Applies that take some seconds."""
    with signed_in(demo_platform, **SLOW) as home:
        tags = Tags(home)
        tags.set("a=1")
        yield tags


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("times", [1, 2])
def test_every_ending_names_the_operation_and_leaves_the_run_alone(
    slow: Tags, number: signal.Signals, times: int
) -> None:
    before = {one["runId"] for one in slow.wait_for_runs(0)}
    program = slow.on_terminal("default-tags", "apply", "--yes")
    program.wait_for("updated")
    settings = termios.tcgetattr(program.fd)
    for _ in range(times):
        interrupt(program, number)
    ended = program.wait_end()
    assert ended == 130
    assert whole(program, ended)
    assert settings[3] & termios.ECHO
    shown = flat(program.text)
    assert "Traceback" not in shown
    mine = next(one for one in slow.runs() if one["runId"] not in before)
    if times == 1:
        assert f"apply-default-tags-{slow.tenant}" in shown
        assert "the apply continues" in shown
        assert f"tenant: {slow.tenant}" in shown
    assert mine["runId"] in shown
    over = slow.wait_for_runs(1)[0]
    assert (over["runId"], over["status"]) == (mine["runId"], "completed")


def test_a_closed_terminal_ends_the_waiting_alone_and_the_error_document_names_the_run(slow: Tags) -> None:
    slow.wait_for_runs(0)
    program = slow.on_terminal("default-tags", "apply", "--yes")
    program.wait_for("updated")
    os.close(program.fd)
    _, status = os.waitpid(program.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert slow.wait_for_runs(1)[0]["status"] == "completed"
    program = slow.on_terminal("default-tags", "apply", "--yes", "-o", "json", columns=2000)
    program.wait_for("updated")
    interrupt(program)
    assert program.wait_end() == 130
    line = next(line for line in program.text.splitlines() if line.startswith('{"error"'))
    error = json.loads(line)["error"]
    assert error["code"] == "INTERRUPTED"
    assert error["details"]["operationId"] == f"apply-default-tags-{slow.tenant}"
    assert error["details"]["runId"] == slow.wait_for_runs(1)[0]["runId"]


def test_waiting_for_another_run_can_be_stopped_too_and_starts_nothing(slow: Tags) -> None:
    slow.wait_for_runs(0)
    running = slow.done("default-tags", "apply", "--yes", "--no-wait")
    program = slow.on_terminal("default-tags", "apply", "--yes")
    program.wait_for("waiting for it")
    interrupt(program)
    assert program.wait_end() == 130
    assert "the apply was not started" in flat(program.text)
    assert running["runId"] in flat(program.text)
    assert slow.wait_for_runs(1)[0]["runId"] == running["runId"]


@pytest.fixture(scope="module")
def brisk(demo_platform: Path) -> Iterator[Tags]:
    """Applies that take a little over a second."""
    with signed_in(demo_platform, FROST_PLATFORM_APPLY_PACE="0.03") as home:
        tags = Tags(home)
        tags.set("a=1")
        yield tags


def test_random_moments(brisk: Tags) -> None:
    """Ctrl-C at any moment: before the start, on the way, while waiting, at the end."""
    chance = random.Random(MOMENTS)
    stopped = 0
    for _ in range(MOMENTS):
        before = {one["runId"] for one in brisk.wait_for_runs(0)}
        program = brisk.on_terminal("default-tags", "apply", "--yes")
        moment = chance.uniform(0.2, 2.0)
        until = time.monotonic() + moment
        while program.alive and time.monotonic() < until:
            program.pump(0.02)
        if program.alive:
            interrupt(program)
        ended = program.wait_end()
        shown = flat(program.text)
        runs = brisk.runs()
        mine = [one for one in runs if one["runId"] not in before]
        if moment < STARTING and not mine:  # Python itself may still be starting; a shell tells -2 as 130 as well
            itself = ended == 1 and any(words in shown for words in PYTHON_STOPPED)
            assert itself or ended in (130, -signal.SIGINT), (moment, ended, shown)
            continue
        assert ended in (130, 0), (moment, ended, shown)
        assert whole(program, ended), (moment, program.raw()[-300:])
        assert "Traceback" not in shown
        assert len(mine) <= 1
        if mine and ended == 130:
            stopped += 1
            # Interrupted while it prints the result, which ends with the tenant, it need not name the operation.
            is_result = f"tenant: {brisk.tenant}" in shown
            assert is_result or f"apply-default-tags-{brisk.tenant}" in shown, (moment, shown)
        assert all(one["status"] == "completed" for one in brisk.wait_for_runs(len(runs)))
    assert stopped
