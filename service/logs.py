"""The platform's log: one JSON object a line on stderr. hostile I03, I05

A line break in a name is escaped by the encoding, so no value can forge a second entry. Secrets are never handed to
the log; queries, headers and bodies are not either, and what looks like a key is cut short wherever it comes from.

Rotation of `platform.log`: the file that standard output and standard error of the local platform are written to.

The client opens it and starts the platform on it, so the platform rotates it by its descriptors: what is written past
the log's handler, a traceback of the interpreter for example, goes to the new file as well. A platform whose standard
error is something else (a terminal, journald, a file of the operator) rotates nothing.
"""

import json
import logging
import os
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from service.authn import api_keys
from service.clock import wire_time

NAME = "platform.log"
"""In the data folder."""
GENERATIONS = 3
"""Older files that are kept: `platform.log.1`, the newest, to `platform.log.3`."""
STANDARD = (1, 2)
"""The descriptors of standard output and standard error."""


class LogFile:
    """A log that begins a new file when it has grown to `max_bytes`; 0 is without bound."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._limit = max_bytes

    def rotate_if_full(self) -> None:
        """Begin a new file if this one is full. Where that fails, the old file is written on, and it is tried later."""
        if not self._max_bytes:
            return
        try:
            current = os.fstat(STANDARD[-1])
            if current.st_size < self._limit:
                return
            self._limit = current.st_size + self._max_bytes
            if self._is_ours(current):
                self._rotate(current)
                self._limit = self._max_bytes
        except OSError:
            return

    def _is_ours(self, current: os.stat_result) -> bool:
        """Whether standard error is the regular file of that name."""
        found = self._path.lstat()
        return stat.S_ISREG(found.st_mode) and _identity(found) == _identity(current)

    def _rotate(self, current: os.stat_result) -> None:
        scratch = self._path.with_name(f".{self._path.name}.new")
        scratch.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(scratch, flags, 0o600)
        try:
            names = [self._path, *(self._path.with_name(f"{self._path.name}.{n + 1}") for n in range(GENERATIONS))]
            for older, newer in reversed([*zip(names[1:], names, strict=False)]):
                if newer.exists():
                    newer.replace(older)
            scratch.replace(self._path)
            for number in STANDARD:
                if _identity(os.fstat(number)) == _identity(current):
                    os.dup2(descriptor, number)
        finally:
            os.close(descriptor)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


FIELDS = (
    "request_id",
    "method",
    "path",
    "route",
    "status",
    "milliseconds",
    "actor_kind",
    "actor",
    "credential",
    "tenant",
)
OUR_OWN = "service"


class JsonLines(logging.Formatter):
    """A record as one line of JSON, ASCII only."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": wire_time(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": api_keys.mask_secrets(record.getMessage()),
        }
        line.update({name: value for name in FIELDS if (value := getattr(record, name, None)) is not None})
        if record.exc_info:
            line["exception"] = api_keys.mask_secrets(self.formatException(record.exc_info))
        return json.dumps(line, default=str)


class StandardError(logging.StreamHandler[TextIO]):
    """Writes to standard error, and rotates the file behind it."""

    def __init__(self, file: LogFile | None) -> None:
        super().__init__(sys.stderr)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if self._file:
            self._file.rotate_if_full()


def configure(level: str = "info", file: LogFile | None = None) -> None:
    """Send every logger of the process to stderr, ours from `level` on. `file` is rotated when stderr is that file."""
    handler = StandardError(file)
    handler.setFormatter(JsonLines())
    own = logging.getLevelNamesMapping()[level.upper()]
    # What libraries say below this is about their insides, headers and statements among them.
    logging.basicConfig(handlers=[handler], level=max(own, logging.INFO), force=True)
    logging.getLogger(OUR_OWN).setLevel(own)
    # Their own progress is not ours; SQLAlchemy would print a failed statement together with its values.
    for name in ("uvicorn", "alembic", "sqlalchemy"):
        logging.getLogger(name).setLevel(max(own, logging.WARNING))
