"""Stop signals from the first line of the platform until its server handles them.

They are blocked, and a thread waits for them. A handler would run only between two steps of the interpreter, and a
statement of a migration is one step, however long it takes. Process 1 of a container also needs the block: the kernel
discards a signal of process 1 that is neither handled nor blocked, and `frost platform serve` blocks the signals before
it becomes this program.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
CLEANUP_SECONDS = 1.5
"""How long to wait for the clean-up. A database that does not answer must not delay the end."""
_WAKE = signal.SIGUSR2


class StartSignals:
    """Ends the process at a stop signal, with 128 + its number, until `hand_over`.

    The process ends as it does when it is killed: an open transaction of SQLite is rolled back by the next start.
    """

    def __init__(self) -> None:
        self.numbers = [number for number in STOP_SIGNALS if not _is_left_ignored(number)]
        """The signals that stop the platform."""
        self._cleanups: list[Callable[[], object]] = []
        self._is_handed_over = False
        self._signalled = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="start signals", daemon=True)

    def start(self) -> None:
        """Block the signals and wait for them. Call in the main thread, before other threads start."""
        for number in self.numbers:
            signal.signal(number, _do_nothing)  # an ignored signal would be discarded although it is blocked
        signal.pthread_sigmask(signal.SIG_BLOCK, self.numbers)
        self._thread.start()

    def before_end(self, cleanup: Callable[[], object]) -> None:
        """Add a function that a signal calls before the process ends, in its own thread."""
        self._cleanups.append(cleanup)

    def hand_over(self) -> None:
        """Unblock the signals, whose handlers are installed by now. Call in the main thread."""
        self._is_handed_over = True
        signal.pthread_kill(self._thread.ident or 0, _WAKE)
        self._thread.join()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self.numbers)

    def await_end(self) -> None:
        """Do not return if a signal ends the process: a failure of the start is then its effect."""
        if self._signalled.is_set():
            self._thread.join()

    def _wait(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [_WAKE])
        number = _WAKE
        while number == _WAKE:
            number = signal.Signals(signal.sigwait([*self.numbers, _WAKE]))
            if self._is_handed_over:
                if number != _WAKE:
                    os.kill(os.getpid(), number)
                return
        self._signalled.set()
        cleaning = threading.Thread(target=self._clean_up, daemon=True)
        cleaning.start()
        cleaning.join(CLEANUP_SECONDS)
        with suppress(OSError, ValueError):
            sys.stderr.write(f"frost platform: stopped by {number.name} while starting\n")
            sys.stderr.flush()
        os._exit(128 + number)

    def _clean_up(self) -> None:
        for cleanup in reversed(self._cleanups):
            with suppress(Exception):
                cleanup()


def _is_left_ignored(number: signal.Signals) -> bool:
    """Return whether the signal was ignored at the start (nohup) and stays so. Ctrl-C and SIGTERM always stop."""
    return number in (signal.SIGHUP, signal.SIGQUIT) and signal.getsignal(number) is signal.SIG_IGN


def _do_nothing(*_: object) -> None:
    """Handle a signal that the thread waits for."""
