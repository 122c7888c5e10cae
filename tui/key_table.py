"""How API keys stand in a table of the screens: expiry as a bar on one time axis, last use, what nobody uses.

Nothing hangs on colour: a bar is read by its length, an expiry that is near carries `!`, a key nobody uses `○`.
"""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from client import clock
from client.records import UNKNOWN, Column, Record, age, fields, parse_time
from client.records_account import API_KEY
from tui.widgets.record_table import Tones

BAR = 8
"""Cells of a bar."""
EXPIRY_WORDS = 7
"""Cells behind it: a mark and the time that is left."""
SPANS = ((timedelta(days=30), "30 days"), (timedelta(days=90), "90 days"), (timedelta(days=365), "1 year"))
LONGEST = (timedelta(days=731), "2 years")
"""The axis goes from now as far as the expiries do; no key lives longer than two years (checklist K28)."""
SOON = timedelta(days=14)
"""An expiry as near as this is marked."""
IDLE = timedelta(days=90)
"""A key that was not used for so long is marked as unused."""
SETTLED = timedelta(days=1)
"""A key as young as this may well not have been used yet."""


class Axis(NamedTuple):
    """The time all bars are drawn on: it begins now."""

    span: timedelta
    words: str


def axis(records: Sequence[Record]) -> Axis:
    """The shortest axis on which every active key's expiry lies."""
    now = clock.now()
    ends = [end for record in records if active(record) and (end := parse_time(record.get("expiresAt")))]
    farthest = max((end - now for end in ends), default=timedelta())
    return Axis(*next(((span, words) for span, words in SPANS if farthest <= span), LONGEST))


def bar(left: timedelta, span: timedelta) -> str:
    """How much of the axis is left, in half cells; something that is left is never drawn as nothing.

    A line and no block: bars below each other stay apart.
    """
    halves = max(0, min(BAR * 2, round(left / span * BAR * 2)))
    if left > timedelta() and not halves:
        halves = 1
    drawn = "━" * (halves // 2) + "╸" * (halves % 2)
    return drawn + "·" * (BAR - len(drawn))


def left_words(left: timedelta) -> str:
    """The time that is left, in its largest unit up to days: `353d`, `5h`, `12m`."""
    seconds = int(left.total_seconds())
    for size, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{letter}"
    return f"{max(0, seconds)}s"


def active(record: Record) -> bool:
    """Whether a key works."""
    return record.get("status") == "active"


def expires_soon(record: Record) -> bool:
    """Whether a key that works ends within days."""
    end = parse_time(record.get("expiresAt"))
    return active(record) and end is not None and end - clock.now() <= SOON


def unused(record: Record) -> bool:
    """Whether a key that works is used by nobody: never since it was made, or not for a long time."""
    if not active(record):
        return False
    last, made, now = (parse_time(record.get("lastUsedAt")), parse_time(record.get("createdAt")), clock.now())
    if last is not None:
        return now - last >= IDLE
    return made is None or now - made >= SETTLED


def used_text(record: Record) -> str:
    """How long ago a key was used, with `○` before it where nobody uses it: `○ never`, `○ 120d`, `5m`."""
    last = record.get("lastUsedAt")
    return f"{'○' if unused(record) else ' '} {age(last, clock.now()) if last else 'never'}"


def _instant(key: str, record: Record) -> float | None:
    moment = parse_time(record.get(key))
    return moment.timestamp() if moment else None


def columns(shown: "Shown") -> Sequence[Column]:
    """The columns, the most important first."""
    by_key = {column.key: column for column in API_KEY.columns}

    def expiry(record: Record) -> str:
        end = parse_time(record.get("expiresAt"))
        if end is None:
            return UNKNOWN
        left = end - clock.now()
        if not active(record):
            return _over(record, left)
        return f"{bar(left, shown.axis.span)} {'!' if expires_soon(record) else ' '} {left_words(left)}"

    # In that order: where there is little room the last ones go.
    return (
        by_key["name"],
        by_key["status"],
        Column("expiresAt", "Expires", cell=expiry, sort=lambda record: _instant("expiresAt", record), whole=True),
        USED,
        by_key["tenantName"],
        by_key["scopes"]._replace(wide=True),
    )


def _over(record: Record, left: timedelta) -> str:
    """The axis of a key that works no more is empty; how long it is expired stands at its end."""
    words = f" {age(record.get('expiresAt'), clock.now())} ago" if left <= timedelta() else ""
    return "·" * max(0, BAR + EXPIRY_WORDS - len(words)) + words if words else "·" * BAR


def _idle(record: Record) -> float:
    """How long it is idle, to sort by: downwards, what was never used stands first."""
    last = _instant("lastUsedAt", record)
    return math.inf if last is None else -last


USED = Column("lastUsedAt", "  Idle", cell=used_text, sort=_idle, whole=True)
KIND = API_KEY._replace(
    filter_fields={**API_KEY.filter_fields, **fields((USED,), used="lastUsedAt")},
)
"""As in the commands; `used:never` finds what nobody has used yet."""


class Shown:
    """What all rows have in common: the axis, which follows from all of them."""

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
"""The tone of a cell; each is said in words or by a sign as well."""


def exact(value: object, now: datetime) -> str:
    """An instant to the second with the time to it: `2027-11-09 10:05:00Z, in 353d`."""
    moment = parse_time(value)
    if moment is None:
        return UNKNOWN
    way = f"in {left_words(moment - now)}" if moment > now else f"{age(value, now)} ago"
    return f"{moment:%Y-%m-%d %H:%M:%SZ}, {way.removesuffix(' ago') if way == 'now ago' else way}"
