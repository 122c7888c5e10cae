"""Interrupted waits for an apply, on real terminals, at random moments."""

import json
import os
import signal
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.tagging import SLOW, Tags, flat, whole
from tests.conftest import signed_in
from tests.terminal import Program

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def slow(demo_platform: Path) -> Iterator[Tags]:
    with signed_in(demo_platform, **SLOW) as home:
        tags = Tags(home)
        tags.set("a=1")
        yield tags


def applying(slow: Tags, *words: str, columns: int = 100) -> Program:
    """A command that waits for an apply, after all earlier ones."""
    slow.ended_runs()
    program = slow.on_terminal("default-tags", "apply", "--yes", *words, columns=columns)
    program.wait_for("updated")
    return program


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("times", [1, 2])
def test_every_ending_names_the_operation_and_leaves_the_run_alone(
    slow: Tags, number: signal.Signals, times: int
) -> None:
    program = applying(slow)
    settings = termios.tcgetattr(program.fd)
    for _ in range(times):
        # Ctrl-C as the terminal sends it; another signal as another program does.
        program.write(b"\x03") if number == signal.SIGINT else os.kill(program.pid, number)
    ended = program.wait_end()
    assert ended == 130
    assert whole(program, ended), program.raw()[-300:]
    assert settings[3] & termios.ECHO
    shown = flat(program.text)
    assert "Traceback" not in shown
    if times == 1:
        for text in (f"apply-default-tags-{slow.tenant}", "the apply continues", f"tenant: {slow.tenant}"):
            assert text in shown
    run = slow.ended_runs()[0]
    assert (run["runId"] in shown, run["status"]) == (True, "completed")


def test_the_error_document_of_an_interrupted_wait_names_the_run(slow: Tags) -> None:
    program = applying(slow, "-o", "json", columns=2000)
    program.write(b"\x03")
    assert program.wait_end() == 130
    line = next(line for line in program.text.splitlines() if line.startswith('{"error"'))
    error = json.loads(line)["error"]
    assert error["code"] == "INTERRUPTED"
    assert error["details"]["operationId"] == f"apply-default-tags-{slow.tenant}"
    assert error["details"]["runId"] == slow.ended_runs()[0]["runId"]


def test_waiting_for_another_run_can_be_stopped_too_and_starts_nothing(slow: Tags) -> None:
    slow.ended_runs()
    running = slow.done("default-tags", "apply", "--yes", "--no-wait")
    program = slow.on_terminal("default-tags", "apply", "--yes")
    program.wait_for("waiting for it")
    program.write(b"\x03")
    assert program.wait_end() == 130
    assert "the apply was not started" in flat(program.text)
    assert running["runId"] in flat(program.text)
    assert slow.ended_runs()[0]["runId"] == running["runId"]
