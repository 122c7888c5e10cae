"""The platform on this machine: where it is, whether it runs, stopping it and throwing its data away.

Starting it is in `client/local_process.py`. Source: design: The local platform.
"""

# pathlib is not on a command's path: importing it costs more than reading the configuration does.
# ruff: noqa: PTH108

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from client.errors import Exit, FrostError, usage
from client.folders import make_private
from client.text import safe

if TYPE_CHECKING:
    from client.config import Config
    from client.connection import Staff
    from client.endpoint import Endpoint

SOCKET_BYTES = 100
"""A longer socket path goes to the runtime folder: the kernel takes about 107 bytes."""
STOP_SECONDS = 20.0
_DATA = ("platform.db", "workflows.db")
_KEYS = "world-keys.json"
_PAUSE = 0.02


def home(environ: Mapping[str, str] = os.environ) -> str:
    """`$HOME` of this call's environment, without a slash at its end (checklist G04)."""
    folder = environ.get("HOME", "")
    if not folder.startswith("/") or "\0" in folder:
        raise usage("HOME is not set to an absolute path", "set HOME", code="NO_HOME")
    return folder.rstrip("/")


def data_dir(environ: Mapping[str, str] = os.environ) -> str:
    """Where the local platform keeps its data: `$HOME/.cli/platform`."""
    return f"{home(environ)}/.cli/platform"


def socket_path(home: str, environ: Mapping[str, str] = os.environ) -> str:
    """The local platform's socket: `<home>/.cli/platform/api.sock`, or in the runtime folder when that is too long."""
    return socket_path_in(f"{home.rstrip('/')}/.cli/platform", environ)


def socket_path_in(folder: str, environ: Mapping[str, str] = os.environ) -> str:
    """The socket of a platform whose data is in `folder`."""
    path = f"{folder}/api.sock"
    if len(os.fsencode(path)) <= SOCKET_BYTES:
        return path
    from hashlib import sha256

    runtime = environ.get("XDG_RUNTIME_DIR") or "/tmp"  # noqa: S108  (a 0700 folder of this user below it)
    return f"{runtime}/frost-{os.getuid()}/{sha256(os.fsencode(folder)).hexdigest()[:16]}.sock"


def default_endpoint(environ: Mapping[str, str] = os.environ) -> str:
    """`unix:<socket of the local platform>`: the endpoint of a context that names none."""
    return f"unix:{socket_path(home(environ), environ)}"


def endpoint_in(folder: str, environ: Mapping[str, str] = os.environ) -> str:
    """`unix:<socket of the platform whose data is in the folder>`, as `platform serve --data-dir` answers on it."""
    return f"unix:{socket_path_in(os.path.abspath(folder), environ)}"  # noqa: PTH100


def log_path(environ: Mapping[str, str] = os.environ) -> str:
    """Where the platform writes what it has to say."""
    return f"{data_dir(environ)}/platform.log"


def lock_path(environ: Mapping[str, str] = os.environ, folder: str = "") -> str:
    """The file that a platform locks while it runs, in `folder` or in the local platform's."""
    return f"{folder or data_dir(environ)}/platform.lock"


def open_own(path: str, flags: int) -> int:
    """Open a file that the platform keeps for itself, mode 0600 if it is created; its descriptor.

    Raises:
        FileNotFoundError: There is no such file.
        FrostError: It is a link, which is never followed, or no plain file, or cannot be opened (exit 2).
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
    """Whether a connection to the socket is accepted."""
    from socket import AF_UNIX, SOCK_STREAM
    from socket import socket as new_socket

    with new_socket(AF_UNIX, SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect(os.fsencode(socket))
        except BlockingIOError:
            return True  # its queue is full: it is there, and busy
        except OSError:
            return False
    return True


def is_running(endpoint: Endpoint) -> bool:
    """Whether somebody answers at a `unix:` endpoint; asking starts nothing."""
    return answers(endpoint.path)


def is_own(endpoint: Endpoint, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the endpoint is the socket of this user's local platform, the only one that is started on demand."""
    return endpoint.kind == "unix" and endpoint.path == socket_path(home(environ), environ)


def staff_connection(environ: Mapping[str, str] = os.environ) -> Staff:
    """The local platform for the owner of its socket; asking over it starts nothing."""
    from client.connection import Staff

    return Staff(environ)


def stop(environ: Mapping[str, str] = os.environ) -> bool:
    """Asks the local platform to stop and waits until it has; False when it was not running.

    Raises:
        FrostError: It is still there after 20 s (exit 7).
    """
    from client.api import platform
    from client.oneshot import OneShot

    _note_stop(environ)  # first: an open screen asks again at the moment it is gone
    if not _held(environ):
        return False
    stopped = _pid(environ)
    try:
        OneShot(staff_connection(environ)).call(platform.stop())
    except FrostError:
        _terminate(environ)  # it holds the lock but does not answer: still starting, or stuck
    end = time.monotonic() + STOP_SECONDS
    # One that starts meanwhile is somebody else's wish: only the one that was there is waited for.
    while _held(environ) and _pid(environ) == stopped:
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
    """Whether the local platform was stopped on purpose and not started since by a command or in screens."""
    return os.path.exists(_stop_path(environ))  # noqa: PTH110


def forget_stop(environ: Mapping[str, str] = os.environ) -> None:
    """Somebody wants the local platform again."""
    with contextlib.suppress(OSError):
        os.unlink(_stop_path(environ))


def _note_stop(environ: Mapping[str, str]) -> None:
    with contextlib.suppress(OSError):
        os.close(os.open(_stop_path(environ), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def _stop_path(environ: Mapping[str, str]) -> str:
    return f"{data_dir(environ)}/platform.stopped"


def refuse_second(folder: str = "", environ: Mapping[str, str] = os.environ) -> None:
    """Says so when a platform runs on the data in `folder`, by default the local one's: there is one at a time.

    Raises:
        FrostError: One runs there (exit 6).
    """
    data = os.path.abspath(folder) if folder else data_dir(environ)  # noqa: PTH100
    if not _held(environ, data):
        return
    own = data == data_dir(environ)
    pid = _pid(environ, data)
    raise FrostError(
        f"the platform in {safe(data)} is running already" + (f" (process {pid})" if pid else ""),
        code="PLATFORM_RUNNING",
        hint="stop it: frost platform stop" if own else "stop it, or take another folder: --data-dir",
        exit_code=Exit.CONFLICT,
    )


def reset(config: Config, world: str, environ: Mapping[str, str] = os.environ) -> None:
    """Stops the local platform, removes its data, and starts it with another world.

    Databases and the world's API keys go. The secret and the issuer's key stay: they identify the machine, and nothing
    that they once signed is known to the new database. Sessions of contexts on this socket are forgotten, so that they
    sign in by themselves again.

    Args:
        config: The file whose contexts are looked through.
        world: `demo`, `empty` or `large`.
        environ: Names `HOME`.

    Raises:
        FrostError: Somebody else, an open screen perhaps, started it first, with the world it has by default (exit 6).
    """
    from client.api import platform
    from client.local_process import ensure_running
    from client.oneshot import OneShot

    stop(environ)
    with _lock(environ):
        _drop_restore(environ)
        for name in _DATA:
            for suffix in ("", "-wal", "-shm", "-journal"):
                _remove(f"{data_dir(environ)}/{name}{suffix}")
        _remove(f"{data_dir(environ)}/{_KEYS}")
    _forget_sessions(config, environ)
    ensure_running(environ, arguments=("--world", world))
    if OneShot(staff_connection(environ)).call(platform.status())["world"] != world:
        raise _busy()


def _forget_sessions(config: Config, environ: Mapping[str, str]) -> None:
    from client import credentials

    ours = default_endpoint(environ)
    for context in config.contexts.values():
        if context.api_endpoint == ours and (context.session_ended or "session" in context.credentials.kinds):
            credentials.forget(config, context.name, ended=False)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _drop_restore(environ: Mapping[str, str]) -> None:
    """What a restore left that did not come to its end: the next start would finish it."""
    for name in ("restore.staged", "restore.ready"):
        if os.path.isdir(f"{data_dir(environ)}/{name}"):  # noqa: PTH112
            from shutil import rmtree

            rmtree(f"{data_dir(environ)}/{name}")


def _held(environ: Mapping[str, str], folder: str = "") -> bool:
    """Whether a platform process lives: it holds its lock until it ends, however it ends."""
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


@contextlib.contextmanager
def _lock(environ: Mapping[str, str]) -> Iterator[None]:
    """Keeps every platform from starting: who tries finds the lock taken and is asked to try again."""
    import fcntl

    make_private(data_dir(environ))
    descriptor = open_own(lock_path(environ), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise _busy() from None
    finally:
        os.close(descriptor)


def _busy() -> FrostError:
    return FrostError(
        "the local platform was started again while it was being reset",
        code="PLATFORM_BUSY",
        hint="close what uses it and try again",
        exit_code=Exit.CONFLICT,
    )


def _pid(environ: Mapping[str, str], folder: str = "") -> int:
    try:
        with open(open_own(lock_path(environ, folder), os.O_RDONLY), encoding="ascii") as file:
            return int(file.read(20).split()[0])
    except (OSError, ValueError, IndexError, FrostError):
        return 0


def _terminate(environ: Mapping[str, str]) -> None:
    """SIGTERM to the holder of the lock; the number in the file counts only while the lock is held."""
    import signal

    pid = _pid(environ)
    if pid > 1 and _held(environ):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
