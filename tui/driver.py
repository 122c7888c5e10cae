"""The terminal driver with three traps closed: a bare Esc that took 107 ms, half a letter, a terminal that vanished."""

import os
import selectors
import sys
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, cast

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from tui.output import Output

if TYPE_CHECKING:
    from tui.app import FrostApp

IDLE_SECONDS = 0.1
WATCHFUL_SECONDS = 0.005
WATCHFUL_LOOKS = 25  # how many quick looks follow the last byte: longer than any ESCDELAY of ours


def listen(fileno: int, stopped: threading.Event, hear: Callable[[bytes], None], tick: Callable[[], None]) -> bool:
    """Hand on what can be read, and look after incomplete keys; False when there is nobody left to read from.

    Textual's own loops look at their time-outs only every 100 ms, whatever ESCDELAY says. This one looks often while
    a key may still be incomplete, and rarely otherwise, so that idling costs nothing.
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
    """What was typed; None when the terminal has hung up."""
    try:
        return os.read(fileno, 4096) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None


class FrostDriver(LinuxDriver):
    """Reads keys promptly, paints without being held up, and ends the program when nobody is left to read from."""

    def __init__(self, app: "FrostApp", **settings: Any) -> None:
        super().__init__(app, **settings)
        self._frost = app
        self._output = Output(sys.__stderr__)  # type: ignore[arg-type]  # of a program without one no screens are made
        self._file = cast(TextIOWrapper, self._output)

    def let_go(self) -> None:
        """Nothing waits for the terminal any more; from any thread."""
        self._output.let_go()

    def write(self, data: str) -> None:
        # Resumed on a terminal that vanished meanwhile, the thread that writes has not begun anew, and its queue fills.
        if not self._output.gone and self._writer_thread is not None and self._writer_thread.is_alive():
            super().write(data)

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

        def dispatch(messages: Iterable[Message]) -> None:
            for message in messages:
                self.process_message(message)

        def hear(data: bytes) -> None:
            text = decode(data)
            # Nothing is the parser's word for the end, after which it hears no key. Half a letter is nothing yet.
            dispatch(parser.feed(text) if text else ())

        if not listen(self.fileno, self.exit_event, hear, lambda: dispatch(parser.tick())):
            self._frost.hung_up()
