"""Paths of the local platform below `$HOME`, and creation of private folders.

If others may write to a folder, they can replace its files. So folders get mode 0700, independent of the umask.
`os.makedirs` sets the mode of the last folder only; parents get the umask's mode.
"""

# Commands do not import pathlib: it takes longer than reading the configuration.
# ruff: noqa: PTH102, PTH120

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING

from client.errors import usage
from client.text import safe

if TYPE_CHECKING:
    from client.transport.endpoint import Endpoint

SOCKET_BYTES = 100
"""Longest socket path; the kernel allows about 107 bytes. Longer paths move to the runtime folder."""


def home(environ: Mapping[str, str] = os.environ) -> str:
    """Return `$HOME` without a trailing slash. Raises FrostError if it is not an absolute path (exit 2)."""
    if not has_home(environ):
        raise usage("HOME is not set to an absolute path", "set HOME", code="NO_HOME")
    return environ["HOME"].rstrip("/")


def has_home(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether `$HOME` is an absolute path. Without one there is no local platform and no default file."""
    folder = environ.get("HOME", "")
    return folder.startswith("/") and "\0" not in folder


def absolute(path: str) -> str:
    """Return an absolute path. Raises FrostError if it is relative to a working directory that is gone (exit 2)."""
    if path.startswith("/"):
        return os.path.normpath(path)
    return os.path.normpath(f"{working_directory(path)}/{path}")


def working_directory(path: str) -> str:
    """Return the working directory, for the relative path `path`. Raises FrostError if it is gone (exit 2)."""
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError as error:
        raise usage(
            f"{safe(path, 200)} is a relative path, but the working directory cannot be used: {error.strerror}",
            "change to another directory, or use an absolute path",
            code="NO_WORKING_DIRECTORY",
        ) from None


def data_dir(environ: Mapping[str, str] = os.environ) -> str:
    """Return the data directory of the local platform: `$HOME/.cli/platform`."""
    return f"{home(environ)}/.cli/platform"


def socket_path(home: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the local platform's socket, `<home>/.cli/platform/api.sock`, or a short path in the runtime folder."""
    return socket_path_in(f"{home.rstrip('/')}/.cli/platform", environ)


def socket_path_in(folder: str, environ: Mapping[str, str] = os.environ) -> str:
    path = f"{folder}/api.sock"
    if len(os.fsencode(path)) <= SOCKET_BYTES:
        return path
    from hashlib import sha256

    runtime = environ.get("XDG_RUNTIME_DIR") or "/tmp"  # noqa: S108  (a 0700 folder of this user below it)
    return f"{runtime}/frost-{os.getuid()}/{sha256(os.fsencode(folder)).hexdigest()[:16]}.sock"


def default_endpoint(environ: Mapping[str, str] = os.environ) -> str:
    """Return the default endpoint of contexts: `unix:<socket of the local platform>`."""
    return f"unix:{socket_path(home(environ), environ)}"


def endpoint_in(folder: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the endpoint of a platform started with `platform serve --data-dir`."""
    return f"unix:{socket_path_in(absolute(folder), environ)}"


def log_path(environ: Mapping[str, str] = os.environ) -> str:
    return f"{data_dir(environ)}/platform.log"


def lock_path(environ: Mapping[str, str] = os.environ, folder: str = "") -> str:
    """Return the file that a running platform locks, in `folder` or in the local data directory."""
    return f"{folder or data_dir(environ)}/platform.lock"


def is_own(endpoint: Endpoint, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the endpoint is the socket of this user's local platform, which starts on demand."""
    return endpoint.kind == "unix" and has_home(environ) and endpoint.path == socket_path(home(environ), environ)


MODE = 0o700
WRITABLE_BY_OTHERS = 0o022


def make_private(folder: str) -> None:
    """Create a folder and its missing parents with mode 0700. Existing folders are not changed.

    Raises:
        OSError: A folder cannot be created, or a file has its name.
    """
    missing = []
    step = folder.rstrip("/") or "/"
    while not os.path.isdir(step):  # noqa: PTH112
        missing.append(step)
        parent = os.path.dirname(step)
        if parent in ("", step):
            break
        step = parent
    for step in reversed(missing):
        try:
            os.mkdir(step, MODE)
        except FileExistsError:
            if not os.path.isdir(step):  # noqa: PTH112
                raise
        else:
            os.chmod(step, MODE)  # noqa: PTH101  (the umask may also clear bits of the owner)


def is_writable_by_others(mode: int) -> bool:
    """Return whether others can replace the files of a folder. In a sticky folder (`/tmp`) they cannot."""
    return bool(mode & WRITABLE_BY_OTHERS) and not mode & stat.S_ISVTX


def repair(folder: str) -> bool:
    """Set the mode of this user's folder to 0700 if others may write to it; return whether the mode was changed.

    Folders of other users, links and files are not changed: the caller's check refuses them.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or not is_writable_by_others(status.st_mode):
            return False
        os.fchmod(descriptor, MODE)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
