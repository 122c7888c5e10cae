"""How the screens end from outside: by a signal, or because their terminal (in a browser: the tab) is gone.

A thread of its own waits for either and costs nothing meanwhile. It works in every phase: while the screens are being
loaded, behind a dialog, while the program is handed to an editor, and when the event loop hangs in the middle of a
write to a terminal that has stopped reading. What cannot be ended in good order in time is ended all the same: a
program without its terminal would go on for ever otherwise.
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
"""The exit code when the terminal vanished: the one a shell reports for its signal."""
SIGNALS: Final = (signal.SIGHUP, signal.SIGTERM)
ORDERLY_SECONDS: Final = 1.2
"""How long the screens have to leave before nothing is painted any more."""
LAST_SECONDS: Final = 1.2
"""How long they have after that: a draft is written, a refreshed session stored."""
EDITOR_SECONDS: Final = 0.4
"""How long an editor that the terminal was handed to has to end after its SIGHUP."""
GRACE_SECONDS: Final = 5.0
"""How long an end waits for what a thread is doing: a session being refreshed must be stored, or it is lost."""


def await_threads(code: int) -> None:
    """Wait for the threads that the interpreter would wait for without end; what takes too long ends with the program.

    One may wait for a platform to start, or for a name that nobody answers for. Executors were shut down before: a
    worker that waits for work counts as busy here.
    """
    until = time.monotonic() + GRACE_SECONDS
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                os._exit(code)


class Ending:
    """Watches the terminal of one process from its beginning. `code` is the exit code once an end has begun."""

    def __init__(self, terminal: int) -> None:
        self.code: int | None = None
        self.editor: subprocess.Popen[bytes] | None = None
        """What the terminal is handed to at the moment."""
        self._terminal = terminal
        self._leave: Callable[[int], None] | None = None
        self._let_go: Callable[[], None] = lambda: None
        self._before: list[Any] | None = None
        with contextlib.suppress(termios.error):
            self._before = termios.tcgetattr(terminal)
        self._wakes, self._wake = os.pipe()
        os.set_blocking(self._wake, False)

    def watch(self) -> None:
        """Begin: take the signals over and look at the terminal. For the main thread."""
        self.take_signals()
        threading.Thread(target=self._run, name="ending", daemon=True).start()

    def take_signals(self) -> None:
        """For the main thread; again after somebody else has taken them."""
        for number in SIGNALS:
            signal.signal(number, self._signalled)

    def attach(self, leave: Callable[[int], None], let_go: Callable[[], None]) -> None:
        """From now on there are screens to be left.

        Args:
            leave: Leaves them in good order with an exit code; called in this object's thread.
            let_go: Makes that nothing waits for the terminal any more; called in this object's thread.
        """
        self._leave, self._let_go = leave, let_go

    def begin(self, code: int) -> None:
        """End the program; from any thread, and from a signal's handler. The first one counts: several ways of telling
        of the same vanished terminal come together."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, bytes([code]))

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self.begin(128 + number)

    def _run(self) -> None:
        self.code = self._first()
        if self._leave is None:
            os._exit(self.code)
        if self.code == HUNG_UP and self._vanished():
            self._let_go()
        self._leave(self.code)
        until = time.monotonic() + ORDERLY_SECONDS
        while time.monotonic() < until:
            self._end_editor()
            time.sleep(0.02)
        self._let_go()
        time.sleep(LAST_SECONDS)
        if self._before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._terminal, termios.TCSANOW, self._before)
        os._exit(self.code)

    def _first(self) -> int:
        """Wait for a signal or for the terminal to hang up, whichever is first; the exit code."""
        poll = select.poll()
        poll.register(self._wakes, select.POLLIN)
        poll.register(self._terminal, 0)  # a hang-up is told without being asked for
        while True:
            for fileno, seen in poll.poll():
                if fileno == self._wakes:
                    return os.read(self._wakes, 1)[0]
                if seen & select.POLLHUP:
                    return HUNG_UP
                poll.unregister(fileno)  # a terminal that cannot be watched: the reader of its keys finds its end

    def _vanished(self) -> bool:
        poll = select.poll()
        poll.register(self._terminal, 0)
        return any(seen & select.POLLHUP for _, seen in poll.poll(0))

    def _end_editor(self) -> None:
        """The editor goes first: the program is blocked until it is gone. What it has written comes back."""
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
