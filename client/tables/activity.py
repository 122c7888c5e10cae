"""Columns of the audit log. Cells are plain text, as in client/tables/columns.py."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from client.tables.activity_sentences import fold, sentence, target_text, value_text, who_text
from client.tables.columns import UNKNOWN, Column, Kind, Record, age, fields, id_column, time_column, time_text


def details_text(details: object) -> str:
    """Format details on one line: `from: Web Shop, to: Web Shop 2`."""
    if not isinstance(details, Mapping):
        return ""
    return ", ".join(f"{name}: {value_text(value)}" for name, value in details.items())


def _member(member: str) -> Column:
    def text(record: Record) -> str:
        actor = record.get("actor")
        return str(actor.get(member) or "") if isinstance(actor, Mapping) else ""

    return Column(f"actor.{member}", f"Actor {member}", wide=True, cell=text, sort=lambda record: text(record) or None)


def folded_rows(entries: Iterable[Record], now: datetime) -> list[Record]:
    """Return a row for each sentence: the newest of its entries, with all of them in `folded` and its age in `when`."""
    return [{**group[0], "folded": group, "when": when_text(group[0], now)} for group in fold(entries)]


def when_text(record: Record, now: datetime) -> str:
    """Return the age of an entry: `5m ago`; `—` without a valid time."""
    text = age(record.get("at"), now)
    return text if text in (UNKNOWN, "now") else f"{text} ago"


_ENTRY = (
    time_column("at", "Time")._replace(cell=lambda record: record.get("when") or time_text(record.get("at"))),
    Column(
        "sentence",
        "Activity",
        cell=lambda record: sentence(record.get("folded") or [record]),
        sort=lambda record: sentence(record.get("folded") or [record]).casefold() or None,
    ),
    Column("who", "Who", wide=True, cell=who_text, sort=lambda record: who_text(record).casefold() or None),
    Column("operation", "Operation", wide=True, whole=True),
    Column("target", "Target", wide=True, cell=target_text, sort=lambda record: target_text(record).casefold() or None),
    Column("outcome", "Outcome", wide=True, whole=True),
    Column("details", "Details", wide=True, cell=lambda record: details_text(record.get("details"))),
    id_column("targetId", "Target ID", wide=True),
    _member("kind"),
    _member("id")._replace(whole=True),
    _member("email"),
    id_column("credentialId", "Credential ID", wide=True),
    id_column("requestId", "Request ID", wide=True),
    id_column("id", "Entry", wide=True),
)

ACTIVITY = Kind(
    "entry",
    "entries",
    "id",
    _ENTRY,
    fields(
        _ENTRY,
        who="who",
        what="operation",
        target="target",
        outcome="outcome",
        details="details",
        request="requestId",
        id="targetId",
        email="actor.email",
    ),
    "operation",
)
