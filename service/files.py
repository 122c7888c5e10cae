"""Files that survive a crash."""

import os
from pathlib import Path


def fsync_folder(folder: Path) -> None:
    """Make sure that what was renamed in a folder is there after a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
