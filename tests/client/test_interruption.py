"""What ends a wait, and when (checklist L21, L22)."""

import signal
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
