"""The terminal driver: Esc without delay, whole characters, non-blocking output, job control, exit at a hang-up."""

import asyncio
import contextlib
import os
import select
import selectors
import signal
import sys
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable
from io import TextIOWrapper
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

if TYPE_CHECKING:
    from textual.app import App

    from tui.terminal.shutdown import ShutdownWatcher

LOOK_SECONDS = 0.1
"""Interval at which a blocked write checks whether it is cancelled."""

BACKGROUND_SECONDS = 2.0
"""How long a program that continues in the background waits for a signal that ends it."""


def put(fileno: int, data: bytes, cancelled: Callable[[], bool]) -> bool:
    """Write all data to a non-blocking file. Return False if the write is cancelled or fails."""
    left = memoryview(data)
    while left:
        if cancelled():
            return False
        try:
            left = left[os.write(fileno, left) :]
        except BlockingIOError:
            select.select([], [fileno], [], LOOK_SECONDS)
        except OSError:
            return False
    return True


class Output:
    """A file for `WriterThread`. `gone` is true once output is discarded."""

    def __init__(self, stream: IO[str]) -> None:
        self.gone = False
        self._stream = stream
        self._fileno = stream.fileno()
        self._waiting: list[str] = []
        # Open the terminal again: O_NONBLOCK on the inherited file description would affect the shell.
        with contextlib.suppress(OSError):
            self._fileno = os.open(os.ttyname(self._fileno), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)

    def discard_output(self) -> None:
        """Discard pending and further output, also of standard output and standard error."""
        if not self.gone:
            self.gone = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for fileno in (1, 2):
                os.dup2(nowhere, fileno)
            os.close(nowhere)

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._waiting.append(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self._waiting.extend(lines)

    def flush(self) -> None:
        """Write the pending output. Returns after the terminal has read it, or discards it."""
        data = "".join(self._waiting).encode("utf-8", "replace")
        self._waiting.clear()
        if not put(self._fileno, data, lambda: self.gone):
            self.discard_output()


IDLE_SECONDS = 0.1
WATCHFUL_SECONDS = 0.005
WATCHFUL_LOOKS = 25  # number of quick polls after the last byte: longer than our ESCDELAY


def listen(fileno: int, stopped: threading.Event, hear: Callable[[bytes], None], tick: Callable[[], None]) -> bool:
    """Dispatch input and time out incomplete keys. Return False at the end of the input.

    Textual's loops check timeouts only every 100 ms, independent of ESCDELAY. This one polls fast while a key may be
    incomplete, and slowly otherwise, to use no CPU when idle.
    """
    looks = 0
    with selectors.DefaultSelector() as selector:
        selector.register(fileno, selectors.EVENT_READ)
        while not stopped.is_set():
            if selector.select(WATCHFUL_SECONDS if looks else IDLE_SECONDS):
                looks = WATCHFUL_LOOKS
                data = _read(fileno)
                if data is None:
                    return False
                hear(data)
            elif looks:
                looks -= 1
            tick()
    return True


def _read(fileno: int) -> bytes | None:
    """Return the input; None at its end."""
    try:
        return os.read(fileno, 4096) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None


class Program(Protocol):
    """Interface of the application for its driver."""

    shutdown: "ShutdownWatcher | None"

    def hung_up(self) -> None:
        """Handle the end of the input. The driver calls this from its own thread."""


class FrostDriver(LinuxDriver):
    """Reads keys without delay, paints without blocking, and exits when the terminal hangs up."""

    def __init__(self, app: "App[Any]", **settings: Any) -> None:
        super().__init__(app, **settings)
        self._program = cast(Program, app)
        self._output = Output(sys.__stderr__)  # type: ignore[arg-type]  # without standard error, no screens are opened
        self._file = cast(TextIOWrapper, self._output)
        self._event_loop = asyncio.get_running_loop()

    def discard_output(self) -> None:
        """Discard further output. Callable from any thread."""
        self._output.discard_output()

    @property
    def _has_terminal(self) -> bool:
        """Whether the writer thread runs. It does not while the program is stopped, or after a lost terminal."""
        return self._writer_thread is not None and self._writer_thread.is_alive()

    def write(self, data: str) -> None:
        # Without the writer thread, its queue would fill up.
        if not self._output.gone and self._has_terminal:
            super().write(data)

    # Without the writer thread the terminal is restored already, and may belong to another program.

    def disable_input(self) -> None:
        if self._has_terminal:
            # In the background, the terminal would stop the program when its input is discarded.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
            super().disable_input()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def stop_application_mode(self) -> None:
        if self._has_terminal:
            if not self._is_in_foreground():
                self.attrs_before = None  # they would replace those of the shell
            super().stop_application_mode()

    def _disable_mouse_support(self) -> None:
        super()._disable_mouse_support()
        if self._mouse_pixels:  # which Textual leaves on
            self.write("\x1b[?1016l")
            self._mouse_pixels = False
            self.flush()

    def _sigtstp_application(self, *_: object) -> None:
        """Stop the process in the event loop. In the signal handler, writes block if they interrupt another write."""
        if self._auto_restart and self._event_loop.is_running():
            self._event_loop.call_soon_threadsafe(super()._sigtstp_application)
        else:  # an editor has the terminal, and the event loop waits for it; or the screens have ended
            os.kill(os.getpid(), signal.SIGSTOP)

    def _sigcont_application(self, *_: object) -> None:
        if self._auto_restart and self._event_loop.is_running():
            self._event_loop.call_soon_threadsafe(self._continue)

    def _continue(self) -> None:
        """Take the terminal again, after a stop by SIGTSTP or SIGSTOP.

        In the background, stop again as the terminal would, but not before a signal that ends the program is handled:
        `kill %1` of a shell sends one before SIGCONT, and another thread may receive it.
        """
        if not self._is_in_foreground():
            self._event_loop.call_later(BACKGROUND_SECONDS, self._stop_in_background)
            return
        if not self._must_signal_resume:
            self.suspend_application_mode()
        self.resume_application_mode()
        self._app.refresh(layout=True)

    def _stop_in_background(self) -> None:
        shutdown = self._program.shutdown
        if shutdown is not None and shutdown.is_signalled:
            return
        if not self._is_in_foreground():
            os.kill(os.getpid(), signal.SIGSTOP)
        elif not self._has_terminal:
            self._continue()

    def _is_in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self.fileno) == os.getpgrp()
        except OSError:  # the terminal is lost, and stops nobody
            return True

    def _get_terminal_size(self) -> tuple[int, int]:
        """Return columns and lines of the terminal. Textual prefers COLUMNS and LINES, which do not follow a resize."""
        try:
            columns, lines = os.get_terminal_size(self.fileno)
        except OSError:
            columns, lines = 0, 0
        return (columns, lines) if columns and lines else super()._get_terminal_size()

    def run_input_thread(self) -> None:
        """Parse and dispatch input until the driver stops or the terminal is gone."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode

        def dispatch(messages: Iterable[Message]) -> None:
            for message in messages:
                self.process_message(message)

        def hear(data: bytes) -> None:
            text = decode(data)
            # An empty string means end of input to the parser. An incomplete character decodes to an empty string.
            dispatch(parser.feed(text) if text else ())

        if not listen(self.fileno, self.exit_event, hear, lambda: dispatch(parser.tick())):
            self._program.hung_up()
