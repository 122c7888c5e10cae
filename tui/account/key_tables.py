"""Tables of API keys, with expiries on a common time axis, and of the scopes that a key can have.

Bars are readable without colour by their length. `!` marks a near expiry and `○` an unused key.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from textual.message import Message

from client import times
from client.tables.account import API_KEY
from client.tables.columns import (
    UNKNOWN,
    Column,
    Kind,
    Record,
    age,
    fields,
    format_remaining,
    number_column,
    parse_time,
)
from tui.widgets.record_table import RecordTable, Tones

if TYPE_CHECKING:
    from client.models.account import ApiKey, GrantableScope

BAR = 8
"""Width of a bar in cells."""
EXPIRY_TEXT_CELLS = 7
"""Cells after the bar: a mark and the time left."""
SPANS = ((timedelta(days=30), "30 days"), (timedelta(days=90), "90 days"), (timedelta(days=365), "1 year"))
LONGEST = (timedelta(days=731), "2 years")
"""The longest axis: the lifetime of a key is two years at most."""
SOON = timedelta(days=14)
"""Time before the expiry from which a key is marked."""
IDLE = timedelta(days=90)
"""Time without use after which a key is marked as unused."""
SETTLED = timedelta(days=1)
"""Age from which a key that was never used is marked as unused."""


class Axis(NamedTuple):
    """The time axis of all bars, beginning now."""

    span: timedelta
    label: str


def axis(keys: "Sequence[ApiKey]") -> Axis:
    """Return the shortest axis that includes the expiry of every active key."""
    now = times.now()
    ends = (key.expires_at - now for key in keys if key.status == "active" and key.expires_at)
    farthest = max(ends, default=timedelta())
    return Axis(*next(((span, label) for span, label in SPANS if farthest <= span), LONGEST))


def bar(left: timedelta, span: timedelta) -> str:
    """Return the time left in half cells of the axis. Any time left is visible.

    Lines instead of blocks keep the bars of adjacent rows apart.
    """
    halves = max(0, min(BAR * 2, round(left / span * BAR * 2)))
    if left > timedelta() and not halves:
        halves = 1
    drawn = "━" * (halves // 2) + "╸" * (halves % 2)
    return drawn + "·" * (BAR - len(drawn))


def active(record: Record) -> bool:
    return record.get("status") == "active"


def expires_soon(record: Record) -> bool:
    end = parse_time(record.get("expiresAt"))
    return active(record) and end is not None and end - times.now() <= SOON


def is_unused(key: "ApiKey") -> bool:
    """Return whether an active key was not used for `IDLE`, or was never used and is older than `SETTLED`."""
    return key.status == "active" and _is_idle(key.last_used_at, key.created_at)


def unused(record: Record) -> bool:
    """Return whether the key of a JSON object is unused, as `is_unused` does."""
    return active(record) and _is_idle(parse_time(record.get("lastUsedAt")), parse_time(record.get("createdAt")))


def _is_idle(last: datetime | None, created: datetime | None) -> bool:
    now = times.now()
    if last is not None:
        return now - last >= IDLE
    return created is None or now - created >= SETTLED


def used_text(record: Record) -> str:
    """Return the time since the last use, with `○` for an unused key: `○ never`, `○ 120d`, `5m`."""
    last = record.get("lastUsedAt")
    return f"{'○' if unused(record) else ' '} {age(last, times.now()) if last else 'never'}"


def _instant(key: str, record: Record) -> float | None:
    moment = parse_time(record.get(key))
    return moment.timestamp() if moment else None


def columns(scale: "SharedScale") -> Sequence[Column]:
    """Return the columns, most important first."""
    by_key = {column.key: column for column in API_KEY.columns}

    def expiry(record: Record) -> str:
        end = parse_time(record.get("expiresAt"))
        if end is None:
            return UNKNOWN
        left = end - times.now()
        if not active(record):
            return _over(record, left)
        return f"{bar(left, scale.axis.span)} {'!' if expires_soon(record) else ' '} {format_remaining(left)}"

    # Narrow lists hide the last columns first.
    return (
        by_key["name"],
        by_key["status"],
        Column("expiresAt", "Expires", cell=expiry, sort=lambda record: _instant("expiresAt", record), whole=True),
        USED,
        by_key["tenantName"],
        by_key["scopes"]._replace(wide=True),
    )


def _over(record: Record, left: timedelta) -> str:
    """Return an empty axis, with the time since the expiry if the key has expired."""
    ago = f" {age(record.get('expiresAt'), times.now())} ago" if left <= timedelta() else ""
    return "·" * max(0, BAR + EXPIRY_TEXT_CELLS - len(ago)) + ago if ago else "·" * BAR


def _idle(record: Record) -> float:
    """Return the sort key of the idle time. In descending order, keys that were never used are first."""
    last = _instant("lastUsedAt", record)
    return math.inf if last is None else -last


USED = Column("lastUsedAt", "  Idle", cell=used_text, sort=_idle, whole=True)
KIND = API_KEY._replace(
    filter_fields={**API_KEY.filter_fields, **fields((USED,), used="lastUsedAt")},
)
"""As in the commands; in addition, `used:never` finds keys that were never used."""


class SharedScale:
    """State shared by all rows."""

    def __init__(self) -> None:
        self.axis = Axis(*SPANS[0])

    def take(self, keys: "Sequence[ApiKey]") -> None:
        self.axis = axis(keys)


TONES: Tones = {
    "status": lambda record: {"active": "good", "expired": "warning"}.get(str(record.get("status")), "dim"),
    "expiresAt": lambda record: "warning" if expires_soon(record) else None if active(record) else "dim",
    "lastUsedAt": lambda record: "warning" if unused(record) else "dim",
    "scopes": lambda record: "dim",
}
"""Words or signs repeat the meaning of each tone."""


@dataclass(frozen=True)
class ServiceHeading:
    """The line above the scopes of a service."""

    service: str

    @property
    def scope(self) -> str:
        """The id of the line. No scope ends in a space."""
        return f"{self.service} "

    def wire(self) -> Record:
        return {"scope": self.scope, "service": self.service, "heading": True}


def _scope(record: Record) -> str:
    return str(record["service"]) if record.get("heading") else f"  {record['scope']}"


def _permits(record: Record) -> str:
    if record.get("heading"):
        return ""
    count = int(record.get("operations", 0))
    return f"{count:,} operation{'' if count == 1 else 's'}"


def _role(record: Record) -> str:
    """Return whether the user's role has the scope: `yes`, `partly` or `no`."""
    if record.get("heading"):
        return ""
    if not record.get("held", True):
        return "× no"
    return "◐ partly" if record.get("lacks") else "yes"


def _enforced(record: Record) -> str:
    return "" if record.get("heading") or record.get("enforced", True) else "! not enforced"


def _blank(record: Record, text: str) -> str:
    return " " if record.get("heading") else text or UNKNOWN


_COLUMNS = (
    Column("scope", "Scope", cell=_scope, whole=True),
    number_column("operations", "Permits")._replace(cell=lambda record: _blank(record, _permits(record))),
    Column("held", "Your role", cell=lambda record: _blank(record, _role(record)), whole=True),
    Column("enforced", "Enforced", cell=lambda record: _enforced(record) or " ", whole=True),
)
SCOPES = Kind("scope", "scopes", "scope", _COLUMNS, fields(_COLUMNS, role="held", enforced="enforced"), "scope")
SCOPE_TONES: Tones = {
    "scope": lambda record: "dim" if record.get("heading") or not record.get("held", True) else None,
    "operations": lambda record: "dim",
    "held": lambda record: "warning" if not record.get("held", True) or record.get("lacks") else "dim",
    "enforced": lambda record: "warning",
}


def rows(scopes: "Sequence[GrantableScope]", others: Sequence[str] = ()) -> "list[GrantableScope | ServiceHeading]":
    """Return the scopes in the order of the response, with a heading for each service.

    Args:
        scopes: The scopes that the platform lists for a tenant.
        others: Scopes of a key that are not listed.
    """
    from client.models.account import GrantableScope  # after the first frame

    listed = {scope.scope for scope in scopes}
    unlisted = [GrantableScope(scope=scope, enforced=False) for scope in others if scope not in listed]
    services: dict[str, list[GrantableScope | ServiceHeading]] = {}
    for scope in (*scopes, *unlisted):
        service = scope.scope.partition(":")[0]
        services.setdefault(service, [ServiceHeading(service)]).append(scope)
    return [row for members in services.values() for row in members]


def about(row: "GrantableScope | ServiceHeading | None") -> str:
    """Describe a scope in one line."""
    if row is None or isinstance(row, ServiceHeading):
        return ""
    parts = [row.description or "A scope for part of a service"]
    if not row.held:
        parts.append(f"not available: your role lacks {_first_missing(row.lacks)}")
    else:
        if not row.enforced:
            parts.append("no service requires this scope, so it has no effect")
        if row.lacks:
            parts.append(f"limited to your role, which lacks {_first_missing(row.lacks)}")
    return "; ".join(parts) + "."


def _first_missing(lacks: Sequence[str]) -> str:
    """Return only the first missing operation, as the line is short."""
    return f"{lacks[0] if lacks else 'all of it'}{' and more' if len(lacks) > 1 else ''}"


class ScopeList(RecordTable["GrantableScope | ServiceHeading"]):
    """Space or Enter selects a scope. A scope that the role lacks is refused with `Refused`."""

    class Refused(Message):
        """The user selected a scope that cannot be granted."""

        def __init__(self, scope: "GrantableScope") -> None:
            super().__init__()
            self.scope = scope

    def __init__(self, chosen: Sequence[str], *, id: str) -> None:
        super().__init__(SCOPES, tones=SCOPE_TONES, id=id)
        self._scopes: Sequence[GrantableScope] = ()
        self._chosen = chosen

    @property
    def chosen(self) -> list[str]:
        """The selected scopes in the order of the response."""
        marks = self.view.marks
        if not self._scopes:  # not loaded yet
            return list(self._chosen)
        return [scope.scope for scope in self._scopes if scope.scope in marks]

    @property
    def unenforced(self) -> list[str]:
        marks = self.view.marks
        return [scope.scope for scope in self._scopes if scope.scope in marks and not scope.enforced]

    def take(self, scopes: "Sequence[GrantableScope]", empty: str) -> None:
        """Update the list and preserve the selection."""
        chosen = self.chosen
        self.set_empty(empty)
        if scopes:
            first, lines = not self._scopes, rows(scopes, chosen)
            self._scopes = [line for line in lines if not isinstance(line, ServiceHeading)]
            self.show(lines)
            if first:
                self.reset_cursor()
            self.view.marks = set(chosen)
            self.refresh()
            self.post_message(self.Arranged(self))

    def reset_cursor(self) -> None:
        """Move the cursor to the first scope, below the heading of its service."""
        super().reset_cursor()
        if isinstance(self.record, ServiceHeading):
            self.cursor = 1

    def action_mark(self) -> None:
        row = self.record
        if row is None or isinstance(row, ServiceHeading):
            self.action_move(1)
        elif not row.held and row.scope not in self.view.marks:
            self.post_message(self.Refused(row))
        else:
            super().action_mark()

    def action_open(self) -> None:
        """Select, as Space does, so that Enter does not submit the form by mistake."""
        self.action_mark()
