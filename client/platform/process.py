"""Start the platform of this machine on demand, detect a failed start, and reset its data.

It runs in its own process, detached from the caller. Only the local platform, with its socket below the home folder, is
started.
"""

# Commands do not import pathlib: it takes longer than reading the configuration.
# ruff: noqa: PTH101, PTH108, PTH112, PTH114, PTH116, PTH120, PTH123

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from client import __version__
from client.errors import Exit, FrostError, usage
from client.paths import (
    absolute,
    data_dir,
    default_endpoint,
    home,
    lock_path,
    log_path,
    make_private,
    socket_path,
    socket_path_in,
)
from client.platform.control import TAKEN, OperatorConnection, answers, forget_stop, open_own, stop
from client.text import safe

if TYPE_CHECKING:
    import subprocess

    from client.config.reader import Config


START_SECONDS = 20.0
POLL_SECONDS = 0.01
_TAKEN_PAUSE = 0.2
_LOG_LINES = 5
_SIGNALLED = 128
"""Exit codes above this are those of a platform that a signal ended while it started."""

_children: dict[str, subprocess.Popen[bytes]] = {}
"""Processes started here, by socket, to detect and report an exit after the first connection."""


def ensure_running(
    environ: Mapping[str, str] = os.environ, *, arguments: tuple[str, ...] = (), seconds: float = START_SECONDS
) -> bool:
    """Start the local platform if it does not run; return when it accepts connections.

    Requests wait in the queue of the socket until the platform is ready.

    Args:
        environ: The environment, with `HOME`; passed to the platform.
        arguments: More flags for the platform (`--world …`), only used if this call starts it.
        seconds: How long to wait for a response.

    Returns:
        Whether this call started it.

    Raises:
        FrostError: It ended while starting (exit 7, with the end of its log), or did not respond in time (exit 7).
    """
    socket = socket_path(home(environ), environ)
    end = time.monotonic() + seconds
    child = _children.get(socket)
    started = False
    not_before = 0.0
    while True:
        if child is not None and (code := child.poll()) is not None:
            # A process of an earlier call may have been killed since; that is not a failed start.
            _children.pop(socket, None)
            child = None
            if code == TAKEN:
                not_before = time.monotonic() + _TAKEN_PAUSE
            elif code and (started or 0 < code <= _SIGNALLED):
                raise _exit_error(code, environ)
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
                f"the local platform did not respond within {seconds:g} s",
                code="PLATFORM_NOT_STARTED",
                hint=f"its log: {safe(log_path(environ))}",
                exit_code=Exit.UNREACHABLE,
            )
        time.sleep(POLL_SECONDS)


def ensure_same_version(environ: Mapping[str, str] = os.environ) -> None:
    """Restart a local platform of an older version; data and operations are kept.

    A version file in the data directory avoids a request. If it differs, the platform's own version decides.

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
    """Return the version of the running platform; empty if it does not run."""
    from client.transport.blocking_client import fetch
    from client.transport.endpoint import Endpoint

    if not answers(socket_path(home(environ), environ)):
        return ""
    reply = fetch(Endpoint.parse(default_endpoint(environ)), environ, "GET", "/healthz")
    return reply.headers.get("x-frost-version", "")


def _note_version(environ: Mapping[str, str]) -> None:
    note, flags = f"{data_dir(environ)}/platform.version", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with contextlib.suppress(OSError), open(os.open(note, flags, 0o600), "w", encoding="ascii") as file:
        file.write(f"{__version__}\n")


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: `1.10.2` is (1, 10, 2)."""
    numbers: list[int] = []
    for part in version.split("."):
        if not part.isascii() or not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def service_command(environ: Mapping[str, str], *arguments: str, folder: str = "") -> list[str]:
    """Return the command line of a platform with its data in `folder`, by default the local one's.

    `-P` prevents imports from the working directory.
    """
    import sys

    data = absolute(folder) if folder else data_dir(environ)
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
        os.close(open_own(lock_path(environ), os.O_RDWR))  # reports an invalid file before the start
    log = open_own(log_path(environ), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        return subprocess.Popen(  # noqa: S603  (this interpreter and the service module)
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
    """Create a folder with mode 0700, or set that mode: users with write access could replace the socket."""
    try:
        make_private(folder)
        status = os.lstat(folder)
        if status.st_uid == os.getuid() and status.st_mode & 0o077:
            os.chmod(folder, 0o700)
    except OSError as error:
        raise usage(f"{safe(folder)} cannot be used: {error.strerror}", code="FOLDER_UNUSABLE") from None
    if status.st_uid != os.getuid() or not os.path.isdir(folder) or os.path.islink(folder):
        raise usage(f"{safe(folder)} is not a folder of this user", code="FOLDER_REFUSED")


def _exit_error(code: int, environ: Mapping[str, str]) -> FrostError:
    lines: list[str] = []
    with contextlib.suppress(OSError), open(log_path(environ), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
        lines = file.read().decode("utf-8", "replace").splitlines()[-_LOG_LINES:]
    last_line = f": {safe(lines[-1].strip(), 500)}" if lines else ""
    how = f"signal {-code}" if code < 0 else f"exit {code}"
    return FrostError(
        f"the local platform ended while starting ({how}){last_line}",
        code="PLATFORM_NOT_STARTED",
        hint=f"its log: {safe(log_path(environ))}",
        exit_code=Exit.UNREACHABLE,
    )


# The mark first: a database that is older than its mark could not start.
_DATA = ("audit.mark", "platform.db", "workflows.db")
_KEYS = "world-keys.json"
_MARK = "platform.loaded"
_SECRET = "secret.key"  # noqa: S105 - the name of a file
_SECRET_BYTES = 32
_ISSUER_KEY = "issuer.jwk"


def reset(config: Config, world: str, environ: Mapping[str, str] = os.environ) -> None:
    """Stop the local platform, remove its data, and start it with another seed.

    Removes the databases, the seed's API keys and the issuer's key. The secret is kept unless it is damaged: backups
    have a seal under it, and the new database does not know the credentials that it protects. Removes the sessions of
    contexts on this socket, which then sign in automatically.

    Args:
        config: The configuration with these contexts.
        world: The seed: `demo`, `empty` or `large`.
        environ: The environment, with `HOME`.

    Raises:
        FrostError: Another process, such as an open screen, started it first, with the default seed (exit 6).
    """
    from client.api import platform
    from client.transport.blocking_client import BlockingClient

    stop(environ)
    with _lock(environ):
        _drop_restore(environ)
        # Before the databases: with one of these, the platform does not start without its database.
        for name in (_MARK, _KEYS, _ISSUER_KEY):
            _remove(f"{data_dir(environ)}/{name}")
        for name in _DATA:
            for suffix in ("", "-wal", "-shm", "-journal"):
                _remove(f"{data_dir(environ)}/{name}{suffix}")
        _remove_damaged_secret(f"{data_dir(environ)}/{_SECRET}")
    _forget_sessions(config, environ)
    ensure_running(environ, arguments=("--world", world))
    if BlockingClient(OperatorConnection(environ)).ask_json(platform.status())["world"] != world:
        raise _busy()


def _forget_sessions(config: Config, environ: Mapping[str, str]) -> None:
    from client.auth import credential_store

    ours = default_endpoint(environ)
    for context in config.contexts.values():
        if context.api_endpoint == ours and (context.session_ended or "session" in context.credentials.kinds):
            credential_store.forget(config, context.name, ended=False)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        if os.path.isdir(path):
            raise usage(f"{safe(path)} is a folder", "move it away", code="FILE_REFUSED") from None
        raise usage(f"{safe(path)} cannot be removed: {error.strerror}", code="FOLDER_UNUSABLE") from None


def _remove_damaged_secret(path: str) -> None:
    """Remove a secret with which no platform starts."""
    with contextlib.suppress(FileNotFoundError):
        if os.stat(path).st_size != _SECRET_BYTES:
            _remove(path)


def _drop_restore(environ: Mapping[str, str]) -> None:
    """Remove an incomplete restore, which the next start would complete."""
    for name in ("restore.staged", "restore.ready"):
        if os.path.isdir(f"{data_dir(environ)}/{name}"):
            from shutil import rmtree

            rmtree(f"{data_dir(environ)}/{name}")


@contextlib.contextmanager
def _lock(environ: Mapping[str, str]) -> Iterator[None]:
    """Hold the platform's lock, so that no platform can start; a process that tries must retry."""
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
        hint="close the programs that use it and try again",
        exit_code=Exit.CONFLICT,
    )
