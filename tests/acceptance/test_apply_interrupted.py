"""Interrupted waits for an apply, on real terminals, at random moments."""

import json
import os
import signal
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.tagging import SLOW, Tags, flat, interrupt, whole
from tests.conftest import signed_in

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def slow(demo_platform: Path) -> Iterator[Tags]:
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
