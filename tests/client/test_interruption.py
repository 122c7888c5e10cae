"""What ends a wait, and when (checklist L21, L22)."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from client.commands.interruption import ends_waiting, from_now_on_ignored, held

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Python's own handling of Ctrl-C, and afterwards what there was."""
    former = {number: signal.getsignal(number) for number in ENDINGS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDINGS, ids=lambda number: number.name)
def test_each_ending_is_ctrl_c_while_waiting_and_is_itself_again_afterwards(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), ends_waiting():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_what_was_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ends_waiting(), held():
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), ends_waiting():
        signal.raise_signal(signal.SIGTERM)


def test_once_the_end_is_being_told_nothing_cuts_it_short() -> None:
    """L22: the command still prints what goes on when the second SIGTERM, or a terminal's SIGHUP, arrives."""
    with ends_waiting():
        from_now_on_ignored()
    assert {signal.getsignal(number) for number in ENDINGS} == {signal.SIG_IGN}


def interrupted(*numbers: signal.Signals, refused: bool = False) -> bool:
    """Whether what was being sent got its answer, when these came on the way."""
    answered = False

    def send() -> None:
        nonlocal answered
        with ends_waiting(), held():
            for number in numbers:
                signal.raise_signal(number)
            answered = True
            if refused:
                raise ValueError

    with pytest.raises(KeyboardInterrupt):
        send()
    return answered


@pytest.mark.parametrize("number", ENDINGS, ids=lambda number: number.name)
def test_what_is_being_sent_gets_its_answer_before_it_counts(number: signal.Signals) -> None:
    assert interrupted(number)
    assert interrupted(number, refused=True)


def test_a_second_one_does_not_wait_for_the_answer() -> None:
    assert not interrupted(signal.SIGINT, signal.SIGTERM)


def test_without_one_nothing_happens() -> None:
    with ends_waiting(), held():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


ENDING = """
import sys, threading, time, tui.__main__ as start
def run(_):
    threading.Thread(target=time.sleep, args=({busy},)).start()
    {then}
start._run = run
threading.Thread(target=lambda: (time.sleep(0.5), print("told", flush=True)), daemon=True).start()
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
def test_once_all_is_said_ctrl_c_changes_nothing_and_no_thread_holds_the_end_up_for_long(
    busy: float, then: str, code: int
) -> None:
    script = ENDING.format(busy=busy, then=then)
    begun = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"told\n"  # it waits for the thread now
        if code != 1:
            process.send_signal(signal.SIGINT)
        _, complained = process.communicate(timeout=60)
        assert process.returncode == code
        assert (b"ValueError" in complained) == (code == 1), complained
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_program_begun_with_a_closed_stream_ends_as_any_other(closed: str) -> None:
    script = "import sys, tui.__main__ as start; start._run = lambda _: 0; sys.exit(start.main([]))"
    shell = f'exec {closed}>&-; exec "$0" -c "$1"'
    assert subprocess.run(["sh", "-c", shell, sys.executable, script], check=False).returncode == 0
