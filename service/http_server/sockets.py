"""Taking the platform's place on this machine: folder, lock, sockets; nothing of the framework is loaded for it.

Clients that come between `listen` and the first answer wait in the backlog. design: The local platform
"""

import fcntl
import os
import shlex
import socket
import stat
import sys
from pathlib import Path

BACKLOG = 2048
LOCK = "platform.lock"
"""In the data folder: held as long as a platform runs."""
# sysexits EX_TEMPFAIL: somebody else runs this platform already.
EXIT_ALREADY_RUNNING = 75


class StartError(Exception):
    """The platform cannot start here; the text is one line for the person who tried."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def ensure_private_directory(folder: Path) -> None:
    """Create a folder that only this user can enter (0700), or give an existing folder of this user that mode.

    A folder that others could write is reported on standard error. The caller has set the umask: parents get its mode.

    Raises:
        Refused: it belongs to another user, or is not a folder.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise StartError(f"{folder} is not a folder") from None
    owned = folder.stat()
    if owned.st_uid != os.getuid():
        raise StartError(f"{folder} belongs to another user")
    if stat.S_IMODE(owned.st_mode) != 0o700:
        folder.chmod(0o700)
        if owned.st_mode & 0o022:
            sys.stderr.write(f"frost platform: {folder} could be written by others; its mode is 0700 now\n")


def refuse_link(path: Path) -> None:
    """Refuse a link where the platform keeps a file of its own: its target would be overwritten.

    Raises:
        Refused: there is a link at `path`.
    """
    if path.is_symlink():
        raise StartError(
            f"{path} is a link, which the platform does not follow; remove it: rm {shlex.quote(str(path))}"
        )


def take_lock(folder: Path) -> int:
    """Hold `platform.lock` until the process ends, however it ends; the file then holds our pid.

    Raises:
        Refused: with status 75 when another process holds it; another status when it is no plain file of this user.
    """
    path = folder / LOCK
    refuse_link(path)
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
    """A listening socket that only this user can open. Call it under the lock: what is at `path` is replaced.

    Raises:
        Refused: its folder is another user's, or something that is no socket is in the way.
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
        raise StartError(f"cannot answer on {path}: {error.strerror or error}") from None
    path.chmod(0o600)
    listener.listen(BACKLOG)
    return listener


def tcp_socket(host: str, port: int) -> socket.socket:
    """A listening socket on an address.

    Raises:
        Refused: the address is not ours or is in use.
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
