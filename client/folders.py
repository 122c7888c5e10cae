"""Folders that only this user may enter or write: `~/.cli` and what frost keeps below it.

A folder that others may write lets them replace the files in it, so frost creates its folders with mode 0700,
independent of the umask. `os.makedirs` does that for the last folder only: its parents get the umask's mode.
"""

# pathlib is not on a command's path: importing it costs more than reading the configuration does.
# ruff: noqa: PTH102, PTH120

from __future__ import annotations

import os
import stat

MODE = 0o700
WRITABLE_BY_OTHERS = 0o022


def make_private(folder: str) -> None:
    """Create a folder and its missing parents with mode 0700. Folders that exist are left alone.

    Raises:
        OSError: A folder cannot be created, or a file is in the way.
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
            os.chmod(step, MODE)  # noqa: PTH101  (a umask may take bits of the owner as well)


def is_writable_by_others(mode: int) -> bool:
    """Whether others can replace the files of a folder. In a sticky folder (`/tmp`) they cannot."""
    return bool(mode & WRITABLE_BY_OTHERS) and not mode & stat.S_ISVTX


def repair(folder: str) -> bool:
    """Set the mode of a folder to 0700 if it is writable by others and owned by this user; whether that was done.

    A folder of another user, a link and anything else are left as they are: the caller's own check refuses them.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or not is_writable_by_others(found.st_mode):
            return False
        os.fchmod(descriptor, MODE)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
