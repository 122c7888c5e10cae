"""`frost web`: the screens in a browser on this machine."""

import gc
import os
import sys
from typing import TYPE_CHECKING

from client.commands.command import Number, leaf
from client.commands.invocation import Invocation
from client.commands.parameters import Option
from client.errors import usage

if TYPE_CHECKING:
    import socket


@leaf(
    "web",
    Option(["--port"], metavar="N", type=Number(1, 65535), help="Port to listen on; default: a free one."),
    Option(["--no-open"], is_flag=True, help="Print the address without opening a browser."),
    Option(["--read-only"], is_flag=True, help="Open the screens in read-only mode."),
    examples=("frost web", "frost web --port 8900 --no-open --read-only"),
)
def web(run: Invocation, port: int | None, no_open: bool, read_only: bool) -> None:
    """Open the screens in a browser on this machine.

    Prints an address that admits one browser, once, and opens it. The server accepts only this browser, on 127.0.0.1.
    To open another tab, use the address of the first tab. Each tab is a separate program, which ends with the tab;
    Ctrl-C ends all of them.
    """
    from client.connection import resolve

    resolve(os.environ, path=run.flags.config)  # report errors of the config here, not in the browser
    listening = _listen(port)
    gc.enable()
    import asyncio

    from tui.web.server import serve

    arguments = [sys.executable, "-P", "-m", "tui.web.screens", *_flags(run, read_only=read_only)]
    try:
        asyncio.run(serve(run, listening, tuple(arguments), open_browser=not no_open))
    finally:
        listening.close()


def _flags(run: Invocation, *, read_only: bool) -> list[str]:
    """Return the flags of the screens, as tui/launch.py parses them."""
    arguments = []
    if run.flags.config is not None:
        arguments.append(f"--config={run.flags.config}")
    if run.flags.tenant is not None:
        arguments.append(f"--tenant={run.flags.tenant}")
    if run.flags.no_color:
        arguments.append("--no-color")
    return [*arguments, "--read-only"] if read_only else arguments


def _listen(port: int | None) -> "socket.socket":
    import socket

    from tui.web.gate import HOST

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port or 0))
        listening.listen()
    except OSError as error:
        listening.close()
        raise usage(f"--port {port}: {error.strerror}", "another port, or none for a free one") from None
    return listening
