"""The platform's log: one JSON object a line on stderr.

JSON escapes line breaks, so no value can forge an entry. Secrets, query strings, headers and bodies are not logged, and
texts that look like an API key are truncated.

The client starts the local platform with stdout and stderr on `platform.log`. The platform rotates that file by
replacing both descriptors, so that output which bypasses the log handler, such as a traceback of the interpreter, goes
to the new file as well. Nothing is rotated if stderr is something else (a terminal, journald, another file).
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
"""Rotated files: `platform.log.1`, the newest, to `platform.log.3`."""
STANDARD = (1, 2)
"""The descriptors of standard output and standard error."""


class LogFile:
    """A log file that is rotated at `max_bytes`; 0 never."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._limit = max_bytes

    def rotate_if_full(self) -> None:
        """Rotate the file if it is full. If that fails, keep the file, and retry when it has grown further."""
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
        """Return whether stderr is the regular file at the path."""
        status = self._path.lstat()
        return stat.S_ISREG(status.st_mode) and _identity(status) == _identity(current)

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


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


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
PACKAGE = "service"


class JsonFormatter(logging.Formatter):
    """Format a record as one line of ASCII-only JSON."""

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


class RotatingStderrHandler(logging.StreamHandler[TextIO]):
    """Write to stderr and rotate the file behind it."""

    def __init__(self, file: LogFile | None) -> None:
        super().__init__(sys.stderr)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if self._file:
            self._file.rotate_if_full()


def configure(level: str = "info", file: LogFile | None = None) -> None:
    """Log to stderr, the platform's own loggers from `level` on. `file` is rotated if stderr is that file."""
    handler = RotatingStderrHandler(file)
    handler.setFormatter(JsonFormatter())
    own = logging.getLevelNamesMapping()[level.upper()]
    # Debug records of libraries contain headers and statements.
    logging.basicConfig(handlers=[handler], level=max(own, logging.INFO), force=True)
    logging.getLogger(PACKAGE).setLevel(own)
    # Informational records of these are noise; SQLAlchemy would log failed statements with their parameters.
    for name in ("uvicorn", "alembic", "sqlalchemy"):
        logging.getLogger(name).setLevel(max(own, logging.WARNING))
