"""The terminal driver with two traps closed: a bare Esc that took 107 ms, and a terminal that vanished.

Textual's own loop looks at its time-outs only every 100 ms, whatever ESCDELAY says. This one looks often
while a key may still be incomplete, and rarely otherwise, so that idling costs nothing.
"""

import os
import selectors
from codecs import getincrementaldecoder
from collections.abc import Iterable

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

IDLE_SECONDS = 0.1
WATCHFUL_SECONDS = 0.005
WATCHFUL_LOOKS = 25  # how many quick looks follow the last byte: longer than any ESCDELAY of ours


class FrostDriver(LinuxDriver):
    """Reads keys promptly, and ends the program when there is nobody left to read from."""

    def _get_terminal_size(self) -> tuple[int, int]:
        """Columns and lines of the terminal itself: COLUMNS and LINES, which Textual asks first, do not follow it."""
        try:
            columns, lines = os.get_terminal_size(self.fileno)
        except OSError:
            columns, lines = 0, 0
        return (columns, lines) if columns and lines else super()._get_terminal_size()

    def run_input_thread(self) -> None:
        """Read, parse and dispatch until the driver stops or the terminal is gone."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        looks = 0
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(WATCHFUL_SECONDS if looks else IDLE_SECONDS):
                    looks = WATCHFUL_LOOKS
                    data = self._read()
                    if data is None:
                        self._app.call_later(self._app.exit, return_code=129)
                        return
                    self._dispatch(parser.feed(decode(data)) if data else ())
                elif looks:
                    looks -= 1
                self._dispatch(parser.tick())

    def _read(self) -> bytes | None:
        """What was typed; None when the terminal has hung up."""
        try:
            return os.read(self.fileno, 4096) or None
        except BlockingIOError:
            return b""
        except OSError:
            return None

    def _dispatch(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.process_message(message)
