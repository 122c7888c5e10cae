"""Data folder, lock file and listening sockets. Does not import the web framework."""

import fcntl
import os
import shlex
import socket
import stat
import sys
from pathlib import Path

BACKLOG = 2048
LOCK_FILE = "platform.lock"
# EX_TEMPFAIL of sysexits.h.
EXIT_ALREADY_RUNNING = 75


class StartError(Exception):
    """The platform cannot start. The message is a single line; `status` is the exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def ensure_private_directory(folder: Path) -> None:
    """Create a folder with mode 0700, or set the mode of an existing folder.

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
            sys.stderr.write(f"frost platform: {folder} was writable by other users; its mode is now 0700\n")


def require_not_symlink(path: Path) -> None:
    """Raise StartError for a symbolic link, because its target would be overwritten."""
    if path.is_symlink():
        raise StartError(
            f"{path} is a link, which the platform does not follow; remove it: rm {shlex.quote(str(path))}"
        )


def acquire_lock(folder: Path) -> int:
    """Lock `platform.lock`, and write the process id to it; return the file descriptor, which holds the lock.

    Raises:
        StartError: status 75 if another process has the lock, 1 if it is not a regular file or not writable.
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
        raise StartError(f"the platform in {folder} is already running", EXIT_ALREADY_RUNNING) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def unix_socket(path: Path) -> socket.socket:
    """Listen on a unix socket with mode 0600. An existing socket is replaced, so call this with the lock.

    Raises:
        StartError: the folder is not private, `path` is not a socket, or it cannot be bound.
    """
    if not path.parent.exists():
        ensure_private_directory(path.parent)
    folder = path.parent.stat()
    if folder.st_uid != os.getuid() or folder.st_mode & 0o022:
        raise StartError(f"{path.parent} must belong to this user and must not be writable by others")
    if path.exists() or path.is_symlink():
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise StartError(f"{path} exists and is not a socket")
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
    """Listen on an address. Raises StartError if it is in use or not local."""
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
