"""The server of `frost web`: a page with textual-serve's terminal, a WebSocket for each tab, and its start and end.

Access is checked before routing: without access, existing and unknown paths return the same response.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import tempfile
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

from aiohttp import WSCloseCode, WSMsgType, web

from client.commands.invocation import Invocation
from tui.web.gate import COOKIE, Gate
from tui.web.tab import Tab, size

MOST_TABS: Final = 8
"""Each tab has a process of about 80 MB."""
HEARTBEAT_SECONDS: Final = 10.0
"""A tab without a pong for 1.5 intervals is closed; a closed browser is noticed immediately."""
MOST_BYTES: Final = 1024 * 1024
"""Maximum size of a message from the page, such as a paste."""

_OWN = Path(__file__).parent
_THEIRS = Path(str(files("textual_serve") / "static"))
FILES: Final[Mapping[str, tuple[Path, str]]] = {
    "": (_OWN / "page.html", "text/html"),
    "page.css": (_OWN / "page.css", "text/css"),
    "page.js": (_OWN / "page.js", "text/javascript"),
    "xterm.css": (_THEIRS / "css" / "xterm.css", "text/css"),
    "terminal.js": (_THEIRS / "js" / "textual.js", "text/javascript"),
    "mono.ttf": (_THEIRS / "fonts" / "RobotoMono-VariableFont_wght.ttf", "font/ttf"),
}
"""Name below the folder -> file and content type. No other files are served."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """The application and its open tabs.

    Args:
        arguments: The command line of the screens.
        warn: Prints a line on the terminal.
        max_tabs: The tabs that may be open at a time.
    """

    def __init__(
        self, gate: Gate, arguments: tuple[str, ...], warn: Callable[[str], None], *, max_tabs: int = MOST_TABS
    ) -> None:
        self.gate = gate
        self._arguments = arguments
        self._warn = warn
        self._max_tabs = max_tabs
        self._tabs: dict[Tab, web.WebSocketResponse] = {}
        self._opening = 0
        self.entered = asyncio.Event()
        """Set when the token is used."""
        self.app = web.Application(middlewares=[self._guard])
        self.app.on_response_prepare.append(self._headers)
        for name in FILES:
            self.app.router.add_get(gate.folder + name, self._file, allow_head=False)
        self.app.router.add_get(gate.folder + "socket", self._socket, allow_head=False)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check host and origin, then the token or the cookie, before routing."""
        if why := self.gate.foreign(request.headers.get("Host"), request.headers.get("Origin")):
            return refused(why)
        if self.gate.is_entrance(request.path):
            return self._enter(request)
        if not self.gate.knows(request.cookies.get(COOKIE)):
            return refused(
                "for another tab, copy the address of the first tab; in a new browser, open the address that frost web"
                " printed, which works once"
            )
        try:
            return await handler(request)
        except web.HTTPException as error:
            return web.Response(status=error.status, text=f"frost web: {error.reason.lower()}\n")
        except Exception as error:
            self._warn(f"internal error: {type(error).__name__}")
            return web.Response(status=500, text="frost web: internal error\n")

    def _enter(self, request: web.Request) -> web.StreamResponse:
        if not self.gate.is_address(request.path):
            return refused("unknown address; copy the whole address that frost web printed")
        if request.method != "GET":
            return refused("open this address in a browser")
        if not self.gate.enter(request.path):
            return refused(
                "this address was already used; in the same browser, copy the address of the first tab; for another"
                " browser, restart frost web"
            )
        self.entered.set()
        # Not a redirect: after navigation from another site or a file, the browser would not send the strict cookie.
        page = f'<!doctype html><title>frost</title><meta http-equiv="refresh" content="0;url={self.gate.folder}">\n'
        return web.Response(text=page, content_type="text/html", headers={"Set-Cookie": self.gate.cookie})

    async def _headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(
            {
                "Server": "frost",
                "Cache-Control": "no-store",
                "Content-Security-Policy": (
                    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self';"
                    f" img-src data:; connect-src ws://{self.gate.host}; base-uri 'none'; form-action 'none';"
                    " frame-ancestors 'none'"
                ),
                "Cross-Origin-Opener-Policy": "same-origin",
                "Cross-Origin-Resource-Policy": "same-origin",
                "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff",
                "X-Frame-Options": "DENY",
            }
        )

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path, kind = FILES[request.path.removeprefix(self.gate.folder)]
        return web.FileResponse(path, headers={"Content-Type": kind})

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        """Serve a tab. Its process lives as long as the WebSocket."""
        if request.headers.get("Origin") is None:
            return refused("a page of frost web opens this")
        if len(self._tabs) + self._opening >= self._max_tabs:
            return await self._too_many(request)
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_SECONDS, max_msg_size=MOST_BYTES)
        tab = Tab(self._arguments, socket)
        self._opening += 1
        try:
            await socket.prepare(request)
            await tab.start(*size(_number(request, "width", 80), _number(request, "height", 24)))
            self._tabs[tab] = socket
        finally:
            self._opening -= 1
        try:
            async for message in socket:
                if message.type == WSMsgType.TEXT:
                    await tab.hear(message.data)
        finally:
            await tab.stop()
            del self._tabs[tab]
            if tab.why:
                self._warn(tab.why)
        return socket

    async def _too_many(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.close(
            code=WSCloseCode.TRY_AGAIN_LATER, message=f"{self._max_tabs} tabs are open: close one".encode()
        )
        return socket

    async def end(self) -> None:
        """Close all tabs and wait for their processes."""
        ended = [self._end(tab, socket) for tab, socket in list(self._tabs.items())]
        await asyncio.gather(*ended, return_exceptions=True)

    async def _end(self, tab: Tab, socket: web.WebSocketResponse) -> None:
        stopping = asyncio.create_task(tab.stop())
        with contextlib.suppress(ConnectionError, RuntimeError, TimeoutError):
            await asyncio.wait_for(socket.close(code=WSCloseCode.GOING_AWAY, message=b"frost web has ended"), 1)
        await stopping


def refused(why: str) -> web.Response:
    """Return a 403 response with one line."""
    return web.Response(status=403, text=f"frost web: {why}\n")


def _number(request: web.Request, name: str, otherwise: int) -> int:
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else otherwise


_SHUTDOWN_SECONDS: Final = 1.0


async def serve(run: Invocation, listening: socket.socket, arguments: tuple[str, ...], *, open_browser: bool) -> None:
    """Serve on a listening socket until a signal arrives. `arguments` is the command line of the screens."""
    ended = _ended_by_signals()
    gate = Gate(listening.getsockname()[1])
    server = Server(gate, arguments, run.output.warn)
    logging.getLogger("aiohttp").propagate = False  # it logs a traceback for each malformed request
    runner = web.AppRunner(server.app, access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    run.output.text(gate.address)
    run.output.note("this address works once, for one browser; Ctrl-C stops frost web and its tabs")
    folder = _open(gate.address) if open_browser and _has_browser() else None
    try:
        used = asyncio.ensure_future(server.entered.wait())
        over = asyncio.ensure_future(ended.wait())
        await asyncio.wait({used, over}, return_when=asyncio.FIRST_COMPLETED)
        _remove(folder)
        await over
        used.cancel()
    finally:
        _remove(folder)
        await server.end()
        await runner.cleanup()


def _ended_by_signals() -> asyncio.Event:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # respect nohup
            loop.add_signal_handler(number, ended.set)
    return ended


def _has_browser() -> bool:
    """Return whether there is a graphical browser. One in the terminal cannot show the screens."""
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER")
    return bool(display) or os.uname().sysname != "Linux"


def _open(address: str) -> Path:
    """Open the address in the browser by way of a private file, and return its folder.

    Other users can read the arguments of a process, and the first request with the token gets access.
    """
    folder = Path(tempfile.mkdtemp(prefix="frost-web-"))  # 0700
    page = folder / "open.html"
    with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(f'<!doctype html><title>frost</title><meta http-equiv="refresh" content="0;url={address}">\n')
    _ = asyncio.get_running_loop().run_in_executor(None, webbrowser.open, page.as_uri())
    return folder


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
