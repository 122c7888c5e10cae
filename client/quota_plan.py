"""What a plan would need: which limit breaks first, and what may be asked for at once. Pure.

Source: contract: Quota, tenant quota request; checklist U09, U12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

FITS = "fits"
AT_ONCE = "at_once"
"""More than the limit, and within what the tenant may be raised to without review."""
REVIEW = "review"
"""More than that: the organization's limit has to be raised first, by the platform's staff."""
SUPPORT = "support"
"""More than the limit, of a type whose limit cannot be requested."""
UNKNOWN = "unknown"
"""What is in use is not known; the limit still applies."""


class Need(NamedTuple):
    """What a plan does to one quota.

    `after` is the use with the plan, `short` how much of it is above the limit; both are None when the use is unknown.
    """

    resource_type: str
    unit: str
    used: int | None
    wanted: int
    after: int | None
    limit: int
    short: int | None
    requestable: int | None
    answer: str

    def document(self) -> dict[str, Any]:
        """As JSON, in the words of the wire."""
        return {
            "resourceType": self.resource_type,
            "unit": self.unit,
            "used": self.used,
            "wanted": self.wanted,
            "after": self.after,
            "limit": self.limit,
            "short": self.short,
            "requestable": self.requestable,
            "answer": self.answer,
        }


class Plan(NamedTuple):
    """A plan as a whole.

    `times` is how many times over it fits, `first` the type whose limit would break first when it grows; both are None
    where nothing known limits it. `fits` is None when only unknown uses stand in the way of saying so.
    """

    needs: tuple[Need, ...]
    fits: bool | None
    times: int | None
    first: str | None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        needs = [need.document() for need in self.needs]
        return {"fits": self.fits, "times": self.times, "first": self.first, "quotas": needs}


def what_if(quotas: Sequence[Mapping[str, Any]], wanted: Mapping[str, int]) -> Plan:
    """What adding so many of each type would mean.

    Args:
        quotas: The tenant's quotas as they travel.
        wanted: By resource type how many more, in the counter's own unit, none negative.

    Raises:
        KeyError: A type that is not among the quotas.
    """
    by_type = {str(one["resourceType"]): one for one in quotas}
    needs = tuple(_need(by_type[name], number) for name, number in wanted.items())
    known = [need for need in needs if need.wanted and need.used is not None]
    # Room over what is wanted, compared without division: the one with less of it breaks first.
    first: Need | None = None
    for need in known:
        if first is None or _room(need) * first.wanted < _room(first) * need.wanted:
            first = need
    times = None if first is None else max(_room(first), 0) // first.wanted
    over = any(need.answer not in (FITS, UNKNOWN) for need in needs)
    unknown = any(need.answer == UNKNOWN for need in needs)
    return Plan(needs, False if over else None if unknown else True, times, first and first.resource_type)


def _need(quota: Mapping[str, Any], wanted: int) -> Need:
    used, limit, bound = quota.get("used"), int(quota["limit"]), quota.get("requestable")
    after = None if used is None else used + wanted
    return Need(
        str(quota["resourceType"]),
        str(quota.get("unit") or ""),
        used,
        wanted,
        after,
        limit,
        None if after is None else max(after - limit, 0),
        bound,
        _answer(after, wanted, limit, bound),
    )


def _answer(after: int | None, wanted: int, limit: int, bound: int | None) -> str:
    least = wanted if after is None else after
    if not wanted or (after is not None and after <= limit):
        return FITS
    if after is None and least <= limit:
        return UNKNOWN
    if bound is None:
        return SUPPORT
    return AT_ONCE if least <= bound else REVIEW


def _room(need: Need) -> int:
    return need.limit - (need.used or 0)
