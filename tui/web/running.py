"""Run `frost web`: print the address, serve tabs, and shut down."""

import asyncio
import logging
import os
import shutil
import signal
import socket
import tempfile
import webbrowser
from pathlib import Path
from typing import Final

from aiohttp import web

from client.commands.invocation import Invocation
from tui.web.gate import Gate
from tui.web.server import Server

_SHUTDOWN_SECONDS: Final = 1.0


async def serve(run: Invocation, listening: socket.socket, arguments: tuple[str, ...], *, open_browser: bool) -> None:
    """Serve on a listening socket until a signal arrives. `words` is the command line of the screens."""
    ended = _ended_by_signals()
    gate = Gate(listening.getsockname()[1])
    server = Server(gate, arguments, run.output.warn)
    logging.getLogger("aiohttp").propagate = False  # it logs a traceback for each malformed request
    runner = web.AppRunner(server.app, access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    run.output.text(gate.address)
    run.output.note("this address lets one browser in, once; Ctrl-C ends frost web and its tabs")
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
