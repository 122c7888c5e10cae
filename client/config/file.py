"""Read, lock and replace the configuration file.

Only links of this user or root are resolved, and the resolved file is opened without following links. A write goes to a
temporary file in the same folder, is synced to disk and renamed, so a crash leaves either the old or the new file.

The lock is `flock` on a file in the folder `.<file>.locks`, which the kernel releases when its holder dies. Other
programs, such as the public Terraform provider, use the existence of `<file>.lock` as the lock: they create it, remove
it, and ignore one older than 120 seconds. So a writer also makes `<file>.lock` a hard link to its own lock file, by
which it recognises its lock, and removes the link at the end. A session refresh keeps the link until the response.
"""

# Commands do not import pathlib: it takes longer than reading the configuration.
# ruff: noqa: PTH105, PTH108, PTH114, PTH115, PTH116, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from client.config.strict_yaml import MAX_BYTES, damaged
from client.errors import Exit, FrostError, usage
from client.paths import is_writable_by_others, make_private, repair, working_directory
from client.text import safe

LOCK_SECONDS = 5.0
LOCK_PAUSE = 0.05
STALE_SECONDS = 120.0
WRITE, REFRESH = "write", "refresh"
LINK = ".lock"
FORMER_REFRESH = ".refresh.lock"
# Errors of file systems without hard links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)
_MAX_LINKS = 16


class Content(NamedTuple):
    """The bytes and the permission bits of a file."""

    data: bytes
    mode: int


def real_path(path: str) -> str:
    """Resolve the links of `path`. Raises FrostError for links of other users and for more than 16 links (exit 2)."""
    links = 0
    walked = "/"
    # Only relative paths need the working directory, which may be deleted.
    pending = (path if path.startswith("/") else os.path.join(working_directory(path), path)).split("/")[::-1]
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            walked = os.path.dirname(walked)
            continue
        step = os.path.join(walked, part)
        try:
            entry = os.lstat(step)
        except FileNotFoundError:
            walked = step
            continue
        except (OSError, ValueError) as error:
            raise _unusable(path, error) from None
        if not stat.S_ISLNK(entry.st_mode):
            walked = step
            continue
        if entry.st_uid not in (os.geteuid(), 0):
            raise _refusal(f"{safe(step)} is a link that is owned by another user")
        links += 1
        if links > _MAX_LINKS:
            raise _refusal(f"{safe(path)} has more than {_MAX_LINKS} links")
        target = os.readlink(step)
        if target.startswith("/"):
            walked = "/"
        pending.extend(target.split("/")[::-1])
    return walked


def read(path: str) -> Content | None:
    """Return the content of `path`, as resolved by `real_path`; None if the file does not exist.

    Raises:
        FrostError: The file belongs to another user, is in a folder that others may write, is not a regular file or
            is too large (exit 2).
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(f"{safe(path)} is not a regular file")
        if status.st_uid != os.geteuid():
            raise _refusal(f"{safe(path)} is owned by another user")
        _check_folder(os.path.dirname(path))
        data = b""
        while len(data) <= MAX_BYTES and (piece := os.read(descriptor, MAX_BYTES)):
            data += piece
    except OSError as error:
        raise _unusable(path, error) from None
    finally:
        os.close(descriptor)
    if len(data) > MAX_BYTES:
        raise damaged(path, f"the file is larger than {MAX_BYTES // 1024} KiB")
    return Content(data, stat.S_IMODE(status.st_mode))


def make_folder(folder: str) -> None:
    """Create a folder and its missing parents (0700). Refuse a folder that others may write."""
    try:
        make_private(folder)
    except OSError as error:
        raise _unusable(folder, error) from None
    _check_folder(folder)


def repaired(folder: str) -> str:
    """Repair a folder of frost that others may write. Return a notice, empty if the mode was not changed."""
    if not repair(folder if not os.path.islink(folder) else real_path(folder)):
        return ""
    return f"the folder {safe(folder)} was writable by other users; its mode is now 0700"


def replace(path: str, data: bytes, *, lock_of: str = "") -> None:
    """Replace the content of `path` atomically, with mode 0600. The caller holds the lock.

    `lock_of` is the file of that lock, if it is not `path`: temporary files are named after it.

    Raises:
        FrostError: The file cannot be written, for example on a full disk, or not synced to disk (exit 1). The hint
            names the state of the file.
    """
    folder = os.path.dirname(path)
    temporary = f"{_temporary(lock_of or path)}{os.urandom(8).hex()}.tmp"
    hint = "the file is unchanged"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o600)
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.replace(temporary, path)
            hint = "the file was written, but may be lost if the machine fails now"
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        _sync_folder(folder)
    except OSError as error:
        raise FrostError(
            f"{safe(path)} could not be written: {error.strerror}",
            code="CONFIG_NOT_WRITTEN",
            hint=hint,
        ) from None


def _temporary(path: str) -> str:
    """Return the prefix of temporary files of `path`. Other files in the folder have their own locks and prefixes."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}-")


def clean_temporaries(path: str) -> None:
    """Remove temporary files of killed writes. The caller holds the lock, so no write is in progress."""
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
def locked(path: str, *, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold the lock for writing the file, against threads and processes.

    Raises:
        FrostError: Another process held the lock for `seconds` (exit 6).
    """
    with _lock(path, WRITE, seconds) as descriptor:
        link = path + LINK
        _claim(link, descriptor, seconds)
        try:
            _remove_former(path + FORMER_REFRESH, 0)
            yield
        finally:
            if not _refresh_runs(path):
                _release(link, descriptor)


@contextmanager
def refreshing(path: str, *, seconds: float) -> Iterator[None]:
    """Hold the lock for refreshing the session in the file. Other processes of this program can still write the file.

    Raises:
        FrostError: Another process held the lock for `seconds` (exit 6).
    """
    with _lock(path, REFRESH, seconds):
        _remove_former(path + FORMER_REFRESH, seconds)
        with _lock(path, WRITE, seconds) as descriptor:
            _claim(path + LINK, descriptor, seconds)
        try:
            yield
        finally:
            # The next write removes a link that cannot be removed now.
            with suppress(FrostError), _lock(path, WRITE, LOCK_SECONDS) as descriptor:
                _release(path + LINK, descriptor)


def _lock_file(path: str, purpose: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.locks", purpose)


@contextmanager
def _lock(path: str, purpose: str, seconds: float) -> Iterator[int]:
    """Hold the `flock` of a purpose and yield its descriptor."""
    name = _lock_file(path, purpose)
    try:
        make_private(os.path.dirname(name))
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise _unusable(name, error) from None
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise _refusal(f"{safe(name)} is owned by another user")
        _wait_for(descriptor, name, seconds)
        yield descriptor
    finally:
        os.close(descriptor)


def _refresh_runs(path: str) -> bool:
    try:
        descriptor = os.open(_lock_file(path, REFRESH), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor, REFRESH)
    finally:
        os.close(descriptor)


def _claim(link: str, descriptor: int, seconds: float) -> None:
    """Make `link` a hard link to the lock file of `descriptor` when no other program holds it."""
    end = time.monotonic() + seconds
    own = _lock_file(link.removesuffix(LINK), WRITE)
    while True:
        try:
            os.utime(descriptor)  # other programs ignore an old lock
            os.link(own, link)
        except FileExistsError:
            if _is_own(link, descriptor):
                return
            if _is_stale(link) and _remove_unlocked(link):
                continue
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise _unusable(link, error) from None
            if not os.path.lexists(link):
                return
        else:
            return
        _pause(link, end, seconds, "a Terraform run may be refreshing the session; try again when it has ended")


def _release(link: str, descriptor: int) -> None:
    if _is_own(link, descriptor):
        with suppress(FileNotFoundError):
            os.unlink(link)


def _is_own(link: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(link), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _is_stale(link: str) -> bool:
    try:
        status = os.lstat(link)
    except FileNotFoundError:
        return True
    if status.st_uid != os.geteuid():
        raise _refusal(f"{safe(link)} is owned by another user")
    return abs(time.time() - status.st_mtime) > STALE_SECONDS


def _remove_unlocked(name: str) -> bool:
    """Remove a lock file unless a process of an earlier release holds its `flock`. Return whether it is removed."""
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise _unusable(name, error) from None
    try:
        if not _try_lock(descriptor, name):
            return False
        with suppress(FileNotFoundError):
            os.unlink(name)
        return True
    finally:
        os.close(descriptor)


def _remove_former(name: str, seconds: float) -> None:
    """Remove the lock file of an earlier release; wait up to `seconds` for its holder."""
    end = time.monotonic() + seconds
    while not _remove_unlocked(name) and seconds:
        _pause(name, end, seconds)


def _wait_for(descriptor: int, name: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not _try_lock(descriptor, name):
        _pause(name, end, seconds)


def _try_lock(descriptor: int, name: str) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise _unusable(name, error) from None
        return False
    return True


def _pause(name: str, end: float, seconds: float, hint: str = "try again when it has ended") -> None:
    """Wait before the next attempt to take a lock.

    Raises:
        FrostError: The time `end` has passed (exit 6).
    """
    if time.monotonic() >= end:
        raise FrostError(
            f"another process has locked {safe(name)} for {seconds:g} s",
            code="CONFIG_LOCKED",
            hint=f"nothing was changed; {hint}",
            exit_code=Exit.CONFLICT,
        )
    time.sleep(LOCK_PAUSE)


def _check_folder(folder: str) -> None:
    """Refuse a folder in which others can replace the file."""
    try:
        status = os.stat(folder)
    except OSError as error:
        raise _unusable(folder, error) from None
    if status.st_uid not in (os.geteuid(), 0):
        raise _refusal(f"the folder {safe(folder)} is owned by another user")
    if is_writable_by_others(status.st_mode):
        raise _refusal(
            f"the folder {safe(folder)} is writable by other users", f"repair it: chmod go-w {_shell_quote(folder)}"
        )


def _sync_folder(folder: str) -> None:
    """Sync the folder, so that the new name is durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the file system does not support it
            raise
    finally:
        os.close(descriptor)


def exposure(path: str, mode: int) -> str:
    """Return a warning for a file that others may read, with the command to repair it; empty for a private file."""
    if not mode & 0o077:
        return ""
    return f"{safe(path)} is readable by other users (mode {mode:04o}); repair it: chmod 600 {_shell_quote(path)}"


def _shell_quote(path: str) -> str:
    import shlex

    return safe(shlex.quote(path))


def _refusal(message: str, hint: str = "") -> FrostError:
    return usage(message, hint, code="CONFIG_REFUSED")


def _unusable(path: str, error: OSError | ValueError) -> FrostError:
    reason = error.strerror if isinstance(error, OSError) else "not a valid path"
    return usage(f"{safe(path)} cannot be used: {reason}", code="CONFIG_UNUSABLE")
