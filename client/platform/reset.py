"""Reset the platform of this machine: stop it, remove its data, and start it with another seed."""

# ruff: noqa: PTH108

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from client.errors import Exit, FrostError
from client.paths import data_dir, default_endpoint, lock_path, make_private
from client.platform.control import OperatorConnection, open_own, stop

if TYPE_CHECKING:
    from client.config.reader import Config

_DATA = ("platform.db", "workflows.db")
_KEYS = "world-keys.json"


def reset(config: Config, world: str, environ: Mapping[str, str] = os.environ) -> None:
    """Stop the local platform, remove its data, and start it with another seed.

    Removes the databases and the seed's API keys. The secret and the issuer's key are kept: they identify the machine,
    and the new database does not know the credentials they signed. Removes the sessions of contexts on this socket,
    which then sign in automatically.

    Args:
        config: The configuration with these contexts.
        world: The seed: `demo`, `empty` or `large`.
        environ: The environment, with `HOME`.

    Raises:
        FrostError: Another process, such as an open screen, started it first, with the default seed (exit 6).
    """
    from client.api import platform
    from client.platform.process import ensure_running
    from client.transport.blocking_client import BlockingClient

    stop(environ)
    with _lock(environ):
        _drop_restore(environ)
        for name in _DATA:
            for suffix in ("", "-wal", "-shm", "-journal"):
                _remove(f"{data_dir(environ)}/{name}{suffix}")
        _remove(f"{data_dir(environ)}/{_KEYS}")
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
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _drop_restore(environ: Mapping[str, str]) -> None:
    """Remove an incomplete restore, which the next start would complete."""
    for name in ("restore.staged", "restore.ready"):
        if os.path.isdir(f"{data_dir(environ)}/{name}"):  # noqa: PTH112
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
