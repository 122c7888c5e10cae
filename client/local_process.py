"""Starts the platform of this machine when it does not answer, and notices when it dies while doing so.

It runs as a process of its own, detached from whoever started it. Only the socket below the home folder is ever
started for. Source: design: The local platform.
"""

# pathlib is not on a command's path: importing it costs more than reading the configuration does.
# ruff: noqa: PTH101, PTH112, PTH114, PTH120, PTH123

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from client import __version__
from client.errors import Exit, FrostError, usage
from client.folders import make_private
from client.local import (
    answers,
    data_dir,
    default_endpoint,
    forget_stop,
    home,
    lock_path,
    log_path,
    open_own,
    socket_path,
    socket_path_in,
    stop,
)
from client.text import safe

if TYPE_CHECKING:
    import subprocess

START_SECONDS = 20.0
POLL_SECONDS = 0.01
TAKEN = 75
"""The service's exit code when another one holds the data folder's lock."""
_TAKEN_PAUSE = 0.2
_LOG_LINES = 5

_children: dict[str, subprocess.Popen[bytes]] = {}
"""What this process started, by socket; kept so that a death after the first connection is noticed and told."""


def ensure_running(environ: Mapping[str, str] = os.environ, *, arguments: tuple[str, ...] = ()) -> bool:
    """Starts the local platform unless it answers; returns when connections are accepted.

    Connections are accepted before the platform is ready to answer; requests wait in its queue.

    Args:
        environ: Names `HOME`; handed to the platform.
        arguments: More flags for the platform (`--world …`), only used when it is started here.

    Returns:
        True when this call started it.

    Raises:
        FrostError: It ended while starting (exit 7, with the end of its log), or did not answer in time (exit 7).
    """
    socket = socket_path(home(environ), environ)
    end = time.monotonic() + START_SECONDS
    child = _children.get(socket)
    started = False
    not_before = 0.0
    while True:
        if child is not None and (code := child.poll()) is not None:
            # One of an earlier call may have served well and been killed since: that is no failure to start.
            _children.pop(socket, None)
            child = None
            if code == TAKEN:
                not_before = time.monotonic() + _TAKEN_PAUSE
            elif code > 0 or (code < 0 and started):
                raise _died(code, environ)
        if answers(socket):
            if started:
                _note_version(environ)
            return started
        if child is None and time.monotonic() >= not_before:
            forget_stop(environ)
            child = _children[socket] = _spawn(socket, environ, arguments)
            started = True
        if time.monotonic() >= end:
            raise FrostError(
                f"the local platform did not answer within {START_SECONDS:g} s",
                code="PLATFORM_NOT_STARTED",
                hint=f"its log: {safe(log_path(environ))}",
                exit_code=Exit.UNREACHABLE,
            )
        time.sleep(POLL_SECONDS)


def ensure_same_version(environ: Mapping[str, str] = os.environ) -> None:
    """Replaces a platform that an older version of this program left running; data and operations stay.

    A file beside the socket says which version is there, so that this costs no request; what it says is only acted
    on after the platform itself has confirmed it.

    Raises:
        FrostError: The platform is newer than this program (exit 1).
    """
    note = f"{data_dir(environ)}/platform.version"
    with contextlib.suppress(OSError), open(note, encoding="ascii", errors="replace") as file:
        if file.read(100).strip() == __version__:
            return
    running = _running_version(environ)
    if not running:
        return
    if _numbers(running) > _numbers(__version__):
        raise FrostError(
            f"the local platform is version {safe(running, 40)}, newer than this frost ({__version__})",
            code="PLATFORM_NEWER",
            hint="upgrade frost, or stop it first: frost platform stop",
        )
    if _numbers(running) < _numbers(__version__):
        stop(environ)
        ensure_running(environ)
    _note_version(environ)


def _running_version(environ: Mapping[str, str]) -> str:
    """What the platform that answers says of itself; empty when none does."""
    from client.endpoint import Endpoint
    from client.oneshot import fetch

    if not answers(socket_path(home(environ), environ)):
        return ""
    reply = fetch(Endpoint.parse(default_endpoint(environ)), environ, "GET", "/healthz")
    return reply.headers.get("x-frost-version", "")


def _note_version(environ: Mapping[str, str]) -> None:
    note, flags = f"{data_dir(environ)}/platform.version", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with contextlib.suppress(OSError), open(os.open(note, flags, 0o600), "w", encoding="ascii") as file:
        file.write(f"{__version__}\n")


def _numbers(version: str) -> tuple[int, ...]:
    """`1.10.2` as numbers; anything after them does not count."""
    found: list[int] = []
    for part in version.split("."):
        if not part.isascii() or not part.isdigit():
            break
        found.append(int(part))
    return tuple(found)


def service_command(environ: Mapping[str, str], *arguments: str, folder: str = "") -> list[str]:
    """The command line of a platform with its data in `folder`, by default the local one's.

    `-P`: what it runs never comes from the folder it is called in.
    """
    import sys

    data = os.path.abspath(folder) if folder else data_dir(environ)  # noqa: PTH100
    return [
        sys.executable, "-P", "-m", "service",
        "--data-dir", data,
        "--socket", socket_path_in(data, environ),
        *arguments,
    ]  # fmt: skip


def _spawn(socket: str, environ: Mapping[str, str], arguments: tuple[str, ...]) -> subprocess.Popen[bytes]:
    import subprocess

    for folder in (data_dir(environ), os.path.dirname(socket)):
        _make_private(folder)
    with contextlib.suppress(FileNotFoundError):
        os.close(open_own(lock_path(environ), os.O_RDWR))  # refused here, not by a platform that ends at once
    log = open_own(log_path(environ), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        return subprocess.Popen(  # noqa: S603  (our own interpreter and module)
            service_command(environ, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=dict(environ),
            start_new_session=True,
        )
    finally:
        os.close(log)


def _make_private(folder: str) -> None:
    """Create a folder with mode 0700, or set that mode: anyone with write access could replace the socket."""
    try:
        make_private(folder)
        found = os.lstat(folder)
        if found.st_uid == os.getuid() and found.st_mode & 0o077:
            os.chmod(folder, 0o700)
    except OSError as error:
        raise usage(f"{safe(folder)} cannot be used: {error.strerror}", code="FOLDER_UNUSABLE") from None
    if found.st_uid != os.getuid() or not os.path.isdir(folder) or os.path.islink(folder):
        raise usage(f"{safe(folder)} is not a folder of this user", code="FOLDER_REFUSED")


def _died(code: int, environ: Mapping[str, str]) -> FrostError:
    lines: list[str] = []
    with contextlib.suppress(OSError), open(log_path(environ), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
        lines = file.read().decode("utf-8", "replace").splitlines()[-_LOG_LINES:]
    said = f": {safe(lines[-1].strip(), 300)}" if lines else ""
    how = f"signal {-code}" if code < 0 else f"exit {code}"
    return FrostError(
        f"the local platform ended while starting ({how}){said}",
        code="PLATFORM_NOT_STARTED",
        hint=f"its log: {safe(log_path(environ))}",
        exit_code=Exit.UNREACHABLE,
    )
