"""Data folder, lock file and listening sockets of the platform. Imports nothing of the web framework.

Clients that connect before the platform is ready wait in the backlog.
"""

import fcntl
import os
import shlex
import socket
import stat
import sys
from pathlib import Path

BACKLOG = 2048
LOCK_FILE = "platform.lock"
"""In the data folder; locked while a platform runs."""
# EX_TEMPFAIL of sysexits.
EXIT_ALREADY_RUNNING = 75


class StartError(Exception):
    """The platform cannot start; the text is one line for the operator."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def ensure_private_directory(folder: Path) -> None:
    """Create a folder with mode 0700, or give an existing folder of this user that mode.

    A folder that was writable by others is reported on stderr. Missing parents get the mode of the umask.

    Raises:
        StartError: the folder belongs to another user, or is not a folder.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise StartError(f"{folder} is not a folder") from None
    status = folder.stat()
    if status.st_uid != os.getuid():
        raise StartError(f"{folder} belongs to another user")
    if stat.S_IMODE(status.st_mode) != 0o700:
        folder.chmod(0o700)
        if status.st_mode & 0o022:
            sys.stderr.write(f"frost platform: {folder} could be written by others; its mode is 0700 now\n")


def require_not_symlink(path: Path) -> None:
    """Refuse a symbolic link in place of a file of the platform: its target would be overwritten.

    Raises:
        StartError: `path` is a symbolic link.
    """
    if path.is_symlink():
        raise StartError(
            f"{path} is a link, which the platform does not follow; remove it: rm {shlex.quote(str(path))}"
        )


def acquire_lock(folder: Path) -> int:
    """Lock `platform.lock` until the process ends, and write the process id to it.

    Returns:
        The file descriptor, which must stay open.

    Raises:
        StartError: status 75 if another process has the lock, 1 if it is not a plain file of this user.
    """
    path = folder / LOCK_FILE
    require_not_symlink(path)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise StartError(f"{path} cannot be used: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StartError(f"{path} is not a plain file; remove it")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StartError(f"the platform in {folder} is running already", EXIT_ALREADY_RUNNING) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def unix_socket(path: Path) -> socket.socket:
    """Listen on a unix socket that only this user can open. Requires the lock: a socket at `path` is replaced.

    Raises:
        StartError: the folder belongs to another user or is writable by others, or `path` is not a socket.
    """
    if not path.parent.exists():
        ensure_private_directory(path.parent)
    folder = path.parent.stat()
    if folder.st_uid != os.getuid() or folder.st_mode & 0o022:
        raise StartError(f"{path.parent} must belong to this user and be writable by nobody else")
    if path.exists() or path.is_symlink():
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise StartError(f"{path} is in the way and is not a socket")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
    except OSError as error:
        raise StartError(f"cannot listen on {path}: {error.strerror or error}") from None
    path.chmod(0o600)
    listener.listen(BACKLOG)
    return listener


def tcp_socket(host: str, port: int) -> socket.socket:
    """Listen on an address.

    Raises:
        StartError: the address is not of this machine or is in use.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise StartError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    listener.listen(BACKLOG)
    return listener
