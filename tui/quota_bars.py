"""Quotas as lines of cells: what is used up to the limit and past it, and who an organization's limit is given to.

Nothing hangs on colour: a heavy line is what is used, dots are free, `┃` is the limit, the thin line behind it is what
may be asked for without review; of tenants each part begins with the letter of its legend, one's own with `►`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from client.records import Record

PAST = 3
"""Cells past the limit, each of them as much as the limit is."""
OWN = "►"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
REST = "+"
"""Stands for the tenants that have too little to be seen, and for those left when the letters are used up."""
PARTS = 12
"""A tenant that has less than such a part of an organization's limit is not told apart."""
NEARLY = 0.8
"""The share of a quota from which it is worth a warning."""
MOST_PERCENT = 999


class Piece(NamedTuple):
    """A part of a line, with its tone."""

    text: str
    tone: str | None = None


Pieces = Sequence[Piece]


def share(quota: Record) -> float | None:
    """How much of the limit is used; None when that is unknown or when there is no allowance and no use."""
    used, limit = quota.get("used"), quota.get("limit")
    if used is None or (not limit and not used):
        return None
    return float(used / limit) if limit else float("inf")


def over(quota: Record) -> bool:
    """Whether more is used than the limit allows."""
    return quota.get("used") is not None and quota["used"] > quota["limit"]


def tone(quota: Record) -> str | None:
    """The tone of what is used."""
    part = share(quota)
    if part is None:
        return None
    return "bad" if part >= 1 else "warning" if part >= NEARLY else None


def share_text(quota: Record) -> str:
    """The share in whole percent: never 100 before it is all, never 100 when it is more."""
    used, limit = quota.get("used"), int(quota["limit"])
    if share(quota) is None or used is None:
        return "—"
    percent = MOST_PERCENT if not limit else min(MOST_PERCENT, used * 100 // limit)
    return f"{percent + (used > limit and percent == 100)}%"


def bar(quota: Record, cells: int) -> Pieces:
    """The use of a quota, the limit after so many cells, and what may be asked for behind it."""
    used, limit, bound = quota.get("used"), int(quota["limit"]), quota.get("requestable")
    if not limit:
        return [_nothing(cells + 1 + PAST)]
    past = _past(max(0, (used or 0) - limit), max(0, (bound or 0) - limit), limit)
    if used is None:
        return [Piece("╱" * cells, "dim"), Piece("┃", "dim"), *past]
    drawn = _heavy(used, limit, cells)
    return [Piece(drawn, tone(quota)), Piece("·" * (cells - len(drawn)), "dim"), Piece("┃", "dim"), *past]


def _nothing(cells: int) -> Piece:
    """What stands where a limit is 0."""
    words = "no allowance" if cells >= len("no allowance") else "none"
    return Piece(words.ljust(cells), "dim")


def _heavy(used: int, limit: int, cells: int) -> str:
    """In half cells: something is never drawn as nothing, and what is not all never as all."""
    halves = min(cells * 2, round(used / limit * cells * 2))
    if 0 < used < limit:
        halves = max(1, min(halves, cells * 2 - 1))
    return "━" * (halves // 2) + "╸" * (halves % 2)


def _past(used: int, askable: int, limit: int) -> Pieces:
    """What lies past the limit: used all the same, then what may be asked for."""
    heavy = _halves(used, limit)
    light = _halves(askable, limit)
    drawn = "━" * (heavy // 2) + "╸" * (heavy % 2)
    thin = "─" * (light // 2 - len(drawn)) + ("╴" if light % 2 and light // 2 >= len(drawn) else "")
    if used > PAST * limit:
        drawn = drawn[:-1] + "›"
    elif askable > PAST * limit and thin:
        thin = thin[:-1] + "›"
    return [Piece(drawn, "bad"), Piece(thin, "dim"), Piece(" " * (PAST - len(drawn) - len(thin)))]


def _halves(amount: int, limit: int) -> int:
    return min(PAST * 2, max(1, round(amount / limit * 2))) if amount else 0


def letters(quota: Record, own: str) -> dict[str, str]:
    """The letter of each tenant of an organization by its id, the same for every resource type.

    Those that have less of it than a part one can see stand together as the rest.
    """
    tenants = quota.get("tenants", ())
    others = [str(one["tenantId"]) for one in tenants if one["tenantId"] != own]
    named = dict(zip(others, LETTERS, strict=False))
    small = {str(one["tenantId"]) for one in tenants if int(one["limit"]) < _span(quota) / PARTS}
    return {own: OWN, **{tenant: REST if tenant in small else named.get(tenant, REST) for tenant in others}}


def _span(quota: Record) -> int:
    """What an organization's line is as long as: its limit, or what its tenants have where that is more."""
    return max(int(quota["limit"]), int(quota.get("allocated") or 0))


def stack(quota: Record, own: str, cells: int) -> Pieces:
    """An organization's limit in the parts its tenants have; what none of them has is dots."""
    span = _span(quota)
    if not span:
        return [_nothing(cells)]
    signs = letters(quota, own)
    given: dict[str, int] = {OWN: 0}
    for one in quota.get("tenants", ()):
        sign = signs[str(one["tenantId"])]
        given[sign] = given.get(sign, 0) + int(one["limit"])
    pieces: list[Piece] = []
    total = done = 0
    for sign, limit in sorted(given.items(), key=lambda pair: pair[0] == REST):
        total += limit
        end = round(total / span * cells)
        if end > done:
            pieces.append(Piece(sign + "━" * (end - done - 1), "mark" if sign == OWN else None))
            done = end
    return [*pieces, Piece("·" * (cells - done), "dim")]
