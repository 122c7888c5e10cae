"""The platform's log: one JSON object a line on stderr. hostile I03, I05

A line break in a name is escaped by the encoding, so no value can forge a second entry. Secrets are never handed to
the log; queries, headers and bodies are not either, and what looks like a key is cut short wherever it comes from.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

from service.access import keys
from service.clock import wire_time
from service.log_file import LogFile

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
            "message": keys.masked(record.getMessage()),
        }
        line.update({name: value for name in FIELDS if (value := getattr(record, name, None)) is not None})
        if record.exc_info:
            line["exception"] = keys.masked(self.formatException(record.exc_info))
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
