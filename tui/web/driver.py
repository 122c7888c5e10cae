"""The driver of the screens in a browser tab: keys and picture travel as packets over standard input and output."""

import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers._byte_stream import ByteStream
from textual.drivers.web_driver import WebDriver
from textual.message import Message

from tui.driver import listen
from tui.output import put

if TYPE_CHECKING:
    from tui.app import FrostApp


class BrowserDriver(WebDriver):
    """Textual's, which goes on without anybody at its end and is held up by one who reads nothing; this one is not."""

    def __init__(self, app: "FrostApp", **settings: Any) -> None:
        super().__init__(app, **settings)
        self._frost = app
        self._gone = False
        os.set_blocking(self.fileno, False)  # a pipe that nobody else writes to
        self._write = partial(self._send)

    def let_go(self) -> None:
        """Nothing waits for the browser any more; from any thread."""
        self._gone = True

    def start_application_mode(self) -> None:
        super().start_application_mode()
        # It begins without the keyboard, and the first key of a page that never told of its focus went astray.
        self._app.call_later(self._app.post_message, events.AppFocus())
        if self._frost.ending is not None:
            self._frost.ending.take_signals()

    def run_input_thread(self) -> None:
        """Unpack, parse and dispatch until the driver stops or the tab is gone."""
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
            self._frost.hung_up()

    def _send(self, data: bytes) -> int:
        if not put(self.fileno, data, lambda: self._gone):
            self._gone = True
        return len(data)
