"""The driver for a browser tab: input and output are packets over standard input and output."""

import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers._byte_stream import ByteStream
from textual.drivers.web_driver import WebDriver
from textual.message import Message

from tui.terminal.driver import Program, listen, put

if TYPE_CHECKING:
    from textual.app import App


class BrowserDriver(WebDriver):
    """Textual's web driver, but it exits when the tab is gone and does not block on a browser that reads no output."""

    def __init__(self, app: "App[Any]", **settings: Any) -> None:
        super().__init__(app, **settings)
        self._program = cast(Program, app)
        self._gone = False
        os.set_blocking(self.fileno, False)  # this pipe has no other writer
        self._write = partial(self._send)

    def discard_output(self) -> None:
        """Discard further output. Callable from any thread."""
        self._gone = True

    def start_application_mode(self) -> None:
        super().start_application_mode()
        # Textual's web driver starts without focus. The first key of a page that never reported its focus would be
        # lost.
        self._app.call_later(self._app.post_message, events.AppFocus())
        if self._program.shutdown is not None:
            self._program.shutdown.take_signals()

    def run_input_thread(self) -> None:
        """Parse and dispatch packets until the driver stops or the tab is gone."""
        packets = ByteStream()
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode

        def dispatch(messages: Iterable[Message]) -> None:
            for message in messages:
                self.process_message(message)

        def hear(data: bytes) -> None:
            for kind, payload in packets.feed(data) if data else ():
                if kind == "D":
                    dispatch(parser.feed(decode(payload)))
                else:
                    self._on_meta(kind, payload)

        assert sys.__stdin__ is not None
        if not listen(sys.__stdin__.fileno(), self.exit_event, hear, lambda: dispatch(parser.tick())):
            self._program.hung_up()

    def _send(self, data: bytes) -> int:
        if not put(self.fileno, data, lambda: self._gone):
            self._gone = True
        return len(data)
