"""Table columns of quotas and quota requests."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from client import times
from client.tables.columns import UNKNOWN, Column, Record, age, quantity, time_column
from client.tables.quotas import amount_text
from client.text import safe, width
from tui.quotas import bars
from tui.quotas.bars import Pieces
from tui.widgets.record_table import Tones
from tui.widgets.row_painting import GAP

LIMIT, STACK = 8, 10
"""Cells of a bar at 80 columns: up to a tenant's limit, and of an organization's."""
FEWEST, MOST = 3, 32
"""Fewest and most cells of a bar: it shrinks for long figures and grows with the list."""
BLANK = "  "
"""Prefix of names without a pending request."""
SIGNS = {"pending": "◐", "approved": "●", "denied": "×", "rejected": "×"}
TONES = {"pending": "warning", "approved": "good", "denied": "bad", "rejected": "bad"}


class Shown:
    """State shared by all rows."""

    def __init__(self, space: Callable[[], int]) -> None:
        """`space` returns the width of a row in cells."""
        self._space = space
        self._taken = 0
        self.pending: Mapping[str, Record] = {}
        """By resource type."""
        self.own = ""
        """Id of the current tenant."""
        self.amount = 0
        """Cells of the longest sum of tenants' limits."""

    def take(self, records: Sequence[Record]) -> None:
        """Measure the names and figures of the rows. Bars share the other cells."""
        names = max((width(safe(name_text(record))) for record in records), default=0) + len(BLANK)
        figures = max((len(figures_text(record)) for record in records), default=0)
        self._taken = names + GAP + figures + GAP
        self.amount = max((len(_amount(record, "allocated")) for record in records), default=0)

    def cells(self, wanted: int, beside: int) -> int:
        """Return the cells of a bar with `beside` more in its column. Half of any spare cells is for other columns."""
        left = self._space() - self._taken - beside - wanted
        return max(FEWEST, min(MOST, wanted + (left // 2 if left > 0 else left)))


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


def freshness_text(record: Record, pending: Mapping[str, Record]) -> str:
    """Return the states for `is:` filters: over, full, unknown, creating, pending, none."""
    used, limit = record.get("used"), record["limit"]
    said = {
        "over": bars.over(record),
        "full": used is not None and used >= limit > 0,
        "unknown": used is None,
        "creating": bool(record.get("creating")),
        "pending": record.get("resourceType") in pending,
        "none": not limit,
    }
    return " ".join(word for word, holds in said.items() if holds)


def _name(shown: Shown) -> Column:
    """Pending requests have a sign before the name."""

    def text(record: Record) -> str:
        return f"{SIGNS['pending'] + ' ' if record.get('resourceType') in shown.pending else BLANK}{name_text(record)}"

    return Column("title", f"{BLANK}Resource", cell=text, sort=lambda record: name_text(record).casefold())


FIGURES = Column("used", "In use", align="right", cell=figures_text, sort=lambda record: record.get("used"), whole=True)


def _drawn(key: str, title: str, pieces: Callable[[Record], Pieces], sort: Callable[[Record], object]) -> Column:
    return Column(key, title, cell=lambda record: "".join(piece.text for piece in pieces(record)), sort=sort)


def share_pieces(record: Record, shown: Shown) -> Pieces:
    """Return the share in percent, `!` if over the limit, and the bar."""
    said = f"{bars.share_text(record):>4} {'!' if bars.over(record) else ' '} "
    cells = shown.cells(LIMIT, len(said) + 1 + bars.PAST)
    return [bars.Piece(said, bars.tone(record)), *bars.bar(record, cells)]


def allocated_pieces(record: Record, shown: Shown) -> Pieces:
    """Return the sum of the tenants' limits, `!` if it exceeds the organization's limit, and the bar."""
    above = int(record.get("allocated") or 0) > int(record["limit"])
    said = f"{_amount(record, 'allocated'):>{shown.amount}}{'!' if above else ' '}"
    cells = shown.cells(STACK, len(said))
    return [bars.Piece(said, "bad" if above else None), *bars.stack(record, shown.own, cells)]


def columns(shown: Shown) -> Sequence[Column]:
    """Return a tenant's columns, most important first."""
    bound = Column(
        "requestable",
        "At once up to",
        True,
        "right",
        cell=lambda record: _amount(record, "requestable"),
        sort=lambda record: record.get("requestable"),
    )
    return (
        _name(shown),
        FIGURES,
        _drawn("share", "Share", lambda record: share_pieces(record, shown), bars.share),
        bound,
        *_more(shown),
    )


def organization_columns(shown: Shown) -> Sequence[Column]:
    return (
        _name(shown),
        FIGURES,
        _drawn(
            "allocated",
            "Allocated",
            lambda record: allocated_pieces(record, shown),
            lambda record: record["allocated"] / record["limit"] if record["limit"] else None,
        ),
        *_more(shown),
    )


def _more(shown: Shown) -> Sequence[Column]:
    """Return the columns for wide screens."""
    return (
        Column("pending", "Asked", wide=True, cell=lambda record: _asked(record, shown.pending)),
        Column("is", "Is", wide=True, cell=lambda record: freshness_text(record, shown.pending)),
    )


def _asked(record: Record, pending: Mapping[str, Record]) -> str:
    waiting = pending.get(str(record.get("resourceType")))
    return f"{quantity(waiting['limit'], waiting.get('unit'))} pending" if waiting is not None else ""


def tones(shown: Shown) -> Tones:
    """Signs, figures or lines repeat the meaning of each tone."""
    return {
        "title": lambda record: [(1, "warning")],
        "used": lambda record: "bad" if bars.over(record) else None,
        "share": lambda record: _covered(share_pieces(record, shown)),
        "allocated": lambda record: _covered(allocated_pieces(record, shown)),
        "pending": lambda record: "warning",
        "is": lambda record: "dim",
    }


def _covered(pieces: Pieces) -> Sequence[tuple[int, str | None]]:
    return [(len(piece.text), piece.tone) for piece in pieces]


# --- requests --------------------------------------------------------------------------------------------------------


def change_text(record: Record) -> str:
    """Return the change of a limit: `60 → 70`, `4500 → 12000 GB`."""
    unit = record.get("unit")
    before, after = quantity(record.get("from"), unit), quantity(record.get("limit"), unit)
    return f"{before.removesuffix(' GB')} → {after}"


def whose_text(record: Record) -> str:
    """Return `org`, as in the flag `--org`, or `tenant`."""
    return "org" if record.get("scope") == "organization" else "tenant"


def status_text(record: Record) -> str:
    status = str(record.get("status", ""))
    return f"{SIGNS.get(status, '?')} {status}"


def status_tone(record: Record) -> str | None:
    return TONES.get(str(record.get("status")))


def request_columns(title_of: Callable[[str], str]) -> Sequence[Column]:
    def name(record: Record) -> str:
        return title_of(str(record["resourceType"]))

    return (
        Column("resourceType", "Resource", cell=name, sort=lambda record: name(record).casefold()),
        Column("limit", "From → to", align="right", cell=change_text, sort=lambda r: r.get("limit"), whole=True),
        Column("status", "State", cell=status_text, whole=True),
        Column("scope", "Of", cell=whose_text, whole=True),
        time_column("createdAt", "Asked")._replace(cell=lambda record: age(record.get("createdAt"), times.now())),
        Column("reason", "Reason", wide=True),
    )


REQUEST_TONES: Tones = {"status": status_tone, "createdAt": lambda record: "dim", "reason": lambda record: "dim"}


def waiting(requests: Iterable[Record]) -> dict[str, Record]:
    """Return the pending request of each resource type. There is at most one."""
    return {str(one["resourceType"]): one for one in requests if one.get("status") == "pending"}


def decided(before: Iterable[Record], now: Iterable[Record]) -> Sequence[Record]:
    """Return the requests that were pending before and are decided now."""
    waited = {str(one["id"]) for one in before if one.get("status") == "pending"}
    return [one for one in now if str(one["id"]) in waited and one.get("status") != "pending"]


def outcome_words(request: Record, titles: Mapping[str, str]) -> str:
    """Return the outcome with its reason: `Instances of the organization: 200 → 300 approved`."""
    resource_type, unit = str(request["resourceType"]), request.get("unit")
    whose = " of the organization" if request.get("scope") == "organization" else ""
    change = f"{amount_text(request.get('from'), unit)} → {amount_text(request.get('limit'), unit)}"
    status, decision = str(request.get("status", "")), str(request.get("decision") or "")
    said = f": {decision}" if decision and decision != status else ""
    return f"{titles.get(resource_type, resource_type)}{whose}: {change} {status}{said}"
