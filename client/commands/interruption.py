"""Ctrl-C and what counts as it, where a command waits for something that goes on without it (checklist L21, L22)."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ends_waiting() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP raise KeyboardInterrupt as Ctrl-C does; what is ignored stays so (nohup)."""
    former = {number: signal.getsignal(number) for number in _ENDINGS}
    try:
        for number, handler in former.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, _as_ctrl_c)
        yield
    finally:
        for number, handler in former.items():
            if signal.getsignal(number) is _as_ctrl_c:  # not when nothing may interrupt any more
                signal.signal(number, handler)


@contextmanager
def held() -> Iterator[None]:
    """Within it the first interruption waits for the end: what is being sent gets its answer. A second one does not.

    Raises:
        KeyboardInterrupt: It came.
    """
    former = signal.getsignal(signal.SIGINT)
    caught = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal caught
        if caught:
            raise KeyboardInterrupt
        caught = True

    if former is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
        if caught:
            raise KeyboardInterrupt


def from_now_on_ignored() -> None:
    """Nothing interrupts any more: the command is about to say how it ended, and ends."""
    for number in (signal.SIGINT, *_ENDINGS):
        signal.signal(number, signal.SIG_IGN)


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)  # a running event loop has one of its own
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:
        raise KeyboardInterrupt
