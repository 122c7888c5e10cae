"""Predict the outcome of quota changes without I/O: a plan for several quotas, and a request for a new limit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from unicodedata import normalize

from client.api.quotas import UNREQUESTABLE
from client.tables.quotas import amount_text

FITS = "fits"
AT_ONCE = "at_once"
"""Above the limit, within the range that needs no review."""
REVIEW = "review"
"""Above that range: the organization's limit must be raised first."""
SUPPORT = "support"
"""Only support can change this limit."""
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

    @property
    def least(self) -> int:
        """The use with the plan; if the use is unknown, the addition alone."""
        return self.addition if self.after is None else self.after

    def wire(self) -> dict[str, Any]:
        """Return the JSON object, which the columns read."""
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

    @property
    def times_text(self) -> str:
        """How often the plan fits: `once`, `3 times over`; empty if no known use limits it."""
        if not self.times:
            return ""
        return "once" if self.times == 1 else f"{self.times:,} times over"

    def document(self) -> dict[str, Any]:
        needs = [need.wire() for need in self.needs]
        return {"fits": self.fits, "times": self.times, "first": self.first, "quotas": needs}


def what_if(quotas: Sequence[Mapping[str, Any]], additions: Mapping[str, int]) -> Plan:
    """Return the effect of adding resources.

    Args:
        quotas: JSON objects of the tenant's quotas.
        additions: Amounts to add by resource type, in the quota's unit, not negative.

    Raises:
        KeyError: A type without a quota.
    """
    by_type = {str(quota["resourceType"]): quota for quota in quotas}
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


LARGEST = 2**53
"""Not every JSON reader represents larger numbers exactly."""
LONGEST_REASON = 500

Quota = Mapping[str, Any]


class Foreseen(NamedTuple):
    """The predicted outcome of a request, with an explanation for the user."""

    outcome: str
    explanation: str


LOWER = "lower"
"""A reduction, effective immediately. It can block new resources, so the user must confirm it."""
WAITS = "waits"
"""For organizations: the operator decides."""
DENIED = "denied"
SAME = "same"
PENDING = "pending"
"""The organization has a pending request for this type."""
SENT = frozenset({AT_ONCE, LOWER, WAITS})
"""Outcomes with which a request is sent; with others it would have no effect."""


def whole_number(text: str) -> int:
    """Parse a limit in decimal digits, 0 to 2^53.

    Raises:
        ValueError: The text is not such a number; with a message for the user.
    """
    if re.fullmatch("[0-9]+", text, re.ASCII) is None:
        raise ValueError("expected a whole number: the new limit, not the increase")
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(LARGEST)) or int(digits) > LARGEST:
        raise ValueError(f"the maximum limit is {LARGEST}")
    return int(digits)


def normalize_reason(text: str) -> str:
    """Return a reason as the platform stores it: NFC, without surrounding whitespace.

    Raises:
        ValueError: The reason is empty or too long; with a message for the user.
    """
    reason = normalize("NFC", text).strip()
    if not reason:
        raise ValueError("the reason is empty; describe the purpose")
    if len(reason) > LONGEST_REASON:
        raise ValueError(f"the reason has {len(reason)} characters; the maximum is {LONGEST_REASON}")
    return reason


def foreseen(quota: Quota, limit: int) -> Foreseen:
    """Predict the outcome of a tenant's request for a limit, from its quota."""
    used, now, bound, unit = quota.get("used"), int(quota["limit"]), quota.get("requestable"), quota.get("unit")
    amount = amount_text(limit, unit)
    if not requestable(quota) or bound is None:
        return SUPPORTED
    if limit == now:
        return Foreseen(SAME, f"already {amount}")
    if limit > bound:
        return Foreseen(REVIEW, f"{amount}: above {amount_text(bound, unit)}, the most without review")
    if limit > now:
        return Foreseen(AT_ONCE, f"{amount}: approved at once; no review up to {amount_text(bound, unit)}")
    if used is None:
        return Foreseen(DENIED, f"{amount}: denied, because the current use is unknown")
    if limit < used:
        creating = quota.get("creating")
        being_created = f", {amount_text(creating, unit)} in creation" if creating else ""
        return Foreseen(DENIED, f"denied: {amount_text(used, unit)} is in use{being_created}")
    return Foreseen(LOWER, f"{amount}: lower; takes effect at once, asks first")


def foreseen_of_organization(quota: Quota, limit: int, pending: Mapping[str, Any] | None) -> Foreseen:
    """Predict the outcome of an organization's request for a limit; `pending` is its open request for the type."""
    unit, allocated = quota.get("unit"), quota.get("allocated")
    amount = amount_text(limit, unit)
    if not requestable(quota):
        return SUPPORTED
    if pending is not None:
        waiting = amount_text(pending.get("limit"), unit)
        return Foreseen(PENDING, f"a request for {waiting} is already in review")
    if limit == quota["limit"]:
        return Foreseen(SAME, f"already {amount}")
    below = allocated is not None and limit < allocated
    less = f"; its tenants have {amount_text(allocated, unit)} allocated" if below else ""
    return Foreseen(WAITS, f"{amount}: waits for review by the platform's operator{less}")


SUPPORTED = Foreseen(SUPPORT, "this limit cannot be requested; contact support")


def requestable(quota: Quota) -> bool:
    """Return whether a request can change the limit."""
    return quota.get("resourceType") not in UNREQUESTABLE


def needed_of_organization(quota: Quota, organization: Quota, limit: int) -> int:
    """Return the limit that an organization needs to raise a tenant to `limit` without review."""
    others = int(organization["allocated"]) - int(quota["limit"])
    return max(int(organization["limit"]), others + limit)
