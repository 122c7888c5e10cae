"""The platform's log: one JSON object a line on stderr. hostile I03, I05

A line break in a name is escaped by the encoding, so no value can forge a second entry. Secrets are never handed to
the log; queries, headers and bodies are not either, and what looks like a key is cut short wherever it comes from.
"""

import json
import logging
import sys
from datetime import UTC, datetime

from service.access import keys
from service.clock import wire_time

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


def configure(level: str = "info") -> None:
    """Send every logger of the process to stderr, ours from `level` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    own = logging.getLevelNamesMapping()[level.upper()]
    # What libraries say below this is about their insides, headers and statements among them.
    logging.basicConfig(handlers=[handler], level=max(own, logging.INFO), force=True)
    logging.getLogger(OUR_OWN).setLevel(own)
    # Their own progress is not ours; SQLAlchemy would print a failed statement together with its values.
    for name in ("uvicorn", "alembic", "sqlalchemy"):
        logging.getLogger(name).setLevel(max(own, logging.WARNING))
