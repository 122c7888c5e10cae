"""A terminal that vanishes, and signals, end the screens in every phase.

SIGHUP is ignored at the start, as under nohup, so that the kernel's own signal does not do the work.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import signed_in
from tests.homes import Home
from tests.terminal import Program, key_bytes, on_terminal
from tests.waiting import until

pytestmark = pytest.mark.slow

SECONDS = 30.0
"""A program that hangs is ended after 2.4 s; the rest is for a busy machine."""
CPU_SECONDS = 1.5
"""An orderly end takes a quarter of a second of CPU; a program that spins takes all there is."""


@pytest.fixture(scope="module")
def home(demo_platform: Path) -> Iterator[Home]:
    """A platform whose applies do not end."""
    with signed_in(demo_platform, FROST_PLATFORM_APPLY_PACE="600") as home:
        yield home


@pytest.fixture(autouse=True)
def fresh_start(home: Home) -> None:
    """The screens would begin where the last ones ended."""
    (home.path / ".cli" / "state.json").unlink(missing_ok=True)


CLEAR = b"\x1b[2J"


def detached(home: Home, *words: str, shows: str = "Data Lake", **env: str) -> Program:
    """A command on its own terminal that ignores SIGHUP, once it shows a text."""
    command = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-m", "tui", *words]
    program = Program(command, 120, 36, env=home.environment({"COLORTERM": "truecolor", **env}), inherit=False)
    if shows:
        program.wait_for(shows)
    return program


def state(pid: int) -> tuple[str, float]:
    """The state of a process, Z when it is gone, and the CPU seconds it has used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "Z", 0.0
    return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def expect_end(pid: int, cpu: float = CPU_SECONDS) -> int:
    """Wait for the end of a process that may use so many CPU seconds for it; return its exit code."""
    end, before = time.monotonic() + SECONDS, state(pid)[1]
    used = before
    while (now := state(pid))[0] != "Z":
        used = now[1]
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            pytest.fail(f"still there, in state {now[0]}, after {used - before:.2f} s of CPU")
        time.sleep(0.02)
    assert used - before < cpu
    with contextlib.suppress(ChildProcessError):  # a child of the shell
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return 0


def vanish(program: Program) -> int:
    """Close the terminal, and wait for the end of the program; return its exit code."""
    os.close(program.fd)
    program.alive = False
    return expect_end(program.pid)


def loading(home: Home, editor: str) -> Program:
    program = detached(home, shows="")
    # The thread that handles its end has begun.
    until(lambda: len(list(Path(f"/proc/{program.pid}/task").iterdir())) >= 2)
    return program


def in_a_dialog(home: Home, editor: str) -> Program:
    program = detached(home)
    program.press("ctrl+t")
    program.wait_for("Switch tenant")
    return program


def editing(home: Home, editor: str) -> Program:
    program = detached(home, EDITOR=editor)
    for keys, text in (
        (["2"], "deployments"),
        (["enter"], "within your permissions"),
        (["down", "end", " "], "unsaved"),
    ):
        program.press(*keys)
        program.wait_for(text)
    return program


def in_an_editor(home: Home, editor: str) -> Program:
    program = editing(home, editor)
    program.press("f4")
    program.wait_for("EDITOR HERE")
    return program


def applying(home: Home, editor: str) -> Program:
    home.frost("tenant", "default-tags", "apply", "--yes", "--no-wait")
    program = detached(home)
    program.write(b":apply\r")
    program.wait_for("Apply in Web Shop")
    return program


@pytest.fixture(params=[loading, in_a_dialog, editing, in_an_editor, applying], ids=lambda phase: phase.__name__)
def program(request: pytest.FixtureRequest, home: Home, tmp_path: Path) -> Iterator[Program]:
    """The screens in the phase, with an editor that ignores every signal it can ignore."""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\ntrap '' HUP TERM INT\necho EDITOR HERE\nwhile :; do sleep 0.1; done\n")
    editor.chmod(0o700)
    drafts = home.path / ".cli" / "drafts"
    for draft in drafts.glob("*.json") if drafts.exists() else ():
        draft.unlink()
    program = request.param(home, str(editor))
    yield program
    if program.alive:
        program.close()
    if request.param in (editing, in_an_editor):
        assert len(list(drafts.glob("*.json"))) == 1
    assert not subprocess.run(["pgrep", "-f", str(editor)], capture_output=True, check=False).stdout
    assert b"Traceback" not in program.raw()


def test_a_vanished_terminal_ends_the_screens_in_every_phase(program: Program) -> None:
    assert vanish(program) == 128 + signal.SIGHUP


def test_sigterm_ends_the_screens_in_every_phase(program: Program) -> None:
    os.kill(program.pid, signal.SIGTERM)
    assert program.wait_end(SECONDS) == 128 + signal.SIGTERM


@pytest.mark.parametrize("program", [in_a_dialog, in_an_editor], ids=lambda phase: phase.__name__, indirect=True)
def test_sighup_is_handled_although_it_was_ignored(program: Program) -> None:
    os.kill(program.pid, signal.SIGHUP)
    assert program.wait_end(SECONDS) == 128 + signal.SIGHUP


def test_a_terminal_that_reads_nothing_does_not_hold_up_the_end(home: Home) -> None:
    program = detached(home)
    end = time.monotonic() + 3
    while time.monotonic() < end:  # more than any buffer between the two has room for
        program.write(key_bytes("?") + key_bytes("escape"))
        time.sleep(0.02)
    os.kill(program.pid, signal.SIGTERM)
    assert expect_end(program.pid, SECONDS) == 128 + signal.SIGTERM
    os.close(program.fd)


def wait_for_stop(terminal: Program, pid: int) -> None:
    end = time.monotonic() + SECONDS
    while state(pid)[0] != "T":
        assert time.monotonic() < end
        terminal.pump(0.02)


def test_the_screens_stop_while_they_paint_and_paint_again_when_they_continue(home: Home) -> None:
    program = on_terminal(home)
    program.wait_for("Data Lake")
    for number in range(60):
        program.write((key_bytes("?") + key_bytes("escape")) * (1 + number % 5))
        program.pump(0.02 * (number % 7))
        os.kill(program.pid, signal.SIGTSTP if number % 10 else signal.SIGSTOP)
        wait_for_stop(program, program.pid)
        os.kill(program.pid, signal.SIGCONT)
    program.until_quiet(1, SECONDS)
    program.press("escape")  # a stop discards keys
    program.wait_for("Data Lake")
    os.kill(program.pid, signal.SIGTSTP)
    wait_for_stop(program, program.pid)
    program.replay()
    program.emulator.feed(CLEAR)
    assert "Data Lake" not in program.text
    os.kill(program.pid, signal.SIGCONT)
    program.wait_for("Data Lake")
    program.close()


def test_a_stopped_program_ends_with_its_terminal(home: Home) -> None:
    """The shell is killed with its terminal: the kernel continues the stopped job."""
    env = home.environment({"COLORTERM": "truecolor"})
    shell = Program(["/bin/bash", "--norc", "-i"], 120, 36, env=env, inherit=False)
    shell.write(f"trap '' HUP; {sys.executable} -m tui\n".encode())
    shell.wait_for("Data Lake")
    pid = int(Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()[0])
    os.kill(pid, signal.SIGTSTP)
    wait_for_stop(shell, pid)
    os.kill(shell.pid, signal.SIGKILL)
    os.close(shell.fd)
    expect_end(pid)
    os.waitpid(shell.pid, 0)


def test_a_command_that_waits_for_an_apply_ends(home: Home) -> None:
    """It continues without its terminal if it ignores SIGHUP, and ends at SIGTERM; the apply continues without it."""
    words = ("tenant", "default-tags", "apply", "--yes")
    program = on_terminal(home, *words)
    program.wait_for("0%:")
    vanish(program)
    program = detached(home, *words, shows="0%:")
    os.close(program.fd)
    time.sleep(2)
    assert state(program.pid)[0] == "S"
    os.kill(program.pid, signal.SIGTERM)
    expect_end(program.pid)
