"""Shutdown of the screens by a signal or after a hang-up of the terminal (in a browser: of the tab).

A thread waits for both without polling. It works in every phase: during the imports, behind a dialog, while an editor
has the terminal, and while the event loop hangs in a write to a blocked terminal. If the screens do not exit in time,
the process is ended: without a terminal, it would run forever.
"""

import contextlib
import os
import select
import signal
import termios
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import subprocess

HUNG_UP: Final = 128 + signal.SIGHUP
"""The exit code after a hang-up, as shells report the signal."""
SIGNALS: Final = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    # From timers, limits and other programs. Their default also ends a process without restoring its terminal.
    signal.SIGALRM,
    signal.SIGPROF,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGVTALRM,
    signal.SIGXCPU,
)
ORDERLY_SECONDS: Final = 1.0
"""How long the screens have to exit before output is discarded."""
LAST_SECONDS: Final = 0.8
"""How long they have after that, to write drafts and store a refreshed session."""
RESET: Final = (
    b"\x1b\\"  # the end of a string that was cut
    b"\x1b[?2026l\x1b[?2048l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # frames, sizes, mouse
    b"\x1b[?2004l\x1b[?1004l\x1b[<u"  # paste, focus, keyboard protocol
    b"\x1b[?7h\x1b[?1049l\x1b[0m\x1b[?25h"  # wrapped lines, the normal screen, plain text, the cursor
)
"""Turns off every mode of a terminal that the screens turn on."""
EDITOR_SECONDS: Final = 0.4
"""How long an editor has to exit after its SIGHUP."""
GRACE_SECONDS: Final = 5.0
"""How long to wait for threads: a refreshed session is lost unless it is stored."""


def await_threads(code: int) -> None:
    """Wait for non-daemon threads, up to a limit, then exit with `code`. The interpreter would wait without limit.

    A thread may wait for a platform to start, or for a name server. Executors must be shut down before: their idle
    workers are alive as well.
    """
    until = time.monotonic() + GRACE_SECONDS
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                os._exit(code)


class ShutdownWatcher:
    """Watches the terminal of the process. `code` is the exit code, set when the shutdown begins."""

    def __init__(self, terminal: int) -> None:
        self.code: int | None = None
        self.is_signalled = False
        """Whether a signal has arrived."""
        self.is_late = False
        """Whether output was discarded before the screens exited."""
        self.editor: subprocess.Popen[bytes] | None = None
        """The editor that has the terminal."""
        self._terminal = terminal
        self._leave: Callable[[int], None] | None = None
        self._discard_output: Callable[[], None] = lambda: None
        self._before: list[Any] | None = None
        with contextlib.suppress(termios.error):
            self._before = termios.tcgetattr(terminal)
        self._wakes, self._wake = os.pipe()
        os.set_blocking(self._wake, False)

    def watch(self) -> None:
        """Install the signal handlers and start the thread. Call in the main thread."""
        self.take_signals()
        threading.Thread(target=self._run, name="shutdown", daemon=True).start()

    def take_signals(self) -> None:
        """Install the signal handlers, also after another library has replaced them. Call in the main thread."""
        for number in SIGNALS:
            signal.signal(number, self._signalled)

    def attach(self, leave: Callable[[int], None], discard_output: Callable[[], None]) -> None:
        """Register the screens.

        Args:
            leave: Exits the screens with a code; called in the thread.
            discard_output: Discards further output to the terminal; called in the thread.
        """
        self._leave, self._discard_output = leave, discard_output

    def request(self, code: int) -> None:
        """Start the shutdown. Callable from any thread and from a signal handler.

        Only the first call has an effect: a hang-up is reported in several ways.
        """
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, bytes([code]))

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self.is_signalled = True
        self.request(128 + number)

    def _run(self) -> None:
        self.code = self._first()
        if self._leave is None:
            os._exit(self.code)
        if self.code == HUNG_UP and self._terminal_closed():
            self._discard_output()
        self._leave(self.code)
        until = time.monotonic() + ORDERLY_SECONDS
        while time.monotonic() < until:
            self._end_editor()
            time.sleep(0.02)
        self.is_late = True
        self._discard_output()
        time.sleep(LAST_SECONDS)
        self.restore_terminal()
        os._exit(self.code)

    def restore_terminal(self) -> None:
        """Restore the modes of the terminal, whose screens have not done so. It may have gone to another program."""
        with contextlib.suppress(OSError, termios.error):
            if os.tcgetpgrp(self._terminal) != os.getpgrp():
                return
            # Open the terminal again: a write must not block, and O_NONBLOCK would affect the shell.
            name = os.ttyname(self._terminal)
            output = os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            termios.tcflush(output, termios.TCOFLUSH)  # a terminal that reads nothing has no room for more
            os.write(output, RESET)
            os.close(output)
        if self._before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._terminal, termios.TCSANOW, self._before)

    def _first(self) -> int:
        """Wait for a signal or a hang-up. Return the exit code."""
        poll = select.poll()
        poll.register(self._wakes, select.POLLIN)
        poll.register(self._terminal, 0)  # POLLHUP is always reported
        while True:
            for fileno, seen in poll.poll():
                if fileno == self._wakes:
                    return os.read(self._wakes, 1)[0]
                if seen & select.POLLHUP:
                    return HUNG_UP
                poll.unregister(fileno)  # cannot be polled; the thread that reads keys detects the hang-up

    def _terminal_closed(self) -> bool:
        poll = select.poll()
        poll.register(self._terminal, 0)
        return any(seen & select.POLLHUP for _, seen in poll.poll(0))

    def _end_editor(self) -> None:
        """End the editor first: the program is blocked until it exits. Its saved text is used."""
        editor = self.editor
        if editor is None:
            return
        until = time.monotonic() + EDITOR_SECONDS
        editor.send_signal(signal.SIGHUP)
        while editor.returncode is None:  # set by the thread that waits for it
            if time.monotonic() > until:
                editor.kill()
                return
            time.sleep(0.02)
