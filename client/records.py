"""Each record kind once, as data: the tables of the commands and of the screens come from here.

Records are plain wire dicts (camelCase members, times in RFC 3339), or, for contexts, the same shape with the
names of the config file. A cell's text is plain and may hold anything the platform sent: whoever paints it passes
it through `client.text.safe` first.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

Record = Mapping[str, Any]

UNKNOWN = "—"
"""What a cell shows when the platform did not say (contract: Quota; unknown is not 0)."""


class Column(NamedTuple):
    """One column: where its value stands in a record, its title, and how it reads and sorts."""

    key: str
    """Member of the record, and the column's name for sorting and filtering."""
    title: str
    """As people read it; tables of commands print it in upper case."""
    wide: bool = False
    """Only under `-o wide`, or where a screen has the room."""
    align: str = "left"
    cell: Callable[[Record], str] | None = None
    """Makes the text when it is not simply the member."""
    sort: Callable[[Record], Any] | None = None
    """Makes the sort key; None for a record stands last, whatever the direction."""
    whole: bool = False
    """Of no use when shortened (an id, a time): other columns give way where there is little room."""
    yields: bool = False
    """In a screen it is cut further than others would be before one is left out."""

    def text(self, record: Record) -> str:
        """The cell as plain text, `—` when unknown. An unfamiliar value is shown as sent (checklist G45)."""
        if self.cell is not None:
            return self.cell(record) or UNKNOWN
        value = record.get(self.key)
        if value is None or value == "":
            return UNKNOWN
        if isinstance(value, bool):
            return "yes" if value else "no"
        return str(value)

    def sort_value(self, record: Record) -> Any:
        """A value that compares with those of the other records of this column, or None when unknown."""
        if self.sort is not None:
            return self.sort(record)
        value = record.get(self.key)
        if value is None or value == "":
            return None
        return str(value).casefold()


class Kind(NamedTuple):
    """A record kind: its names, its identity and its columns."""

    name: str
    plural: str
    id_key: str
    columns: tuple[Column, ...]
    filter_fields: Mapping[str, Column]
    """What `field:value` in a filter may name, by its short name."""
    name_key: str
    """The member people know the record by."""


def columns(kind: Kind, wide: bool = False) -> tuple[Column, ...]:
    """The columns of a table, or with `wide` all of them: never fewer (checklist G14)."""
    return kind.columns if wide else tuple(column for column in kind.columns if not column.wide)


def cells(kind: Kind, record: Record, wide: bool = False) -> list[str]:
    """One record as the texts of its columns."""
    return [column.text(record) for column in columns(kind, wide)]


# --- how values read -------------------------------------------------------------------------------------------------


def parse_time(value: object) -> datetime | None:
    """An RFC 3339 instant, or None when it is not one."""
    if not isinstance(value, str):
        return None
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else None


def time_text(value: object) -> str:
    """An instant to the minute in UTC, `2026-11-21 10:05Z`; anything else as sent, nothing as `—`."""
    from datetime import UTC

    instant = parse_time(value)
    if instant is None:
        return str(value) if value else UNKNOWN
    return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%MZ")


def age(value: object, now: datetime) -> str:
    """How long ago an instant was, in its largest whole unit: `now`, `40s`, `5m`, `3h`, `12d`, `2y`."""
    instant = parse_time(value)
    if instant is None:
        return UNKNOWN
    seconds = int((now - instant).total_seconds())
    if seconds < 5:
        return "now"
    for size, letter in ((365 * 86400, "y"), (86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{letter}"
    return f"{seconds}s"


def quantity(value: int | None, unit: object) -> str:
    """A quota figure in its wire unit.

    Counts are plain numbers. `gb` is shown with its unit, `mb` (memory) in GB with one decimal when not whole, rounded
    half up. A unit that this version does not know is shown as sent.
    """
    if value is None:
        return UNKNOWN
    if unit == "mb" and value % 1024:
        tenths = (value * 20 + 1024) // 2048
        return f"{tenths // 10}.{tenths % 10} GB"
    if unit == "mb":
        return f"{value // 1024} GB"
    if unit == "gb":
        return f"{value} GB"
    return str(value) if unit in ("count", "", None) else f"{value} {unit}"


def time_column(key: str, title: str, wide: bool = False) -> Column:
    def instant(record: Record) -> float | None:
        moment = parse_time(record.get(key))
        return moment.timestamp() if moment else None

    return Column(key, title, wide, cell=lambda record: time_text(record.get(key)), sort=instant, whole=True)


def id_column(key: str, title: str, wide: bool = False) -> Column:
    return Column(key, title, wide, whole=True)


def number_column(key: str, title: str, wide: bool = False) -> Column:
    def number(record: Record) -> int | float | None:
        value = record.get(key)
        return value if isinstance(value, int | float) else None

    return Column(key, title, wide, "right", sort=number)


def _tightest_share(record: Record) -> float | None:
    quota = record.get("tightestQuota")
    if not isinstance(quota, Mapping) or quota.get("used") is None or not quota.get("limit"):
        return None
    return float(quota["used"] / quota["limit"])


def _tightest_text(record: Record) -> str:
    quota = record.get("tightestQuota")
    if not isinstance(quota, Mapping):
        return UNKNOWN
    unit = quota.get("unit")
    figures = f"{quantity(quota.get('used'), unit)} of {quantity(quota.get('limit'), unit)}"
    return f"{quota.get('resourceType', UNKNOWN)} {figures}"


def _progress(record: Record) -> str:
    value = record.get("progress")
    return f"{value}%" if isinstance(value, int | float) else UNKNOWN


def _operation_status(record: Record) -> str:
    status = str(record.get("status") or "")
    return f"{status} (stalled)" if record.get("stalled") else status


def _about(record: Record) -> str:
    """What an operation works on, by the best name the answer has."""
    return str(record.get("tenantName") or record.get("resourceId") or record.get("tenantId") or "")


def fields(all_columns: Sequence[Column], **names: str) -> dict[str, Column]:
    by_key = {column.key: column for column in all_columns}
    return {name: by_key[key] for name, key in names.items()}


# --- the kinds -------------------------------------------------------------------------------------------------------

_TENANT = (
    Column("displayName", "Name"),
    Column("status", "Status"),
    Column("slug", "Slug"),
    id_column("id", "ID"),
    Column("organizationName", "Organization"),
    number_column("defaultTagCount", "Tags", wide=True),
    Column("tightestQuota", "Tightest quota", wide=True, cell=_tightest_text, sort=_tightest_share),
    Column("role", "Role", wide=True),
    id_column("organizationId", "Organization ID", wide=True),
    time_column("createdAt", "Created", wide=True),
    time_column("updatedAt", "Updated", wide=True),
)

TENANT = Kind(
    "tenant",
    "tenants",
    "id",
    _TENANT,
    fields(
        _TENANT,
        name="displayName",
        status="status",
        slug="slug",
        id="id",
        organization="organizationName",
        role="role",
        quota="tightestQuota",
    ),
    "displayName",
)

_ORGANIZATION = (
    Column("name", "Name"),
    Column("slug", "Slug"),
    Column("role", "Role"),
    id_column("id", "ID"),
    time_column("createdAt", "Created", wide=True),
)

ORGANIZATION = Kind(
    "organization",
    "organizations",
    "id",
    _ORGANIZATION,
    fields(_ORGANIZATION, name="name", slug="slug", role="role", id="id"),
    "name",
)

_CONTEXT = (
    Column("name", "Name"),
    Column("api_endpoint", "Endpoint"),
    Column("credential", "Credential"),
    Column("tenant", "Tenant"),
    Column("region", "Region", wide=True),
    Column("read_only", "Read-only", wide=True),
)

CONTEXT = Kind(
    "context",
    "contexts",
    "name",
    _CONTEXT,
    fields(_CONTEXT, name="name", endpoint="api_endpoint", credential="credential", tenant="tenant", region="region"),
    "name",
)

_OPERATION = (
    Column("kind", "Kind"),
    Column("status", "Status", cell=_operation_status),
    Column("progress", "Progress", align="right", cell=_progress, sort=lambda record: record.get("progress")),
    Column("currentStep", "Step"),
    Column("about", "About", cell=_about, sort=lambda record: _about(record).casefold() or None),
    time_column("startedAt", "Started"),
    id_column("runId", "Run ID"),
    id_column("operationId", "Operation ID", wide=True),
    id_column("tenantId", "Tenant ID", wide=True),
    time_column("createdAt", "Created", wide=True),
    time_column("completedAt", "Completed", wide=True),
    Column("errorCode", "Error", wide=True),
    id_column("startedBy", "Started by", wide=True),
)

OPERATION = Kind(
    "operation",
    "operations",
    "runId",
    _OPERATION,
    fields(_OPERATION, kind="kind", status="status", step="currentStep", about="about", id="runId", error="errorCode"),
    "operationId",
)
