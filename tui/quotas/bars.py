"""Quota bars: use against the limit, and the allocation of an organization's limit to its tenants.

Bars are readable without colour: the heavy line is use, dots are free, `┃` is the limit, and the thin line after it is
available without review. The part of a tenant begins with its letter in the legend, `►` for the current tenant.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from client.tables.columns import Record
from client.tables.quotas import percent_text, quota_tone

PAST = 3
"""Cells after the limit. Each is worth as much as the limit."""
OWN = "►"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
REST = "+"
"""Sign of tenants with small shares or without a letter."""
PARTS = 12
"""Other tenants with less than one part in `PARTS` are drawn as `REST`."""


class Piece(NamedTuple):
    text: str
    tone: str | None = None


Pieces = Sequence[Piece]


def share(quota: Record) -> float | None:
    """Return use divided by limit. None if the use is unknown or both are 0; infinite for use with a limit of 0."""
    used, limit = quota.get("used"), quota.get("limit")
    if used is None or (not limit and not used):
        return None
    return float(used / limit) if limit else float("inf")


def over(used: int | None, limit: int) -> bool:
    """Return whether the use exceeds the limit."""
    return used is not None and used > limit


def tone(quota: Record) -> str | None:
    """Return the tone of the use."""
    part = share(quota)
    return None if part is None else quota_tone(part)


def share_text(quota: Record) -> str:
    """Return the share in percent; `—` if it is unknown."""
    used = quota.get("used")
    return "—" if used is None or share(quota) is None else percent_text(used, int(quota["limit"]))


def bar(quota: Record, cells: int) -> Pieces:
    """Return the bar of a quota: use up to the limit after `cells`, then excess use and the amount without review."""
    used, limit, bound = quota.get("used"), int(quota["limit"]), quota.get("requestable")
    if not limit:
        return [_nothing(cells + 1 + PAST)]
    past = _past(max(0, (used or 0) - limit), max(0, (bound or 0) - limit), limit)
    if used is None:
        return [Piece("╱" * cells, "dim"), Piece("┃", "dim"), *past]
    drawn = _heavy(used, limit, cells)
    return [Piece(drawn, tone(quota)), Piece("·" * (cells - len(drawn)), "dim"), Piece("┃", "dim"), *past]


def _nothing(cells: int) -> Piece:
    """Return the text for a limit of 0."""
    text = "no allowance" if cells >= len("no allowance") else "none"
    return Piece(text.ljust(cells), "dim")


def _heavy(used: int, limit: int, cells: int) -> str:
    """Draw the use in half cells. Any use is visible, and only use of the whole limit fills the line."""
    halves = min(cells * 2, round(used / limit * cells * 2))
    if 0 < used < limit:
        halves = max(1, min(halves, cells * 2 - 1))
    return "━" * (halves // 2) + "╸" * (halves % 2)


def _past(used: int, askable: int, limit: int) -> Pieces:
    """Draw the part after the limit: excess use, then the amount available without review."""
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


def letters(limits: Mapping[str, int], own: str, span: int) -> dict[str, str]:
    """Return the letter of each tenant of an organization by id, the same for every resource type.

    Tenants with a share too small to be drawn have `REST` instead.

    Args:
        limits: The limits of the tenants by id.
        own: Id of the current tenant.
        span: The amount that the whole bar shows.
    """
    others = [tenant for tenant in limits if tenant != own]
    named = dict(zip(others, LETTERS, strict=False))
    small = {tenant for tenant, limit in limits.items() if limit < span / PARTS}
    return {own: OWN, **{tenant: REST if tenant in small else named.get(tenant, REST) for tenant in others}}


def span_of(limit: int, allocated: int) -> int:
    """Return the amount of an organization's bar: its limit, or the sum of its tenants' limits if that is more."""
    return max(limit, allocated)


def stack(quota: Record, own: str, cells: int) -> Pieces:
    """Return an organization's bar: a part for each tenant, and dots for the unallocated rest."""
    span = span_of(int(quota["limit"]), int(quota.get("allocated") or 0))
    if not span:
        return [_nothing(cells)]
    limits = {str(tenant["tenantId"]): int(tenant["limit"]) for tenant in quota.get("tenants", ())}
    signs = letters(limits, own, span)
    by_sign: dict[str, int] = {OWN: 0}
    for tenant_id, limit in limits.items():
        by_sign[signs[tenant_id]] = by_sign.get(signs[tenant_id], 0) + limit
    pieces: list[Piece] = []
    total = done = 0
    for sign, limit in sorted(by_sign.items(), key=lambda pair: pair[0] == REST):
        total += limit
        end = round(total / span * cells)
        if end > done:
            pieces.append(Piece(sign + "━" * (end - done - 1), "mark" if sign == OWN else None))
            done = end
    return [*pieces, Piece("·" * (cells - done), "dim")]
