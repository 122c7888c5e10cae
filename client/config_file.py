"""The configuration file on disk: whose it must be, the lock, and a replacement that is old or new but never half.

Links are followed by hand, only those that this user (or root) owns, and the file that they end at is opened without
following any. A write goes to a temporary file in the same folder, is flushed to the disk, and takes the name in one
step, so a crash at any point leaves the old or the new file (hostile G01, G02, G05; checklist F02, F15, F17).

The lock is `flock` on a sibling `<file>.lock`: the kernel releases it when its holder dies, so there is no stale lock
to break and none to be broken too early. The lock file itself stays.
"""

# pathlib is not on a command's path: importing it costs more than reading the configuration does.
# ruff: noqa: PTH103, PTH105, PTH108, PTH109, PTH115, PTH116, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from client.config_yaml import MAX_BYTES, damaged
from client.errors import Exit, FrostError, usage
from client.text import safe

LOCK_SECONDS = 5.0
LOCK_PAUSE = 0.05
_MAX_LINKS = 16


class Content(NamedTuple):
    """A file that was read: its bytes and its permission bits."""

    data: bytes
    mode: int


def real_path(path: str) -> str:
    """Where `path` ends when its links are followed; links of other users are refused (hostile G02)."""
    followed = 0
    walked = "/"
    # A folder that is gone has no name; only a relative path needs one.
    pending = (path if path.startswith("/") else os.path.join(os.getcwd(), path)).split("/")[::-1]
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            walked = os.path.dirname(walked)
            continue
        step = os.path.join(walked, part)
        try:
            found = os.lstat(step)
        except FileNotFoundError:
            walked = step
            continue
        except (OSError, ValueError) as error:
            raise _unusable(path, error) from None
        if not stat.S_ISLNK(found.st_mode):
            walked = step
            continue
        if found.st_uid not in (os.geteuid(), 0):
            raise _refused(f"{safe(step)} is a link that is owned by another user")
        followed += 1
        if followed > _MAX_LINKS:
            raise _refused(f"{safe(path)} is a link that leads in a circle")
        target = os.readlink(step)
        if target.startswith("/"):
            walked = "/"
        pending.extend(target.split("/")[::-1])
    return walked


def read(path: str) -> Content | None:
    """The content of `path` (as `real_path` gave it); None when there is no such file.

    Raises:
        FrostError: It belongs to another user, stands in a folder that others may write, is no regular file or too
            large (exit 2).
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _refused(f"{safe(path)} is not a regular file")
        if found.st_uid != os.geteuid():
            raise _refused(f"{safe(path)} is owned by another user")
        _check_folder(os.path.dirname(path))
        data = b""
        while len(data) <= MAX_BYTES and (piece := os.read(descriptor, MAX_BYTES)):
            data += piece
    except OSError as error:
        raise _unusable(path, error) from None
    finally:
        os.close(descriptor)
    if len(data) > MAX_BYTES:
        raise damaged(path, f"it is larger than {MAX_BYTES // 1024} KiB")
    return Content(data, stat.S_IMODE(found.st_mode))


def make_folder(folder: str) -> None:
    """Creates the folder (0700) with its parents when it is missing, and refuses one that others may write."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from None
    _check_folder(folder)


def replace(path: str, data: bytes, *, lock_of: str = "") -> None:
    """Makes `data` the content of `path`, mode 0600: all of it or nothing. The caller holds the lock.

    `lock_of` is the file whose lock that is, when it is not that of `path`: what is left behind is cleaned up with it.

    Raises:
        FrostError: The disk is full, the folder cannot be written, … (exit 1); the file is as it was.
    """
    folder = os.path.dirname(path)
    temporary = f"{_temporary(lock_of or path)}{os.urandom(8).hex()}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o600)
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        _sync_folder(folder)
    except OSError as error:
        raise FrostError(
            f"{safe(path)} could not be written: {error.strerror}",
            code="CONFIG_NOT_WRITTEN",
            hint="the file is as it was before",
        ) from None


def _temporary(path: str) -> str:
    """How temporary files of `path` begin: a file beside it has another lock, and its writes are not ours to clean."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}-")


def clean_temporaries(path: str) -> None:
    """Removes what a killed write of `path` left behind. The caller holds its lock, so no living write owns one."""
    beginning = _temporary(path)
    folder = os.path.dirname(path)
    for name in os.listdir(folder):
        stale = os.path.join(folder, name)
        middle = stale.removeprefix(beginning).removesuffix(".tmp")
        if stale == f"{beginning}{middle}.tmp" and len(middle) == 16 and not middle.strip("0123456789abcdef"):
            with suppress(FileNotFoundError):
                if os.lstat(stale).st_uid == os.geteuid():
                    os.unlink(stale)


@contextmanager
def locked(path: str, *, seconds: float = LOCK_SECONDS, suffix: str = ".lock") -> Iterator[None]:
    """Holds the lock of the file for the length of the block, against threads and processes alike.

    Raises:
        FrostError: Another process held it for `seconds` (exit 6).
    """
    name = path + suffix
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise _unusable(name, error) from None
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise _refused(f"{safe(name)} is owned by another user")
        _wait_for(descriptor, name, seconds)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, name: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise _unusable(name, error) from None
        else:
            return
        if time.monotonic() >= end:
            raise FrostError(
                f"another process has held {safe(name)} for {seconds:g} s",
                code="CONFIG_LOCKED",
                hint="nothing was changed; try again when it has ended",
                exit_code=Exit.CONFLICT,
            )
        time.sleep(LOCK_PAUSE)


def _check_folder(folder: str) -> None:
    """A folder that others may write lets them exchange the file; with the sticky bit (`/tmp`) they cannot."""
    try:
        found = os.stat(folder)
    except OSError as error:
        raise _unusable(folder, error) from None
    if found.st_uid not in (os.geteuid(), 0):
        raise _refused(f"the folder {safe(folder)} is owned by another user")
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise _refused(f"the folder {safe(folder)} can be written by others", f"chmod go-w {_quoted(folder)}")


def _sync_folder(folder: str) -> None:
    """Makes the new name itself durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system without folder sync has nothing to make durable
            raise
    finally:
        os.close(descriptor)


def exposure(path: str, mode: int) -> str:
    """The warning for a file that others may read, with the command that repairs it; empty when it is private."""
    if not mode & 0o077:
        return ""
    return f"{safe(path)} can be read by others (mode {mode:04o}); repair it: chmod 600 {_quoted(path)}"


def _quoted(path: str) -> str:
    import shlex

    return safe(shlex.quote(path))


def _refused(message: str, hint: str = "") -> FrostError:
    return usage(message, hint, code="CONFIG_REFUSED")


def _unusable(path: str, error: OSError | ValueError) -> FrostError:
    reason = error.strerror if isinstance(error, OSError) else "it is not a path"
    return usage(f"{safe(path)} cannot be used: {reason}", code="CONFIG_UNUSABLE")
