"""Table columns of quotas and quota requests."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from client import times
from client.tables.columns import UNKNOWN, Column, Record, age, json_of, quantity, time_column
from client.tables.quotas import amount_text, decision_text
from client.text import safe, width
from tui.quotas import bars
from tui.quotas.bars import Pieces
from tui.widgets.record_table import Tones
from tui.widgets.row_painting import GAP

if TYPE_CHECKING:
    from client.models.quotas import BaseQuota, QuotaRequest

LIMIT, STACK = 8, 10
"""Cells of a bar at 80 columns: up to a tenant's limit, and of an organization's."""
FEWEST, MOST = 3, 32
"""Fewest and most cells of a bar: it shrinks for long figures and grows with the list."""
BLANK = "  "
"""Prefix of names without a pending request."""
SIGNS = {"pending": "◐", "approved": "●", "denied": "×", "rejected": "×"}
TONES = {"pending": "warning", "approved": "good", "denied": "bad", "rejected": "bad"}


class RowLayout:
    """State shared by all rows."""

    def __init__(self, space: Callable[[], int]) -> None:
        """`space` returns the width of a row in cells."""
        self._space = space
        self._taken = 0
        self.pending: Mapping[str, QuotaRequest] = {}
        """By resource type."""
        self.own = ""
        """Id of the current tenant."""
        self.amount = 0
        """Cells of the longest sum of tenants' limits."""

    def take(self, quotas: "Sequence[BaseQuota]") -> None:
        """Measure the names and figures of the rows. Bars share the other cells."""
        records = [json_of(quota) for quota in quotas]
        names = max((width(safe(name_text(record))) for record in records), default=0) + len(BLANK)
        figures = max((len(figures_text(record)) for record in records), default=0)
        self._taken = names + GAP + figures + GAP
        self.amount = max((len(_amount(record, "allocated")) for record in records), default=0)

    def cells(self, preferred: int, reserved: int) -> int:
        """Return the cells of a bar with `reserved` more in its column. Other columns get half of the spare cells."""
        left = self._space() - self._taken - reserved - preferred
        return max(FEWEST, min(MOST, preferred + (left // 2 if left > 0 else left)))


def name_text(record: Record) -> str:
    """Return the title of a resource type, or its name if it has no title."""
    return str(record.get("title") or record.get("resourceType") or UNKNOWN)


def figures_text(record: Record) -> str:
    """Return use and limit, with the unit once: `51 of 60`, `4280 of 4500 GB`, `— of 200 GB`."""
    unit = record.get("unit")
    used, limit = quantity(record.get("used"), unit), quantity(record.get("limit"), unit)
    return f"{used.removesuffix(' GB')} of {limit}"


def _amount(record: Record, member: str) -> str:
    return quantity(record.get(member), record.get("unit"))


def _is_over(record: Record) -> bool:
    return bars.over(record.get("used"), record["limit"])


def states_text(record: Record, pending: "Mapping[str, QuotaRequest]") -> str:
    """Return the states for `is:` filters: over, full, unknown, creating, pending, none."""
    used, limit = record.get("used"), record["limit"]
    states = {
        "over": _is_over(record),
        "full": used is not None and used >= limit > 0,
        "unknown": used is None,
        "creating": bool(record.get("creating")),
        "pending": record.get("resourceType") in pending,
        "none": not limit,
    }
    return " ".join(state for state, holds in states.items() if holds)


STATE_FILTER = {"is": Column("is", "State", cell=lambda record: states_text(record, {}))}
"""The short name of the column State in filters."""


def _name(layout: RowLayout) -> Column:
    """Pending requests have a sign before the name."""

    def text(record: Record) -> str:
        return f"{SIGNS['pending'] + ' ' if record.get('resourceType') in layout.pending else BLANK}{name_text(record)}"

    return Column("title", f"{BLANK}Resource", cell=text, sort=lambda record: name_text(record).casefold())


FIGURES = Column("used", "In use", align="right", cell=figures_text, sort=lambda record: record.get("used"), whole=True)


def _drawn(key: str, title: str, pieces: Callable[[Record], Pieces], sort: Callable[[Record], object]) -> Column:
    return Column(key, title, cell=lambda record: "".join(piece.text for piece in pieces(record)), sort=sort)


def share_pieces(record: Record, layout: RowLayout) -> Pieces:
    """Return the share in percent, `!` if over the limit, and the bar."""
    figures = f"{bars.share_text(record):>4} {'!' if _is_over(record) else ' '} "
    cells = layout.cells(LIMIT, len(figures) + 1 + bars.PAST)
    return [bars.Piece(figures, bars.tone(record)), *bars.bar(record, cells)]


def allocated_pieces(record: Record, layout: RowLayout) -> Pieces:
    """Return the sum of the tenants' limits, `!` if it exceeds the organization's limit, and the bar."""
    above = int(record.get("allocated") or 0) > int(record["limit"])
    figures = f"{_amount(record, 'allocated'):>{layout.amount}}{'!' if above else ' '}"
    cells = layout.cells(STACK, len(figures))
    return [bars.Piece(figures, "bad" if above else None), *bars.stack(record, layout.own, cells)]


def columns(layout: RowLayout) -> Sequence[Column]:
    """Return a tenant's columns, most important first."""
    bound = Column(
        "requestable",
        "No review up to",
        True,
        "right",
        cell=lambda record: _amount(record, "requestable"),
        sort=lambda record: record.get("requestable"),
    )
    return (
        _name(layout),
        FIGURES,
        _drawn("share", "Share", lambda record: share_pieces(record, layout), bars.share),
        bound,
        *_more(layout),
    )


def organization_columns(layout: RowLayout) -> Sequence[Column]:
    return (
        _name(layout),
        FIGURES,
        _drawn(
            "allocated",
            "Allocated",
            lambda record: allocated_pieces(record, layout),
            lambda record: record["allocated"] / record["limit"] if record["limit"] else None,
        ),
        *_more(layout),
    )


def _more(layout: RowLayout) -> Sequence[Column]:
    """Return the columns for wide screens."""
    return (
        Column("pending", "Requested", wide=True, cell=lambda record: _pending_text(record, layout.pending)),
        Column("is", "State", wide=True, cell=lambda record: states_text(record, layout.pending)),
    )


def _pending_text(record: Record, pending: "Mapping[str, QuotaRequest]") -> str:
    request = pending.get(str(record.get("resourceType")))
    return f"{quantity(request.limit, request.unit)} pending" if request is not None else ""


def tones(layout: RowLayout) -> Tones:
    """Signs, figures or lines repeat the meaning of each tone."""
    return {
        "title": lambda record: [(1, "warning")],
        "used": lambda record: "bad" if _is_over(record) else None,
        "share": lambda record: _cell_tones(share_pieces(record, layout)),
        "allocated": lambda record: _cell_tones(allocated_pieces(record, layout)),
        "pending": lambda record: "warning",
        "is": lambda record: "dim",
    }


def _cell_tones(pieces: Pieces) -> Sequence[tuple[int, str | None]]:
    return [(len(piece.text), piece.tone) for piece in pieces]


# --- requests --------------------------------------------------------------------------------------------------------


def change_text(before: int | None, after: int | None, unit: object) -> str:
    """Return the change of a limit: `60 → 70`, `4500 → 12000 GB`."""
    return f"{quantity(before, unit).removesuffix(' GB')} → {quantity(after, unit)}"


def owner_text(record: Record) -> str:
    """Return `org`, as in the flag `--org`, or `tenant`."""
    return "org" if record.get("scope") == "organization" else "tenant"


def status_text(status: str) -> str:
    return f"{SIGNS.get(status, '?')} {status}"


def status_tone(record: Record) -> str | None:
    return TONES.get(str(record.get("status")))


def request_columns(title_of: Callable[[str], str]) -> Sequence[Column]:
    def name(record: Record) -> str:
        return title_of(str(record["resourceType"]))

    def change(record: Record) -> str:
        return change_text(record.get("from"), record.get("limit"), record.get("unit"))

    def status(record: Record) -> str:
        return status_text(str(record.get("status", "")))

    return (
        Column("resourceType", "Resource", cell=name, sort=lambda record: name(record).casefold()),
        Column("limit", "From → to", align="right", cell=change, sort=lambda r: r.get("limit"), whole=True),
        Column("status", "Status", cell=status, whole=True),
        Column("scope", "For", cell=owner_text, whole=True),
        time_column("createdAt", "Requested")._replace(cell=lambda record: age(record.get("createdAt"), times.now())),
        Column("reason", "Reason", wide=True),
    )


REQUEST_TONES: Tones = {"status": status_tone, "createdAt": lambda record: "dim", "reason": lambda record: "dim"}


def pending_requests(requests: "Iterable[QuotaRequest]") -> "dict[str, QuotaRequest]":
    """Return the pending request of each resource type. There is at most one."""
    return {request.resource_type: request for request in requests if request.status == "pending"}


def decided(before: "Iterable[QuotaRequest]", now: "Iterable[QuotaRequest]") -> "Sequence[QuotaRequest]":
    """Return the requests that were pending before and are decided now."""
    pending = {request.id for request in before if request.status == "pending"}
    return [request for request in now if request.id in pending and request.status != "pending"]


def outcome_text(request: "QuotaRequest", title: str) -> str:
    """Return the outcome with its reason: `Instances of the organization: 200 → 300 approved`."""
    owner = " of the organization" if request.scope == "organization" else ""
    change = f"{amount_text(request.limit_before, request.unit)} → {amount_text(request.limit, request.unit)}"
    decision = decision_text(request.wire())
    explanation = f": {decision}" if decision and decision != request.status else ""
    return f"{title}{owner}: {change} {request.status}{explanation}"
