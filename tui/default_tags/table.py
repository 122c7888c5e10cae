"""Table columns of default tags."""

from client.models.validation import KEY_BYTES, VALUE_BYTES, size
from client.tables.columns import Column, Kind, Record, fields
from tui.state.tag_draft import MARKS
from tui.widgets.record_table import Tones


def bytes_text(record: Record) -> str:
    """Return sizes and limits of key and value: `3/64 4/255`."""
    return f"{size(str(record['key']))}/{KEY_BYTES} {size(str(record['value']))}/{VALUE_BYTES}"


def _note(record: Record) -> str:
    if record.get("problem"):
        return f"! {record['problem']}"
    if record.get("mark") == "changed":
        return f"was {record.get('was') or '(empty)'}"
    return str(record.get("mark") or "")


_COLUMNS = (
    Column(
        "key",
        "  Key",
        cell=lambda record: f"{MARKS.get(str(record.get('mark')), ' ')} {record['key']}",
        sort=lambda record: str(record["key"]).casefold(),
    ),
    Column(
        "value", "Value", cell=lambda record: str(record["value"]) or "(empty)", sort=lambda record: record["value"]
    ),
    Column("bytes", "Bytes", cell=bytes_text, sort=lambda record: size(str(record["key"]) + str(record["value"]))),
    Column("note", "Draft", cell=_note),
)
TAG = Kind("tag", "tags", "key", _COLUMNS, fields(_COLUMNS, key="key", value="value", draft="note"), "key")


def _tone(record: Record) -> str | None:
    if record.get("problem"):
        return "bad"
    return {"added": "good", "changed": "warning", "removed": "bad"}.get(str(record.get("mark")))


TONES: Tones = {
    "key": _tone,
    "value": lambda record: "dim" if record.get("mark") == "removed" else None,
    "bytes": lambda record: "dim",
    "note": _tone,
}
