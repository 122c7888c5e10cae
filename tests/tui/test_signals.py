"""Signals end the screens with a documented exit code, and the terminal is as it was before."""

import os
import re
import signal
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import signed_in
from tests.homes import Home
from tests.terminal import Program
from tests.waiting import until

pytestmark = pytest.mark.slow

SECONDS = 60.0
"""For a busy machine."""
_MODE = re.compile(rb"\x1b\[\?(\d+)([hl])")
_KEYBOARD = re.compile(rb"\x1b\[([<>])\d*u")
ON_AT_FIRST = {b"7", b"25"}
"""The modes that a terminal has at first: lines wrap, and the cursor is shown."""


@pytest.fixture(scope="module")
def home(demo_platform: Path) -> Iterator[Home]:
    with signed_in(demo_platform) as home:
        yield home


@pytest.fixture
def program(home: Home, tmp_path: Path) -> Iterator[Program]:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\ntrap '' HUP TERM INT QUIT\necho EDITOR HERE\nwhile :; do sleep 0.1; done\n")
    editor.chmod(0o700)
    (home.path / ".cli" / "state.json").unlink(missing_ok=True)
    for draft in (home.path / ".cli" / "drafts").glob("*.json"):
        draft.unlink()
    env = home.environment({"COLORTERM": "truecolor", "EDITOR": str(editor)})
    program = Program([sys.executable, "-m", "tui"], 120, 36, env=env, inherit=False)
    yield program
    if program.alive:
        program.close()


def attributes(program: Program) -> list[Any]:
    return termios.tcgetattr(program.fd)


def changed_modes(program: Program) -> set[bytes]:
    """The modes of the terminal that the program changed and did not restore."""
    last = dict(_MODE.findall(program.raw()))
    modes = {mode for mode, letter in last.items() if (letter == b"h") != (mode in ON_AT_FIRST)}
    levels = [1 if letter == b">" else -1 for letter in _KEYBOARD.findall(program.raw())]
    return modes | ({b"keyboard"} if sum(levels) > 0 else set())


def end(program: Program, before: list[Any], number: signal.Signals) -> None:
    os.kill(program.pid, number)
    seen: list[list[Any]] = []

    def is_over() -> bool:
        while program.pump(0):
            pass
        seen[:] = [attributes(program)]
        return os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    until(is_over, SECONDS)
    assert program.wait_end(SECONDS) == 128 + number
    assert seen == [before]
    assert changed_modes(program) == set()
    assert b"Traceback" not in program.raw()


def starting(program: Program) -> None:
    """The handlers of the signals are installed. Python 3.11 gives the thread that acts on them no name in /proc."""

    def catches_all() -> bool:
        status = Path(f"/proc/{program.pid}/status").read_text()
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        return all(caught >> (number - 1) & 1 for number in SIGNALS)

    until(catches_all)


def loading(program: Program) -> None:
    program.wait_until(lambda: b"\x1b[?1049h" in program.raw(), "the alternate screen")


def shown(program: Program) -> None:
    program.wait_for("Data Lake")


def in_a_dialog(program: Program) -> None:
    shown(program)
    program.press("ctrl+t")
    program.wait_for("Switch tenant")


def in_an_editor(program: Program) -> None:
    shown(program)
    program.press("2")
    program.wait_for("deployments")
    program.press("enter")
    program.wait_for("within your permissions")
    program.press("f4")
    program.wait_for("EDITOR HERE")


def stopped_and_continued(program: Program) -> None:
    shown(program)
    os.kill(program.pid, signal.SIGTSTP)
    until(lambda: state(program.pid) == "T")
    os.kill(program.pid, signal.SIGCONT)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PHASES = (starting, loading, shown, in_a_dialog, stopped_and_continued)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_a_signal_ends_the_screens_in_every_phase(program: Program, phase: Any, number: signal.Signals) -> None:
    before = attributes(program)
    phase(program)
    end(program, before, number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_the_screens_behind_an_editor_that_ignores_it(program: Program, number: signal.Signals) -> None:
    before = attributes(program)
    in_an_editor(program)
    end(program, before, number)


def test_the_keys_of_signals_are_for_the_editor(program: Program) -> None:
    before = attributes(program)
    in_an_editor(program)
    for number in (signal.SIGINT, signal.SIGQUIT):
        os.kill(program.pid, number)
    program.until_quiet(1, 2)
    end(program, before, signal.SIGTERM)


@pytest.mark.parametrize(
    "number", [signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU], ids=lambda number: number.name
)
def test_a_signal_of_a_timer_a_limit_or_another_program_restores_the_terminal_too(
    program: Program, number: signal.Signals
) -> None:
    before = attributes(program)
    shown(program)
    end(program, before, number)


HANGING = """
import sys, threading
import tui.shell.app as app
ready = app.FrostApp.on_ready
def hang(self):
    ready(self)
    self.set_timer(1, lambda: (sys.stdout.flush(), threading.Event().wait()))
app.FrostApp.on_ready = hang
from tui.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_screens_whose_event_loop_hangs_end_and_restore_the_terminal(home: Home, number: signal.Signals) -> None:
    env = home.environment({"COLORTERM": "truecolor", "PYTHONPATH": str(Path.cwd())})
    program = Program([sys.executable, "-c", HANGING], 120, 36, env=env, inherit=False)
    before = attributes(program)
    program.wait_for("Tenants")
    program.until_quiet(1.5, 10)
    end(program, before, number)
