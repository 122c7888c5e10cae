"""The platform's log: one JSON object a line on stderr. hostile I03

A line break in a name is escaped by the encoding, so no value can forge a second entry. Secrets are never handed to
the log; queries, headers and bodies are not either.
"""

import json
import logging
import sys
from datetime import UTC, datetime

from service.clock import wire_time

FIELDS = ("request_id", "method", "path", "status", "milliseconds", "actor", "credential")


class JsonLines(logging.Formatter):
    """A record as one line of JSON, ASCII only."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": wire_time(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update({name: value for name in FIELDS if (value := getattr(record, name, None)) is not None})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure() -> None:
    """Send every logger of the process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    # Their own progress is not ours.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # It would print a failed statement together with its values.
    logging.getLogger("sqlalchemy").setLevel(logging.WARNING)
