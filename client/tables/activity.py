"""Columns of the audit log. Cells are plain text, as in client/tables/columns.py."""

from collections.abc import Mapping

from client.tables.columns import Column, Kind, Record, fields, id_column, time_column

MACHINES = {"api_key": "key", "workload": "identity"}
SHORT = 8
"""Characters shown of an id without a name, in narrow columns."""


def who_text(record: Record) -> str:
    """Return the actor's best name: `Astrid Lindqvist`, `key terraform`; `key 0192f7c1…` if it no longer exists."""
    actor = record.get("actor")
    if not isinstance(actor, Mapping):
        return ""
    kind, identifier = str(actor.get("kind") or ""), str(actor.get("id") or "")
    if kind in MACHINES:
        called = record.get("credentialName") or f"{str(record.get('credentialId') or identifier)[:SHORT]}…"
        return f"{MACHINES[kind]} {called}"
    if kind == "session":
        return str(actor.get("name") or actor.get("email") or f"{identifier[:SHORT]}…")
    return kind if identifier in ("", kind) else f"{kind} {identifier}"


def target_text(record: Record) -> str:
    """Return the target: `policy deployments`, `group 0192f7c1…`; without a kind, the text as recorded."""
    kind, identifier = record.get("targetKind"), str(record.get("targetId") or "")
    if not kind:
        return str(record.get("target") or "")
    return f"{str(kind).replace('_', ' ')} {record.get('targetName') or f'{identifier[:SHORT]}…'}"


def details_text(details: object) -> str:
    """Format details on one line: `from: Web Shop, to: Web Shop 2`."""
    if not isinstance(details, Mapping):
        return ""
    return ", ".join(f"{name}: {value_text(value)}" for name, value in details.items())


def value_text(value: object) -> str:
    """Format a value for users; mappings and lists on one line."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={value_text(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(value_text(one) for one in value) or "none"
    return str(value) if value != "" else "empty"


def _member(member: str) -> Column:
    def text(record: Record) -> str:
        actor = record.get("actor")
        return str(actor.get(member) or "") if isinstance(actor, Mapping) else ""

    return Column(f"actor.{member}", f"Actor {member}", wide=True, cell=text, sort=lambda record: text(record) or None)


_ENTRY = (
    time_column("at", "Time"),
    Column("who", "Who", cell=who_text, sort=lambda record: who_text(record).casefold() or None),
    Column("operation", "What", whole=True),
    Column("target", "Target", cell=target_text, sort=lambda record: target_text(record).casefold() or None),
    Column("outcome", "Outcome", whole=True),
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
