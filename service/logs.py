"""The platform's log: a JSON object per line on stderr.

JSON escapes line breaks, so values cannot forge entries. Secrets, query strings, headers and bodies are not logged;
texts that look like an API key or a JWT are truncated.

The client starts the local platform with stdout and stderr on `platform.log`. Rotation replaces both descriptors, so
that output without a log handler, such as an interpreter traceback, also goes to the new file. Other targets of stderr
are not rotated.
"""

import asyncio
import json
import logging
import os
import stat
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import orjson

from service.authn import secret_format
from service.clock import wire_time

NAME = "platform.log"
"""In the data folder."""
GENERATIONS = 3
"""Rotated files, from `platform.log.1`, the newest, to `platform.log.3`."""
STANDARD = (1, 2)
"""The descriptors of stdout and stderr."""


class LogFile:
    """A log file, rotated at `max_bytes` unless that is 0."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._limit = max_bytes

    def rotate_if_full(self) -> None:
        """Rotate a full file. If that fails, keep the file and retry after `max_bytes` more."""
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
_ENCODER = json.JSONEncoder(default=str)


def _line(seconds: float, level: str, logger: str, message: str, fields: Mapping[str, object]) -> str:
    """Return a line in ASCII, so that a terminal interprets nothing of it."""
    line: dict[str, object] = {
        "at": wire_time(datetime.fromtimestamp(seconds, UTC)),
        "level": level.lower(),
        "logger": logger,
        "message": secret_format.mask_secrets(message),
    }
    line.update({name: value for name, value in fields.items() if value is not None})
    try:
        text = orjson.dumps(line)
        if text.isascii():
            return text.decode()
    except TypeError:
        pass  # A value that only the standard encoder accepts.
    return _ENCODER.encode(line)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {name: getattr(record, name, None) for name in FIELDS}
        if record.exc_info:
            fields["exception"] = secret_format.mask_secrets(self.formatException(record.exc_info))
        return _line(record.created, record.levelname, record.name, record.getMessage(), fields)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class RotatingStderrHandler(logging.StreamHandler[TextIO]):
    """Writes lines to stderr: those of the event loop together after its iteration, warnings and others at once."""

    def __init__(self, file: LogFile | None) -> None:
        super().__init__(sys.stderr)
        self._file = file
        self._pending: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.write(record.levelno, self.format(record))
        except Exception:
            self.handleError(record)

    def write(self, level: int, line: str) -> None:
        self.acquire()
        try:
            self._pending.append(line + self.terminator)
        finally:
            self.release()
        if level < logging.WARNING and (loop := running_loop()) is not None:
            if len(self._pending) == 1:
                loop.call_soon(self._flush_or_report)
        else:
            self.flush()

    def _flush_or_report(self) -> None:
        try:
            self.flush()
        except Exception:
            self.handleError(logging.makeLogRecord({"name": __name__}))

    def flush(self) -> None:
        self.acquire()
        try:
            lines, self._pending = self._pending, []
            if lines:
                self.stream.write("".join(lines))
            super().flush()
            if lines and self._file:
                self._file.rotate_if_full()
        finally:
            self.release()


def write(logger: logging.Logger, level: int, message: str, fields: Mapping[str, object]) -> None:
    """Log a message with some of `FIELDS`, without a record, which takes longer than the rest of a short request."""
    handlers = logging.root.handlers
    if len(handlers) == 1 and isinstance(handlers[0], RotatingStderrHandler) and not logger.handlers:
        handler = handlers[0]
        try:
            handler.write(level, _line(time.time(), logging.getLevelName(level), logger.name, message, fields))
        except Exception:
            handler.handleError(logging.makeLogRecord({"name": logger.name}))
    else:
        logger.log(level, message, extra=fields)


def configure(level: str = "info", file: LogFile | None = None) -> None:
    """Log to stderr, the platform's own records from `level`. `file` is rotated if stderr is that file."""
    # The formatter does not use these; finding the caller takes half the time of a record.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None
    handler = RotatingStderrHandler(file)
    handler.setFormatter(JsonFormatter())
    own = logging.getLevelNamesMapping()[level.upper()]
    # Debug records of libraries contain headers and statements.
    logging.basicConfig(handlers=[handler], level=max(own, logging.INFO), force=True)
    logging.getLogger(PACKAGE).setLevel(own)
    # Verbose at level info; SQLAlchemy would log failed statements with parameters.
    for name in ("uvicorn", "alembic", "sqlalchemy"):
        logging.getLogger(name).setLevel(max(own, logging.WARNING))
