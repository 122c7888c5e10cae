"""A terminal that vanishes, and signals, end the screens whatever they are doing.

SIGHUP is ignored at the start, as under nohup, so that the kernel's own signal does not do the work.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import opened
from tests.homes import Home
from tests.terminal import Program, key_bytes

pytestmark = pytest.mark.slow

SECONDS = 30.0
"""A program that hangs is ended after 2.4 s; the rest is for a machine that has others to serve."""
CPU_SECONDS = 1.5
"""Leaving in good order takes a quarter of a second of it; a program that spins takes all there is."""


@pytest.fixture(scope="module")
def home(demo_platform: Path) -> Iterator[Home]:
    home = opened(demo_platform, FROST_PLATFORM_PROVISIONING_PACE="600", FROST_PLATFORM_APPLY_PACE="600")
    home.sign_in()
    yield home
    home.remove()


def detached(home: Home, *words: str, **env: str) -> Program:
    """A command on its own terminal, deaf to SIGHUP."""
    deaf = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-m", "tui", *words]
    return Program(deaf, 120, 36, env=home.environment({"COLORTERM": "truecolor", **env}), inherit=False)


def state(pid: int) -> tuple[str, float]:
    """How a process is, and the CPU seconds it has used; Z when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "Z", 0.0
    return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ended(pid: int, *, since: float) -> float:
    """The CPU seconds used until the process was gone; fails when it stays."""
    until, used = time.monotonic() + SECONDS, since
    while (now := state(pid))[0] != "Z":
        used = now[1]
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            pytest.fail(f"still there, in state {now[0]}, after {used - since:.2f} s of CPU")
        time.sleep(0.02)
    return used - since


def vanish(program: Program) -> int:
    """Close the terminal and see the program end; its exit code."""
    before = state(program.pid)[1]
    os.close(program.fd)
    program.alive = False
    assert ended(program.pid, since=before) < CPU_SECONDS
    return os.waitstatus_to_exitcode(os.waitpid(program.pid, 0)[1])


def ask(program: Program, number: int) -> int:
    """Send a signal and see the program end; its exit code."""
    os.kill(program.pid, number)
    return program.wait_end(SECONDS)


def loading(home: Home, editor: str) -> Program:
    program = detached(home)
    until = time.monotonic() + 60
    while len(list(Path(f"/proc/{program.pid}/task").iterdir())) < 2:  # the thread that looks after its end has begun
        assert time.monotonic() < until
    return program


def idle(home: Home, editor: str) -> Program:
    program = detached(home)
    program.wait_for("Data Lake")
    return program


def in_a_dialog(home: Home, editor: str) -> Program:
    program = idle(home, editor)
    program.press("ctrl+t")
    program.wait_for("Switch tenant")
    return program


def editing(home: Home, editor: str) -> Program:
    program = detached(home, EDITOR=editor)
    program.wait_for("Data Lake")
    program.press("2")
    program.wait_for("deployments")
    program.press("enter")
    program.wait_for("within your permissions")
    program.press("down", "end", " ")
    program.wait_for("unsaved")
    return program


def in_an_editor(home: Home, editor: str) -> Program:
    program = editing(home, editor)
    program.press("f4")
    program.wait_for("EDITOR HERE")
    return program


def applying(home: Home, editor: str) -> Program:
    home.frost("tenant", "default-tags", "apply", "--yes", "--no-wait")  # with a pace at which it does not end
    program = idle(home, editor)
    program.write(b":apply\r")
    program.wait_for("Apply in Web Shop")
    return program


@pytest.fixture(autouse=True)
def begun_anew(home: Home) -> None:
    """The screens would begin where the last ones ended."""
    (home.path / ".cli" / "state.json").unlink(missing_ok=True)


PHASES = [loading, idle, in_a_dialog, editing, in_an_editor, applying]


@pytest.fixture(params=PHASES, ids=lambda phase: phase.__name__)
def program(request: pytest.FixtureRequest, home: Home, tmp_path: Path) -> Iterator[Program]:
    """The screens in the phase, with an editor that ends for no signal it can refuse."""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\ntrap '' HUP TERM INT\necho EDITOR HERE\nwhile :; do sleep 0.1; done\n")
    editor.chmod(0o700)
    drafts = home.path / ".cli" / "drafts"
    for draft in drafts.glob("*.json") if drafts.exists() else ():
        draft.unlink()
    phase: Callable[[Home, str], Program] = request.param
    program = phase(home, str(editor))
    yield program
    if program.alive:
        program.close()
    if phase in (editing, in_an_editor):
        assert len(list(drafts.glob("*.json"))) == 1
    assert not subprocess.run(["pgrep", "-f", str(editor)], capture_output=True, check=False).stdout
    assert b"Traceback" not in program.raw()


def test_a_vanished_terminal_ends_the_screens_in_every_phase(program: Program) -> None:
    assert vanish(program) == 128 + signal.SIGHUP


def test_sigterm_ends_the_screens_in_every_phase(program: Program) -> None:
    assert ask(program, signal.SIGTERM) == 128 + signal.SIGTERM


@pytest.mark.parametrize("program", [in_a_dialog, in_an_editor], ids=lambda phase: phase.__name__, indirect=True)
def test_sighup_is_handled_although_it_was_ignored(program: Program) -> None:
    assert ask(program, signal.SIGHUP) == 128 + signal.SIGHUP


def test_a_terminal_that_reads_nothing_does_not_hold_up_the_end(home: Home) -> None:
    program = idle(home, "")
    until = time.monotonic() + 3
    while time.monotonic() < until:  # more than any buffer between the two holds
        program.write(key_bytes("?") + key_bytes("escape"))
        time.sleep(0.02)
    os.kill(program.pid, signal.SIGTERM)
    ended(program.pid, since=0.0)
    assert os.waitstatus_to_exitcode(os.waitpid(program.pid, 0)[1]) == 128 + signal.SIGTERM
    os.close(program.fd)


def test_a_stopped_program_ends_with_its_terminal(home: Home) -> None:
    """The shell is killed with its terminal: the kernel wakes the job that nobody would continue."""
    shell = Program(
        ["/bin/bash", "--norc", "-i"], 120, 36, env=home.environment({"COLORTERM": "truecolor"}), inherit=False
    )
    shell.write(f"trap '' HUP; {sys.executable} -m tui\n".encode())
    shell.wait_for("Data Lake")
    children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
    pid = int(children[0])
    os.kill(pid, signal.SIGTSTP)
    until = time.monotonic() + 60
    while state(pid)[0] != "T":
        assert time.monotonic() < until
        shell.pump(0.05)
    before = state(pid)[1]
    os.kill(shell.pid, signal.SIGKILL)
    os.close(shell.fd)
    assert ended(pid, since=before) < CPU_SECONDS
    os.waitpid(shell.pid, 0)


def test_a_command_that_waits_for_an_apply_ends(home: Home) -> None:
    """Deaf to the hang-up it goes on, as was asked for, and still hears SIGTERM; the apply goes on without it."""
    words = ("tenant", "default-tags", "apply", "--yes")
    for deaf in (False, True):
        program = (
            detached(home, *words)
            if deaf
            else Program([sys.executable, "-m", "tui", *words], 120, 36, env=home.environment(), inherit=False)
        )
        program.wait_for("0%:")
        before = state(program.pid)[1]
        os.close(program.fd)
        if deaf:
            time.sleep(2)
            assert state(program.pid)[0] == "S"
            os.kill(program.pid, signal.SIGTERM)
        assert ended(program.pid, since=before) < CPU_SECONDS
        os.waitpid(program.pid, 0)
