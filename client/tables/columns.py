"""Columns of each record kind, for the tables of commands and screens.

Records are JSON objects (camelCase members, times in RFC 3339); those of contexts have the member names of the
configuration file. Cells are unescaped text from the platform: pass them through `client.text.safe` before output.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

Record = Mapping[str, Any]
"""A JSON object of the API, which the columns read."""


def json_of(record: object) -> Record:
    """Return the JSON object of a record: a model, an object with the method `wire` of models, or a mapping."""
    wire: Callable[[], Record] | None = getattr(record, "wire", None)
    return cast("Record", record) if wire is None else wire()


UNKNOWN = "—"
"""Cell of an unknown value; unknown is not 0."""
MEGABYTES_IN_GB = 1024


class Column(NamedTuple):
    """A column: its member, title, format and sort key."""

    key: str
    """Member of the record; also the name for sorting and filtering."""
    title: str
    """Title for users; tables of commands print it in upper case."""
    wide: bool = False
    """Show only with `-o wide`, or on wide screens."""
    align: str = "left"
    cell: Callable[[Record], str] | None = None
    """Returns the text, if it is not the member itself."""
    sort: Callable[[Record], Any] | None = None
    """Returns the sort key; records with None are last in both directions."""
    whole: bool = False
    """Never truncate, for example an id or a time: other columns get narrower instead."""
    yields: bool = False
    """On screens, truncate this column further before other columns are hidden."""

    def text(self, record: Record) -> str:
        """Return the cell as plain text, `—` if unknown. Values unknown to this version are shown as sent."""
        if self.cell is not None:
            return self.cell(record) or UNKNOWN
        value = record.get(self.key)
        if value is None or value == "":
            return UNKNOWN
        if isinstance(value, bool):
            return "yes" if value else "no"
        return str(value)

    def sort_value(self, record: Record) -> Any:
        """Return a comparable value; None if unknown."""
        if self.sort is not None:
            return self.sort(record)
        value = record.get(self.key)
        if value is None or value == "":
            return None
        return str(value).casefold()


class Kind(NamedTuple):
    """A record kind: its names, id and columns."""

    name: str
    plural: str
    id_key: str
    """Member with the id; empty if only type and id together identify a record, as those of members do."""
    columns: tuple[Column, ...]
    filter_fields: Mapping[str, Column]
    """Fields of filters (`field:value`) by their short names."""
    name_key: str
    """Member with the name that users know."""

    def id_of(self, record: object) -> str:
        """Return the text that identifies a record in its list: the id, or `type:id`."""
        json = json_of(record)
        return str(json[self.id_key]) if self.id_key else ":".join(kind_and_id(json))


def columns(kind: Kind, wide: bool = False) -> tuple[Column, ...]:
    """Return the columns of a table; with `wide`, all of them."""
    return kind.columns if wide else tuple(column for column in kind.columns if not column.wide)


def cells(kind: Kind, record: Record, wide: bool = False) -> list[str]:
    return [column.text(record) for column in columns(kind, wide)]


# --- formats of values -----------------------------------------------------------------------------------------------


def parse_time(value: object) -> datetime | None:
    """Parse an RFC 3339 instant; return None if invalid or without a time zone. A `datetime` is an instant itself."""
    if isinstance(value, datetime):
        instant = value
    elif isinstance(value, str):
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            return None
    else:
        return None
    return instant if instant.tzinfo is not None else None


def time_text(value: object) -> str:
    """Format an instant to the minute in UTC, `2026-11-21 10:05Z`; other values as sent, empty ones as `—`."""
    from datetime import UTC

    instant = parse_time(value)
    if instant is None:
        return str(value) if value else UNKNOWN
    return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%MZ")


def age(value: object, now: datetime) -> str:
    """Format the time since an instant in its largest whole unit: `now`, `40s`, `5m`, `3h`, `12d`, `2y`."""
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
    """Format a quota figure.

    Counts are plain numbers. `gb` is shown in GB, and `mb` (memory) as `memory_text`, with the exact figure if that is
    rounded to zero: `0.0 GB (1 MB)`. Unknown units are shown as sent.
    """
    if value is None:
        return UNKNOWN
    if unit == "mb":
        text = memory_text(value)
        return f"{text} ({value} MB)" if text.startswith("0.0 ") else text
    if unit == "gb":
        return f"{value} GB"
    return str(value) if unit in ("count", "", None) else f"{value} {unit}"


def memory_text(megabytes: int) -> str:
    """Format memory in GB of 1024 MB. A figure that is not whole has one decimal, rounded half up: `1.0 GB`."""
    whole, rest = divmod(megabytes, MEGABYTES_IN_GB)
    if not rest:
        return f"{whole} GB"
    tenths = (megabytes * 20 + MEGABYTES_IN_GB) // (2 * MEGABYTES_IN_GB)
    return f"{tenths // 10}.{tenths % 10} GB"


def person_text(person: object) -> str:
    """Return the best name of a person, a JSON object or a model: e-mail, name or id."""
    record: object = json_of(person) if hasattr(person, "wire") else person
    if not isinstance(record, Mapping):
        return ""
    return str(record.get("email") or record.get("name") or record.get("id") or "")


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


def tightest_share(record: Record) -> float | None:
    """Return the used share of a tenant's quota nearest to its limit; None if unknown."""
    quota = record.get("tightestQuota")
    if not isinstance(quota, Mapping) or quota.get("used") is None or quota.get("limit") is None:
        return None
    used, limit = quota["used"], quota["limit"]
    return float(used / limit) if limit else (math.inf if used else 0.0)


def tightest_text(record: Record, member: str = "resourceType") -> str:
    """Format a tenant's quota nearest to its limit: `vcpu 51 of 60`; with the member `title`, `vCPUs 51 of 60`."""
    quota = record.get("tightestQuota")
    if not isinstance(quota, Mapping):
        return UNKNOWN
    unit = quota.get("unit")
    figures = f"{quantity(quota.get('used'), unit)} of {quantity(quota.get('limit'), unit)}"
    return f"{quota.get(member) or quota.get('resourceType', UNKNOWN)} {figures}"


def _progress(record: Record) -> str:
    value = record.get("progress")
    return f"{value}%" if isinstance(value, int | float) else UNKNOWN


def _operation_status(record: Record) -> str:
    status = str(record.get("status") or "")
    return f"{status} (stalled)" if record.get("stalled") else status


def _about(record: Record) -> str:
    """Return the best name of an operation's target."""
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
    Column("tightestQuota", "Fullest quota", wide=True, cell=tightest_text, sort=tightest_share),
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


_TYPE_AND_ID = (("memberType", "memberId"), ("attacheeType", "attacheeId"), ("type", "id"))


def kind_and_id(record: Record) -> tuple[str, str]:
    """Return type and id of a member, an attachee or a principal."""
    kind, identifier = next((pair for pair in _TYPE_AND_ID if pair[0] in record), ("type", "id"))
    return str(record.get(kind, "")), str(record.get(identifier, ""))


def format_remaining(left: timedelta) -> str:
    """Format remaining time in its largest unit, up to days: `353d`, `5h`, `12m`.

    Days and hours are rounded down after the next full minute: a key that was created a moment ago for 365 days has
    365 days left, not 364.
    """
    seconds = max(0, int(left.total_seconds()))
    full_minute = -(-seconds // 60) * 60
    for size, letter in ((86400, "d"), (3600, "h")):
        if full_minute >= size:
            return f"{full_minute // size}{letter}"
    return f"{seconds // 60}m" if seconds >= 60 else f"{seconds}s"


def exact(value: object, now: datetime) -> str:
    """Format an instant to the second, with the time until or since: `2027-11-09 10:05:00Z, in 353d`."""
    from datetime import UTC

    moment = parse_time(value)
    if moment is None:
        return UNKNOWN
    way = f"in {format_remaining(moment - now)}" if moment > now else f"{age(value, now)} ago"
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}, {way.removesuffix(' ago') if way == 'now ago' else way}"
