"""Columns of quotas: of tenants and organizations, quota requests, and the needs of a plan.

Cells are plain text, as in client/tables/columns.py.
"""

from collections.abc import Callable, Mapping

from client.tables.columns import (
    Column,
    Kind,
    Record,
    fields,
    id_column,
    memory_text,
    person_text,
    quantity,
    time_column,
)

WARNING_SHARE = 0.8
"""Share of a quota from which it is shown as a warning."""


def quota_tone(share: float) -> str | None:
    """Return the tone of a used share: a warning from `WARNING_SHARE` on, bad from the limit on."""
    return "bad" if share >= 1 else "warning" if share >= WARNING_SHARE else None


MAX_PERCENT = 999


def percent_text(used: int, limit: int) -> str:
    """Format a used share in whole percent, rounded half up, at most 999%. It is 100% only if the use is the limit."""
    if not limit:
        return f"{MAX_PERCENT if used else 0}%"
    percent = min(MAX_PERCENT, (used * 200 + limit) // (limit * 2))
    if percent == 100 and used != limit:
        percent = 99 if used < limit else 101
    return f"{percent}%"


def amount_text(value: int | None, unit: object) -> str:
    """Format a limit in the unit of input and for reading: `131072 MB (128 GB)`, `1 MB (0.0 GB)`, `500 GB`, `40`."""
    return f"{value} MB ({memory_text(value)})" if unit == "mb" and value is not None else quantity(value, unit)


def decision_text(request: Record) -> str:
    """Return the reason of a decision on a request; for a denial by figures, with these in display units."""
    details, unit = request.get("details"), request.get("unit")
    figures = details if isinstance(details, Mapping) else {}
    used, creating, limit = (figures.get(name) for name in ("used", "creating", "limit"))
    if not isinstance(used, int) or not isinstance(limit, int):
        return str(request.get("decision") or "")
    in_creation = f", {amount_text(creating, unit)} in creation" if isinstance(creating, int) and creating else ""
    return f"{amount_text(used, unit)} in use{in_creation}: more than {amount_text(limit, unit)}"


def note_text(record: Record) -> str:
    """Return notes on a quota: no allowance, over the limit, resources being created."""
    used, limit, creating = record.get("used"), record.get("limit"), record.get("creating")
    notes = []
    if limit == 0:
        notes.append("no allowance")
    if isinstance(used, int) and isinstance(limit, int) and used > limit:
        notes.append(f"{quantity(used - limit, record.get('unit'))} over the limit")
    if isinstance(creating, int) and creating:
        notes.append(f"{quantity(creating, record.get('unit'))} in creation")
    return ", ".join(notes)


def quantity_column(member: str, title: str, *, wide: bool = False) -> Column:
    """Return a column of figures in the unit of their record, sorted by number; `—` if unknown."""

    def number(record: Record) -> int | None:
        value = record.get(member)
        return value if isinstance(value, int) else None

    def text(record: Record) -> str:
        return quantity(number(record), record.get("unit"))

    return Column(member, title, wide, "right", cell=text, sort=number)


def _share(record: Record) -> float | None:
    used, limit = record.get("used"), record.get("limit")
    return used / limit if isinstance(used, int) and isinstance(limit, int) and limit else None


def _amount(member: str) -> Callable[[Record], str]:
    def text(record: Record) -> str:
        value = record.get(member)
        return amount_text(value, record.get("unit")) if isinstance(value, int) else ""

    return text


def _note(wide: bool = False) -> Column:
    return Column("note", "Note", wide, cell=lambda record: note_text(record) or " ", sort=_share)


_QUOTA = (
    Column("resourceType", "Type", whole=True),
    quantity_column("used", "Used"),
    quantity_column("limit", "Limit"),
    _note(),
    Column("title", "Title", wide=True),
    Column("unit", "Unit", wide=True),
    quantity_column("creating", "Creating", wide=True),
    quantity_column("requestable", "No review up to", wide=True),
)

QUOTA = Kind("quota", "quotas", "resourceType", _QUOTA, fields(_QUOTA, type="resourceType", unit="unit"), "title")

_ORGANIZATION_QUOTA = (
    Column("resourceType", "Type", whole=True),
    quantity_column("used", "Used"),
    quantity_column("allocated", "Allocated"),
    quantity_column("limit", "Limit"),
    _note(),
    Column("title", "Title", wide=True),
    Column("unit", "Unit", wide=True),
)

ORGANIZATION_QUOTA = Kind(
    "quota",
    "quotas",
    "resourceType",
    _ORGANIZATION_QUOTA,
    fields(_ORGANIZATION_QUOTA, type="resourceType", unit="unit"),
    "title",
)

_REQUEST = (
    Column("resourceType", "Type", whole=True),
    Column("from", "From", align="right", cell=_amount("from")),
    Column("limit", "To", align="right", cell=_amount("limit")),
    Column("status", "Status", whole=True),
    Column("scope", "For", whole=True),
    time_column("createdAt", "Requested"),
    Column("decision", "Decision", cell=decision_text),
    id_column("id", "ID"),
    Column("reason", "Reason", wide=True),
    Column("requestedBy", "Requested by", wide=True, cell=lambda record: person_text(record.get("requestedBy"))),
    time_column("decidedAt", "Decided", wide=True),
    Column("decidedBy", "Decided by", wide=True),
    id_column("tenantId", "Tenant ID", wide=True),
    id_column("organizationId", "Organization ID", wide=True),
)

QUOTA_REQUEST = Kind(
    "quota request",
    "quota requests",
    "id",
    _REQUEST,
    fields(_REQUEST, type="resourceType", status="status", of="scope", id="id", reason="reason"),
    "resourceType",
)

# Reviewers need to see the requester and the reason.
_DECIDED_BY = ("resourceType", "from", "limit", "status", "requestedBy", "reason", "createdAt", "id")
_REVIEWED = (
    Column("organizationName", "Organization"),
    *(one._replace(wide=False) for key in _DECIDED_BY for one in _REQUEST if one.key == key),
    *(one._replace(wide=True) for one in _REQUEST if one.key not in (*_DECIDED_BY, "scope", "tenantId")),
)

REVIEWED = QUOTA_REQUEST._replace(
    columns=_REVIEWED, filter_fields={**QUOTA_REQUEST.filter_fields, "organization": _REVIEWED[0]}
)

_NEED = (
    Column("resourceType", "Type", whole=True),
    quantity_column("used", "Used"),
    quantity_column("wanted", "More"),
    quantity_column("after", "After"),
    quantity_column("limit", "Limit"),
    quantity_column("short", "Short"),
    quantity_column("requestable", "No review up to"),
    Column("answer", "Answer", whole=True),
)

NEED = Kind("quota", "quotas", "resourceType", _NEED, fields(_NEED, type="resourceType", answer="answer"), "answer")
