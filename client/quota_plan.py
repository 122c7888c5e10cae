"""Compare a plan with quotas: the first limit it reaches, and the limits to request. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

FITS = "fits"
AT_ONCE = "at_once"
"""Above the limit, within the range that needs no review."""
REVIEW = "review"
"""Above that range: the operator must raise the organization's limit first."""
SUPPORT = "support"
"""Above a limit that cannot be requested."""
UNKNOWN = "unknown"
"""Current use unknown; the limit still applies."""


class Need(NamedTuple):
    """Effect of a plan on a quota.

    `after` is the use with the plan, `short` the amount above the limit; both are None if the use is unknown.
    """

    resource_type: str
    unit: str
    used: int | None
    addition: int
    after: int | None
    limit: int
    short: int | None
    requestable: int | None
    answer: str

    def document(self) -> dict[str, Any]:
        return {
            "resourceType": self.resource_type,
            "unit": self.unit,
            "used": self.used,
            "wanted": self.addition,
            "after": self.after,
            "limit": self.limit,
            "short": self.short,
            "requestable": self.requestable,
            "answer": self.answer,
        }


class Plan(NamedTuple):
    """A plan for several quotas.

    `times` is how often the plan fits, `first` the type whose limit is reached first if the plan is repeated; both are
    None if no known use limits the plan. `fits` is None if it depends on unknown uses only.
    """

    needs: tuple[Need, ...]
    fits: bool | None
    times: int | None
    first: str | None

    def document(self) -> dict[str, Any]:
        needs = [need.document() for need in self.needs]
        return {"fits": self.fits, "times": self.times, "first": self.first, "quotas": needs}


def what_if(quotas: Sequence[Mapping[str, Any]], additions: Mapping[str, int]) -> Plan:
    """Return the effect of adding resources.

    Args:
        quotas: JSON objects of the tenant's quotas.
        additions: Amounts to add by resource type, in the quota's unit, not negative.

    Raises:
        KeyError: A type without a quota.
    """
    by_type = {str(one["resourceType"]): one for one in quotas}
    needs = tuple(_need(by_type[name], number) for name, number in additions.items())
    known = [need for need in needs if need.addition and need.used is not None]
    # The smallest ratio of room to amount is reached first; compared without division.
    first: Need | None = None
    for need in known:
        if first is None or _room(need) * first.addition < _room(first) * need.addition:
            first = need
    times = None if first is None else max(_room(first), 0) // first.addition
    over = any(need.answer not in (FITS, UNKNOWN) for need in needs)
    unknown = any(need.answer == UNKNOWN for need in needs)
    return Plan(needs, False if over else None if unknown else True, times, first and first.resource_type)


def _need(quota: Mapping[str, Any], addition: int) -> Need:
    used, limit, bound = quota.get("used"), int(quota["limit"]), quota.get("requestable")
    after = None if used is None else used + addition
    return Need(
        str(quota["resourceType"]),
        str(quota.get("unit") or ""),
        used,
        addition,
        after,
        limit,
        None if after is None else max(after - limit, 0),
        bound,
        _answer(after, addition, limit, bound),
    )


def _answer(after: int | None, addition: int, limit: int, bound: int | None) -> str:
    least = addition if after is None else after
    if not addition or (after is not None and after <= limit):
        return FITS
    if after is None and least <= limit:
        return UNKNOWN
    if bound is None:
        return SUPPORT
    return AT_ONCE if least <= bound else REVIEW


def _room(need: Need) -> int:
    return need.limit - (need.used or 0)
