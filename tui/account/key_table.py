"""Table columns of API keys, with expiries on a common time axis.

Bars are readable without colour by their length. `!` marks a near expiry and `○` an unused key.
"""

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from client import times
from client.tables.account import API_KEY
from client.tables.columns import UNKNOWN, Column, Record, age, fields, format_remaining, parse_time
from tui.widgets.record_table import Tones

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


def axis(records: Sequence[Record]) -> Axis:
    """Return the shortest axis that includes the expiry of every active key."""
    now = times.now()
    ends = [end for record in records if active(record) and (end := parse_time(record.get("expiresAt")))]
    farthest = max((end - now for end in ends), default=timedelta())
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


def unused(record: Record) -> bool:
    """Return whether an active key was not used for `IDLE`, or was never used and is older than `SETTLED`."""
    if not active(record):
        return False
    last, created, now = (parse_time(record.get("lastUsedAt")), parse_time(record.get("createdAt")), times.now())
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

    def take(self, records: Sequence[Record]) -> None:
        self.axis = axis(records)


TONES: Tones = {
    "status": lambda record: {"active": "good", "expired": "warning"}.get(str(record.get("status")), "dim"),
    "expiresAt": lambda record: "warning" if expires_soon(record) else None if active(record) else "dim",
    "lastUsedAt": lambda record: "warning" if unused(record) else "dim",
    "scopes": lambda record: "dim",
}
"""Words or signs repeat the meaning of each tone."""
