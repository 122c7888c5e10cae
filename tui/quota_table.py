"""How quotas stand in tables of the screens: of a tenant, of an organization, and the requests to change them."""

from collections.abc import Callable, Mapping, Sequence

from client import clock
from client.records import UNKNOWN, Column, Record, age, quantity, time_column
from client.text import safe, width
from tui import quota_bars
from tui.quota_bars import Pieces
from tui.widgets.column_widths import GAP
from tui.widgets.record_table import Tones

LIMIT, STACK = 8, 10
"""Cells up to a tenant's limit, and of an organization's, where the list is as narrow as at 80 columns."""
FEWEST, MOST = 3, 32
"""Bars give way to long figures, and grow where there is room."""
BLANK = "  "
"""Stands before a name where no request waits."""
SIGNS = {"pending": "◐", "approved": "●", "denied": "×", "rejected": "×"}
TONES = {"pending": "warning", "approved": "good", "denied": "bad", "rejected": "bad"}


class Shown:
    """What rows need besides their record."""

    def __init__(self, space: Callable[[], int]) -> None:
        """`space` is how many cells a row has."""
        self._space = space
        self._taken = 0
        self.pending: Mapping[str, Record] = {}
        """By resource type: the request that waits for review."""
        self.own = ""
        """The tenant worked in."""
        self.amount = 0
        """Cells of the longest sum of tenants' limits."""

    def take(self, records: Sequence[Record]) -> None:
        """The rows there are: what is left beside their names and figures is for bars."""
        names = max((width(safe(name_text(record))) for record in records), default=0) + len(BLANK)
        figures = max((len(figures_text(record)) for record in records), default=0)
        self._taken = names + GAP + figures + GAP
        self.amount = max((len(_amount(record, "allocated")) for record in records), default=0)

    def cells(self, wanted: int, beside: int) -> int:
        """Cells for a bar that has `beside` others in its column: half of what is left over goes to more columns."""
        left = self._space() - self._taken - beside - wanted
        return max(FEWEST, min(MOST, wanted + (left // 2 if left > 0 else left)))


def name_text(record: Record) -> str:
    """What a resource type is called; its own name where the service says nothing else (checklist Q16)."""
    return str(record.get("title") or record.get("resourceType") or UNKNOWN)


def figures_text(record: Record) -> str:
    """`51 of 60`, `4280 of 4500 GB`, `— of 200 GB`: use and limit with their unit once."""
    unit = record.get("unit")
    used, limit = quantity(record.get("used"), unit), quantity(record.get("limit"), unit)
    return f"{used.removesuffix(' GB')} of {limit}"


def _amount(record: Record, member: str) -> str:
    return quantity(record.get(member), record.get("unit"))


def state_words(record: Record, pending: Mapping[str, Record]) -> str:
    """What can be filtered by: `is:over`, `is:full`, `is:unknown`, `is:creating`, `is:pending`, `is:none`."""
    used, limit = record.get("used"), record["limit"]
    said = {
        "over": quota_bars.over(record),
        "full": used is not None and used >= limit > 0,
        "unknown": used is None,
        "creating": bool(record.get("creating")),
        "pending": record.get("resourceType") in pending,
        "none": not limit,
    }
    return " ".join(word for word, holds in said.items() if holds)


def _name(shown: Shown) -> Column:
    """With the sign of a request that waits before it."""

    def text(record: Record) -> str:
        return f"{SIGNS['pending'] + ' ' if record.get('resourceType') in shown.pending else BLANK}{name_text(record)}"

    return Column("title", f"{BLANK}Resource", cell=text, sort=lambda record: name_text(record).casefold())


FIGURES = Column("used", "In use", align="right", cell=figures_text, sort=lambda record: record.get("used"), whole=True)


def _drawn(key: str, title: str, pieces: Callable[[Record], Pieces], sort: Callable[[Record], object]) -> Column:
    return Column(key, title, cell=lambda record: "".join(piece.text for piece in pieces(record)), sort=sort)


def share_pieces(record: Record, shown: Shown) -> Pieces:
    """The share in percent, a sign when it is over, and the bar."""
    said = f"{quota_bars.share_text(record):>4} {'!' if quota_bars.over(record) else ' '} "
    cells = shown.cells(LIMIT, len(said) + 1 + quota_bars.PAST)
    return [quota_bars.Piece(said, quota_bars.tone(record)), *quota_bars.bar(record, cells)]


def allocated_pieces(record: Record, shown: Shown) -> Pieces:
    """The sum of the tenants' limits, a sign when it is above the organization's, and who has them."""
    above = int(record.get("allocated") or 0) > int(record["limit"])
    said = f"{_amount(record, 'allocated'):>{shown.amount}}{'!' if above else ' '}"
    cells = shown.cells(STACK, len(said))
    return [quota_bars.Piece(said, "bad" if above else None), *quota_bars.stack(record, shown.own, cells)]


def columns(shown: Shown) -> Sequence[Column]:
    """Of a tenant, the most important first."""
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
        _drawn("share", "Share", lambda record: share_pieces(record, shown), quota_bars.share),
        bound,
        *_more(shown),
    )


def organization_columns(shown: Shown) -> Sequence[Column]:
    """Of an organization."""
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
    """Where there is room, what waits for review, and the words a state can be filtered by."""
    return (
        Column("pending", "Asked", wide=True, cell=lambda record: _asked(record, shown.pending)),
        Column("is", "Is", wide=True, cell=lambda record: state_words(record, shown.pending)),
    )


def _asked(record: Record, pending: Mapping[str, Record]) -> str:
    waiting = pending.get(str(record.get("resourceType")))
    return f"{quantity(waiting['limit'], waiting.get('unit'))} pending" if waiting is not None else ""


def tones(shown: Shown) -> Tones:
    """The tones of both tables; each is said by a sign, a figure or a line as well."""
    return {
        "title": lambda record: [(1, "warning")],
        "used": lambda record: "bad" if quota_bars.over(record) else None,
        "share": lambda record: _covered(share_pieces(record, shown)),
        "allocated": lambda record: _covered(allocated_pieces(record, shown)),
        "pending": lambda record: "warning",
        "is": lambda record: "dim",
    }


def _covered(pieces: Pieces) -> Sequence[tuple[int, str | None]]:
    return [(len(piece.text), piece.tone) for piece in pieces]


# --- requests --------------------------------------------------------------------------------------------------------


def change_text(record: Record) -> str:
    """`60 → 70`, `4500 → 12000 GB`."""
    unit = record.get("unit")
    before, after = quantity(record.get("from"), unit), quantity(record.get("limit"), unit)
    return f"{before.removesuffix(' GB')} → {after}"


def whose_text(record: Record) -> str:
    """Whose limit it is, in few cells: `org` as in the flag `--org`."""
    return "org" if record.get("scope") == "organization" else "tenant"


def status_text(record: Record) -> str:
    """What became of a request, with its sign."""
    status = str(record.get("status", ""))
    return f"{SIGNS.get(status, '?')} {status}"


def status_tone(record: Record) -> str | None:
    return TONES.get(str(record.get("status")))


def request_columns(title_of: Callable[[str], str]) -> Sequence[Column]:
    """Of requests, the newest first as the platform gives them."""

    def name(record: Record) -> str:
        return title_of(str(record["resourceType"]))

    return (
        Column("resourceType", "Resource", cell=name, sort=lambda record: name(record).casefold()),
        Column("limit", "From → to", align="right", cell=change_text, sort=lambda r: r.get("limit"), whole=True),
        Column("status", "State", cell=status_text, whole=True),
        Column("scope", "Of", cell=whose_text, whole=True),
        time_column("createdAt", "Asked")._replace(cell=lambda record: age(record.get("createdAt"), clock.now())),
        Column("reason", "Reason", wide=True),
    )


REQUEST_TONES: Tones = {"status": status_tone, "createdAt": lambda record: "dim", "reason": lambda record: "dim"}
