"""Signals during a wait and at the end of a command."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from client import operations
from client.commands.default_tags.apply_job import Going, _interruptible
from client.commands.interruption import deferred, ends_waiting, from_now_on_ignored
from client.errors import FrostError

pytestmark = pytest.mark.process

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Handle Ctrl-C as Python does and SIGHUP by default, also under nohup. Restore the handlers afterwards."""
    former = {number: signal.getsignal(number) for number in ENDINGS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


def test_signals_interrupt_a_wait_and_are_restored_afterwards() -> None:
    for number in ENDINGS:
        before = signal.getsignal(number)
        with pytest.raises(KeyboardInterrupt), ends_waiting():
            signal.raise_signal(number)
        assert signal.getsignal(number) is before
    with ends_waiting(), deferred():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with ends_waiting(), deferred():
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), ends_waiting():
        signal.raise_signal(signal.SIGTERM)


def test_the_final_report_is_not_interrupted() -> None:
    """The command still prints what goes on when the second SIGTERM, or a terminal's SIGHUP, arrives."""
    with ends_waiting():
        from_now_on_ignored()
    assert {signal.getsignal(number) for number in ENDINGS} == {signal.SIG_IGN}


def run_script(script: str) -> "tuple[int, bytes, bytes]":
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, timeout=50)
    return done.returncode, done.stdout, done.stderr


def interrupted(*numbers: signal.Signals, refused: bool = False) -> bool:
    """Whether the request in flight got its response if these interruptions arrived during it."""
    answered = False

    def send() -> None:
        nonlocal answered
        with ends_waiting(), deferred():
            for number in numbers:
                signal.raise_signal(number)
            answered = True
            if refused:
                raise ValueError

    with pytest.raises(KeyboardInterrupt):
        send()
    return answered


def test_a_request_on_the_way_gets_its_answer_before_the_first_interruption_but_not_the_second() -> None:
    for number in ENDINGS:
        assert interrupted(number)
        assert interrupted(number, refused=True)
    assert not interrupted(signal.SIGINT, signal.SIGTERM)


async def interrupted_operation() -> dict[str, Any]:
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(60)
    return {}


def interrupt_loop() -> None:
    operations._until_interrupted(interrupted_operation())


def interrupt_program() -> None:
    signal.raise_signal(signal.SIGINT)


def interrupt_request() -> None:
    with deferred():
        signal.raise_signal(signal.SIGINT)


def interrupt_again(wait: Callable[[], None], number: signal.Signals, events: int) -> tuple[str, bool]:
    """Interrupt a wait, and again some calls and returns later. Return the error, and whether it came so far."""
    left = events
    is_interrupted = False

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal left, is_interrupted
        is_interrupted = is_interrupted or argument is signal.raise_signal
        left -= is_interrupted
        if not left:
            sys.setprofile(None)
            signal.raise_signal(number)

    try:
        with _interruptible() as going:
            going[:] = [Going("apply-1", "run-1", "the apply continues")]
            sys.setprofile(count)
            wait()
    except FrostError as error:
        sys.setprofile(None)
        return error.message, left <= 0
    except KeyboardInterrupt:
        return "KeyboardInterrupt", True
    finally:
        sys.setprofile(None)
    return "no interruption", True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("wait", [interrupt_loop, interrupt_program, interrupt_request])
def test_a_second_interruption_at_any_moment_leaves_the_name_of_the_run(
    wait: Callable[[], None], number: signal.Signals
) -> None:
    events = 0
    is_second_sent = True
    while is_second_sent:
        events += 1
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        message, is_second_sent = interrupt_again(wait, number, events)
        assert message == "stopped waiting; the apply continues (operation apply-1, run run-1)", events
    assert events > 5


def test_an_interruption_after_the_end_of_the_loop_is_an_interruption() -> None:
    """The first signal can arrive when the loop is closed and its handlers are not restored yet."""

    def interrupt(frame: FrameType, event: str, argument: object) -> None:
        if event == "return" and frame.f_code is asyncio.BaseEventLoop.close.__code__:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    async def completed() -> dict[str, Any]:
        sys.setprofile(interrupt)
        return {}

    with pytest.raises(KeyboardInterrupt):
        operations._until_interrupted(completed())


ENDING = """
import sys, threading, time, tui.__main__ as start
def run(_):
    threading.Thread(target=time.sleep, args=({busy},)).start()
    {then}
start._run = run
threading.Thread(target=lambda: (time.sleep(0.5), print("ready", flush=True)), daemon=True).start()
sys.exit(start.main([]))
"""
"""A program that has done everything while a thread goes on, as one does that looks up a name."""


@pytest.mark.parametrize(
    ("busy", "then", "code"),
    [
        (60, "raise KeyboardInterrupt", 130),
        pytest.param(60, "return 7", 7, marks=pytest.mark.slow),
        (1.5, "return 0", 0),
        (1.5, "raise ValueError", 1),
    ],
    ids=["interrupted", "refused", "done", "broken"],
)
def test_ctrl_c_after_the_result_changes_nothing(busy: float, then: str, code: int) -> None:
    script = ENDING.format(busy=busy, then=then)
    begun = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"  # it waits for the thread now
        if code != 1:
            process.send_signal(signal.SIGINT)
        _, complained = process.communicate(timeout=60)
        assert process.returncode == code
        assert (b"ValueError" in complained) == (code == 1), complained
    assert time.monotonic() - begun < 30


def test_standard_streams_that_are_closed_are_not_given_to_other_files() -> None:
    """A program that begins with a closed stream ends as any other."""
    script = "import os, sys, tui.__main__ as start; start._run = lambda _: os.open('/', 0) - 3; sys.exit(start.main())"
    for closed in "012":
        shell = f'exec {closed}>&-; exec "$0" -c "$1"'
        done = subprocess.run(["sh", "-c", shell, sys.executable, script], check=False)
        assert done.returncode == 0, closed


def test_a_closed_stream_keeps_the_exit_code_unless_output_is_lost(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": ""}
    for words, closed, code in (
        ("tenant nonsense", "2", 2),
        ("tenant nonsense", "1", 2),
        ("config show", "2", 0),
        ("config show", "1", 1),
    ):
        shell = ["/bin/sh", "-c", f'exec {closed}>&-; exec "$0" -m tui {words}', sys.executable]
        done = subprocess.run(shell, env=environment, capture_output=True, check=False)
        assert done.returncode == code, done
        assert b"Traceback" not in done.stderr
        if code == 1:
            assert done.stderr == b"frost: the output could not be written: Bad file descriptor\n"


INTERRUPTED_IMPORT = """
import importlib.abc, signal, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "{module}":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
sys.modules.pop("{module}", None)
sys.argv = ["/usr/local/bin/frost", "--version"]
from tui.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["contextlib", "threading", "tui.launch", "client.commands.root", "client.text"])
def test_ctrl_c_while_the_program_is_loaded_prints_nothing(module: str) -> None:
    assert run_script(INTERRUPTED_IMPORT.format(module=module)) == (130, b"", b"")


DROPPED = """
import contextlib, signal, sys, time, weakref
from client.commands import interruption, root
sys.argv = ["frost"]
import tui.__main__ as start

class Thing: pass

def callback(_):
    signal.raise_signal(signal.SIGINT)

def command(words):
    thing = Thing()
    reference = weakref.ref(thing, callback)
    with {waiting}:
        del thing  # Python prints and drops an exception of the callback, as for those of the import system
        time.sleep(60)
    return 0

root.main = command
sys.exit(start.main(["tenant"]))
"""


@pytest.mark.parametrize("waiting", ["contextlib.nullcontext()", "interruption.ends_waiting()"])
def test_ctrl_c_that_python_drops_is_not_lost(waiting: str) -> None:
    assert run_script(DROPPED.format(waiting=waiting)) == (130, b"", b"")


IMPORTING = """
import importlib, sys, time
sys.argv = ["frost"]
import tui.__main__ as start
from client.commands import root

def command(words):
    try:
        sys.path.insert(0, {folder!r})
        importlib.import_module("interrupted_module")
        time.sleep(60)
    except KeyboardInterrupt:
        print(sys.modules["interrupted_module"].complete)
        raise
    return 0

root.main = command
sys.exit(start.main(["tenant"]))
"""


def test_an_import_that_is_interrupted_is_completed_first(tmp_path: Path) -> None:
    module = tmp_path / "interrupted_module.py"
    module.write_text("import signal\nsignal.raise_signal(signal.SIGINT)\ncomplete = True\n")
    assert run_script(IMPORTING.format(folder=str(tmp_path))) == (130, b"True\n", b"")


def test_a_program_that_ignores_ctrl_c_goes_on_ignoring_it() -> None:
    script = (
        "import signal, sys, tui.__main__ as start\n"
        "from client.commands import root\n"
        "root.main = lambda words: signal.raise_signal(signal.SIGINT) or 7\n"
        "sys.exit(start.main(['tenant']))"
    )
    shell = 'trap \'\' INT; exec "$0" -c "$1"'
    done = subprocess.run(["sh", "-c", shell, sys.executable, script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (7, b"")


ENDS_AFTER_AN_IMPORT = """
import sys, time
from client.commands import interruption

class SlowEnd:
    def __del__(self, sleep=time.sleep):
        sleep(0.1)  # longer than the pause before a repeated signal; the interpreter has dropped its handlers

interruption.install()
slow_end = SlowEnd()
import interrupted
"""


def test_a_process_that_ends_drops_a_repeated_interruption(tmp_path: Path) -> None:
    """Otherwise SIGALRM, back to its default, kills the process after it printed its result."""
    (tmp_path / "interrupted.py").write_text("import signal; signal.raise_signal(signal.SIGINT)\n")
    paths = [str(tmp_path), str(Path(__file__).parents[2])]
    program = f"import sys; sys.path[:0] = {paths!r}\n{ENDS_AFTER_AN_IMPORT}"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
