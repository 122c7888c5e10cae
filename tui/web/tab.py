"""A browser tab: its process with the screens, and the packets between them.

The packets are those of `textual.drivers.web_driver`: a type (D for output or input, M for a message), four bytes of
length, and the payload. When the tab closes, the standard input of the process is closed, which is its hang-up
(tui/terminal/shutdown.py). If it does not exit, it is killed.
"""

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import PIPE
from typing import Any, Final

from aiohttp import WSCloseCode, web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from client.text import cut, safe

END_SECONDS: Final = 4.0
"""How long a process has to exit. It takes 2.4 s even if it hangs."""
MOST_COLUMNS, MOST_LINES = 1000, 500
_READY: Final = b"__GANGLION__\n"
_NOT_THEIRS: Final = ("TMUX", "TMUX_PANE", "STY", "TEXTUAL_DRIVER", "TEXTUAL_LOG", "LINES")
"""Variables that describe the terminal of `frost web`, not the browser."""
_LONGEST_WHY: Final = 120  # a close reason has at most 123 bytes


class Tab(AppService):
    """The screens of one tab. `AppService` handles the packets.

    Start and stop of the process are overridden: `AppService` would run a shell, wait without limit, and print the
    output of the process on the terminal of the server.

    Args:
        arguments: The command line of the screens.
        socket: The open WebSocket of the tab.
    """

    def __init__(self, arguments: tuple[str, ...], socket: web.WebSocketResponse) -> None:
        super().__init__(
            arguments[0],
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=self._close,
            download_manager=DownloadManager(),  # unused: see on_meta
        )
        self.why = ""
        """Why the process ended unexpectedly, in one line; else empty."""
        self._arguments = arguments
        self._socket = socket
        self._errors = bytearray()

    async def _open_app_process(self, width: int = 80, height: int = 24) -> asyncio.subprocess.Process:
        environment = self._build_environment(width, height)
        for name in _NOT_THEIRS:
            environment.pop(name, None)
        environment.update(TERM="xterm-256color", COLORTERM="truecolor")
        # A session of its own: Ctrl-C on the terminal is for the server, which shuts down the tabs.
        self._process = await asyncio.create_subprocess_exec(
            *self._arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True
        )
        assert self._process.stdin is not None
        self._stdin = self._process.stdin
        return self._process

    async def run(self) -> None:
        """Forward the output of the process until it ends. Then set `why` and close the tab."""
        assert self._process is not None
        assert self._process.stdout is not None
        listening = asyncio.create_task(self._listen())
        begun = False
        with contextlib.suppress(asyncio.IncompleteReadError):
            begun = await self._process.stdout.readuntil(b"\n") == _READY
            while begun:
                await self._take(self._process.stdout)
        await listening
        code = await self._process.wait()
        if code and not self._socket.closed:
            lines = self._errors.decode("utf-8", "replace").strip().splitlines() or [""]
            reason = cut(safe(lines[-1 if begun else 0].strip(" │╭╮╰╯─")), _LONGEST_WHY)
            self.why = reason if not begun and reason else f"the screens ended unexpectedly ({code})"
        await self._close()

    async def _take(self, stream: asyncio.StreamReader) -> None:
        head = await stream.readexactly(5)
        payload = await stream.readexactly(int.from_bytes(head[1:], "big"))
        # If the tab is closed, discard the output: the process would block on a full pipe.
        with contextlib.suppress(ConnectionError, RuntimeError):
            if head[:1] == b"D":
                await self.on_data(payload)
            elif head[:1] == b"M":
                await self.on_meta(payload)

    async def _listen(self) -> None:
        """Collect the last bytes of standard error."""
        assert self._process is not None
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(4096):
            self._errors += data
            del self._errors[:-8192]

    async def on_meta(self, data: bytes) -> None:
        """Ignore messages of the process: downloads and links are not supported, and its end is noticed otherwise."""

    async def hear(self, message: str) -> None:
        """Handle a message of the page. Invalid ones are ignored."""
        try:
            envelope: Any = json.loads(message)
            match envelope:
                case ["stdin", str(typed)]:
                    await self.send_bytes(typed.encode("utf-8", "replace"))
                case ["resize", {"width": int(width), "height": int(height)}]:
                    await self.set_terminal_size(*size(width, height))
                case ["ping", str(when)]:
                    await self._socket.send_json(["pong", when[:32]])
                case ["focus"]:
                    await self.focus()
                case ["blur"]:
                    await self.blur()
        except (ValueError, RecursionError, ConnectionError):
            return

    async def stop(self) -> None:
        """End the process and wait for it. It is killed if it does not exit in time."""
        if self._task is None or self._process is None:
            return
        with contextlib.suppress(OSError, RuntimeError):
            self.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(self._task), END_SECONDS)
        except (TimeoutError, asyncio.CancelledError):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._task

    async def _close(self) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            await self._socket.close(code=WSCloseCode.OK, message=self.why.encode()[:_LONGEST_WHY])


def size(width: int, height: int) -> tuple[int, int]:
    """Return columns and lines, limited to a valid size."""
    return min(max(width, 1), MOST_COLUMNS), min(max(height, 1), MOST_LINES)
