"""Where the screens are painted: the terminal, written to so that nobody is held up when it takes nothing more.

Textual's writing thread dies of the first error, and whoever paints then waits for it for ever; so does everybody
while a terminal is stopped. This file never raises, and can be told to let go.
"""

import contextlib
import os
import select
from collections.abc import Callable, Iterable
from typing import IO

LOOK_SECONDS = 0.1
"""How often a write that the terminal does not take looks whether it is to be given up."""


def put(fileno: int, data: bytes, given_up: Callable[[], bool]) -> bool:
    """Write all of it to a file that does not block; False when it was given up or nobody takes it any more."""
    left = memoryview(data)
    while left:
        if given_up():
            return False
        try:
            left = left[os.write(fileno, left) :]
        except BlockingIOError:
            select.select([], [fileno], [], LOOK_SECONDS)
        except OSError:
            return False
    return True


class Output:
    """A file for `WriterThread`. `gone` is true when the terminal takes nothing, or nothing more is to be written."""

    def __init__(self, stream: IO[str]) -> None:
        self.gone = False
        self._stream = stream
        self._fileno = stream.fileno()
        self._waiting: list[str] = []
        # A description of our own: made non-blocking, the shared one would change for the shell as well.
        with contextlib.suppress(OSError):
            self._fileno = os.open(os.ttyname(self._fileno), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)

    def let_go(self) -> None:
        """Write nothing any more, and nothing of what still waits. What writes at its end writes nowhere as well."""
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
        """Hand on what waits; returns when the terminal has taken it or is given up."""
        data = "".join(self._waiting).encode("utf-8", "replace")
        self._waiting.clear()
        if not put(self._fileno, data, lambda: self.gone):
            self.let_go()
