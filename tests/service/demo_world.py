"""The demo world, loaded once in each process of the tests: platforms begin with a copy of it."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from service.app import open_platform
from service.audit.mark import MARK_FILE
from service.seed.loader import KEY_FILE
from service.settings import from_arguments

SECRETS = ("secret.key", KEY_FILE, MARK_FILE)
_folders: dict[str, Path] = {}
"""The folders with the secrets of PostgreSQL databases that hold the world, by URL."""


def load(url: str | None = None) -> Path:
    """Load the world into a database, without a URL into a SQLite file; return the folder with its secrets."""
    folder = Path(tempfile.mkdtemp(prefix="frost-demo-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    flags = ["--data-dir", str(folder), "--world", "demo", *(["--database", url] if url else [])]
    open_platform(from_arguments(flags, {})).database.close()
    return folder


_sqlite = cache(load)


def register(url: str, folder: Path) -> str:
    """Note the secrets of a database that was copied from one with the world."""
    _folders[url] = folder
    return url


def copy_into(folder: Path, url: str | None) -> None:
    """Give a new platform its secrets and its SQLite file; nothing if its database does not hold the world yet."""
    source = _folders.get(url) if url else _sqlite()
    if source is None:
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in SECRETS if url else (*SECRETS, "platform.db"):
        shutil.copy(source / name, folder / name)
