"""SIGINT, SIGTERM and SIGHUP while a command waits for work that continues without it."""

import atexit
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_Handler = Callable[[int, FrameType | None], Any]
_ENDINGS = (signal.SIGTERM, signal.SIGHUP)
_REPEAT_SECONDS = 0.01


def install() -> None:
    """Raise KeyboardInterrupt for SIGINT only where the exception reaches the command.

    During an import it could leave a module incomplete. In a destructor or a weak reference callback, as the
    import system has many of, Python prints and drops it. In these cases the signal is repeated after a moment. A
    process that ignores SIGINT continues to ignore it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    signal.signal(signal.SIGALRM, _interrupt_again)
    # The interpreter resets handlers while it ends; SIGALRM would then kill the process. It keeps SIG_IGN.
    atexit.register(signal.signal, signal.SIGALRM, signal.SIG_IGN)
    sys.unraisablehook = _repeat_if_dropped
    signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib") or frame.f_code is _repeat_if_dropped.__code__:
            signal.setitimer(signal.ITIMER_REAL, _REPEAT_SECONDS)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _interrupt_again(number: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)


def _repeat_if_dropped(dropped: "sys.UnraisableHookArgs") -> None:
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        handler = signal.getsignal(signal.SIGINT)
        if isinstance(handler, _EndsOnce):
            handler.has_ended = False
        signal.setitimer(signal.ITIMER_REAL, _REPEAT_SECONDS)
    else:
        sys.__unraisablehook__(dropped)


class _EndsOnce:
    """Handler that raises KeyboardInterrupt for the first signal only. Another one would interrupt its report."""

    def __init__(self, former: _Handler) -> None:
        self._former = former
        self.has_ended = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        current = signal.getsignal(signal.SIGINT)
        if current is not self and callable(current):  # of `deferred`, or of a running event loop
            current(signal.SIGINT, frame)
        elif not self.has_ended:
            self.has_ended = True
            self._former(signal.SIGINT, frame)
            self.has_ended = False  # in an import, the signal is repeated


@contextmanager
def ends_waiting() -> Iterator[None]:
    """Let the first of SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt. Ignored signals stay ignored (nohup)."""
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ENDINGS)}
    interrupt = _EndsOnce(_as_function(former[signal.SIGINT]))
    try:
        for number, handler in former.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, interrupt)
        yield
    finally:
        for number, handler in former.items():
            if signal.getsignal(number) is interrupt:  # unless the signals are ignored by now
                signal.signal(number, handler)


@contextmanager
def deferred() -> Iterator[None]:
    """Delay the first interruption to the end, so that a request gets its response. A second one interrupts at once.

    Raises:
        KeyboardInterrupt: An interruption was delayed.
    """
    former = signal.getsignal(signal.SIGINT)
    interrupt = _as_function(former)
    caught = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal caught
        if caught:
            signal.signal(signal.SIGINT, former)  # which `interrupt` would call otherwise
            interrupt(number, frame)
        caught = True

    if former is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
        if caught:
            interrupt(signal.SIGINT, None)


def from_now_on_ignored() -> None:
    """Ignore further signals: the command is about to print its result and end."""
    for number in (signal.SIGINT, *_ENDINGS):
        signal.signal(number, signal.SIG_IGN)


def _as_function(handler: _Handler | int | None) -> _Handler:
    return handler if callable(handler) else signal.default_int_handler
