"""Control the platform on this machine: find it, check whether it runs, and stop it.

`client/platform/process.py` starts it.
"""

# Commands do not import pathlib: it takes longer than reading the configuration.
# ruff: noqa: PTH108

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from client.auth.credential_store import NO_CREDENTIAL, Credential
from client.errors import Exit, FrostError, usage
from client.paths import absolute, data_dir, default_endpoint, endpoint_in, has_home, lock_path, log_path
from client.text import safe
from client.transport.endpoint import Endpoint

if TYPE_CHECKING:
    from client.transport.call import Credential as Signing

TAKEN = 75
"""Exit code of programs of the service if another process holds the lock of the data directory."""
STOP_SECONDS = 20.0
_PAUSE = 0.02


def open_own(path: str, flags: int) -> int:
    """Open a file of the platform and return its descriptor. A new file gets mode 0600.

    Raises:
        FileNotFoundError: The file does not exist.
        FrostError: The file is a link, not a regular file, or cannot be opened (exit 2).
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        if os.path.islink(path):  # noqa: PTH114
            raise _refused_file(path, "a link, which frost does not follow") from None
        raise usage(f"{safe(path)} cannot be used: {error.strerror}", code="FOLDER_UNUSABLE") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _refused_file(path, "not a plain file")
    return descriptor


def _refused_file(path: str, what: str) -> FrostError:
    import shlex

    return usage(f"{safe(path)} is {what}", f"remove it: rm {safe(shlex.quote(path))}", code="FILE_REFUSED")


def answers(socket: str) -> bool:
    from socket import AF_UNIX, SOCK_STREAM
    from socket import socket as new_socket

    with new_socket(AF_UNIX, SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect(os.fsencode(socket))
        except BlockingIOError:
            return True  # the queue is full: the platform runs and is busy
        except OSError:
            return False
    return True


def is_running(endpoint: Endpoint) -> bool:
    """Return whether a `unix:` endpoint accepts connections, without starting the platform."""
    return answers(endpoint.path)


class OperatorConnection:
    """The operator's connection to the local platform. Requests have no credential: the socket identifies the user.

    Args:
        environ: The environment, with `HOME` and the platform's variables.
        folder: Data directory of another platform on this machine; empty for the local one.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ, *, folder: str = "") -> None:
        self.environ = environ
        self.endpoint = Endpoint.parse(endpoint_in(folder, environ) if folder else default_endpoint(environ))

    def credential(self) -> Credential:
        return NO_CREDENTIAL

    def refresh(self, used: Signing) -> Credential:
        return NO_CREDENTIAL

    def start(self) -> bool:
        return False


def stop(environ: Mapping[str, str] = os.environ) -> bool:
    """Stop the local platform and wait for its end; return False if it was not running.

    Raises:
        FrostError: It still runs after 20 s (exit 7).
    """
    from client.api import platform
    from client.transport.blocking_client import BlockingClient

    _note_stop(environ)  # before the stop: open screens send requests as soon as it has ended
    if not _is_locked(environ):
        return False
    stopped = _pid(environ)
    try:
        BlockingClient(OperatorConnection(environ)).ask_json(platform.stop())
    except FrostError:
        _terminate(environ)  # it holds the lock but does not respond: still starting, or stuck
    end = time.monotonic() + STOP_SECONDS
    # Another process may start the platform again: wait only for the process that was running.
    while _is_locked(environ) and _pid(environ) == stopped:
        if time.monotonic() >= end:
            raise FrostError(
                f"the local platform (process {_pid(environ) or 'unknown'}) has not stopped within {STOP_SECONDS:g} s",
                code="PLATFORM_NOT_STOPPED",
                hint=f"its log: {safe(log_path(environ))}",
                exit_code=Exit.UNREACHABLE,
            )
        time.sleep(_PAUSE)
    return True


def was_stopped(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the local platform was stopped on purpose and not started again since."""
    return os.path.exists(_stop_path(environ))  # noqa: PTH110


def forget_stop(environ: Mapping[str, str] = os.environ) -> None:
    """Remove the mark of a stop on purpose."""
    with contextlib.suppress(OSError):
        os.unlink(_stop_path(environ))


def _note_stop(environ: Mapping[str, str]) -> None:
    with contextlib.suppress(OSError):
        os.close(os.open(_stop_path(environ), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def _stop_path(environ: Mapping[str, str]) -> str:
    return f"{data_dir(environ)}/platform.stopped"


def refuse_second(folder: str = "", environ: Mapping[str, str] = os.environ) -> None:
    """Require that no platform runs on the data in `folder`, by default the local one's.

    Raises:
        FrostError: A platform runs there (exit 6).
    """
    data = absolute(folder) if folder else data_dir(environ)
    if not _is_locked(environ, data):
        return
    own = has_home(environ) and data == data_dir(environ)
    pid = _pid(environ, data)
    raise FrostError(
        f"the platform in {safe(data)} is already running" + (f" (process {pid})" if pid else ""),
        code="PLATFORM_RUNNING",
        hint="stop it: frost platform stop" if own else "stop it, or use another folder: --data-dir",
        exit_code=Exit.CONFLICT,
    )


def _is_locked(environ: Mapping[str, str], folder: str = "") -> bool:
    """Return whether a platform process runs: it holds its lock until it ends."""
    import fcntl

    try:
        descriptor = open_own(lock_path(environ, folder), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _pid(environ: Mapping[str, str], folder: str = "") -> int:
    try:
        with open(open_own(lock_path(environ, folder), os.O_RDONLY), encoding="ascii") as file:
            return int(file.read(20).split()[0])
    except (OSError, ValueError, IndexError, FrostError):
        return 0


def _terminate(environ: Mapping[str, str]) -> None:
    """Send SIGTERM to the holder of the lock. The process id in the file is valid only while the lock is held."""
    import signal

    pid = _pid(environ)
    if pid > 1 and _is_locked(environ):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
