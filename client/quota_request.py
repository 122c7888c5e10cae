"""Validate a quota request and predict its outcome before it is sent. No I/O."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from unicodedata import normalize

from client.api.quotas import UNREQUESTABLE
from client.tables.quotas import amount_text

LARGEST = 2**53
"""Not every JSON reader represents larger numbers exactly."""
LONGEST_REASON = 500

Quota = Mapping[str, Any]


class Foreseen(NamedTuple):
    """The predicted outcome of a request, with an explanation for the user."""

    outcome: str
    explanation: str


AT_ONCE = "at once"
"""A raise that needs no review."""
LOWER = "lower"
"""A reduction, effective immediately. It can block new resources, so the user must confirm it."""
REVIEW = "review"
"""Above the range without review: the organization's limit must be raised first."""
WAITS = "waits"
"""For organizations: the operator decides."""
DENIED = "denied"
SAME = "same"
PENDING = "pending"
"""The organization has a pending request for this type."""
SUPPORT = "support"
"""Only support can change this limit."""
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
        raise ValueError(f"a limit is at most {LARGEST}")
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
        raise ValueError(f"a reason has at most {LONGEST_REASON} characters; these are {len(reason)}")
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
        return Foreseen(AT_ONCE, f"{amount}: at once, no review is needed up to {amount_text(bound, unit)}")
    if used is None:
        return Foreseen(DENIED, f"{amount}: denied, because the current use is unknown")
    if limit < used:
        creating = quota.get("creating")
        being_created = f", {amount_text(creating, unit)} of it being created" if creating else ""
        return Foreseen(DENIED, f"{amount}: denied, as {amount_text(used, unit)} is in use{being_created}")
    return Foreseen(LOWER, f"{amount}: lower, at once; needs a confirmation")


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
    less = f"; its tenants have {amount_text(allocated, unit)} already" if below else ""
    return Foreseen(WAITS, f"{amount}: waits for review by the platform's operator{less}")


SUPPORTED = Foreseen(SUPPORT, "this limit cannot be requested; contact support")


def requestable(quota: Quota) -> bool:
    """Return whether a request can change the limit."""
    return quota.get("resourceType") not in UNREQUESTABLE


def needed_of_organization(quota: Quota, organization: Quota, limit: int) -> int:
    """Return the limit that an organization needs to raise a tenant to `limit` without review."""
    others = int(organization["allocated"]) - int(quota["limit"])
    return max(int(organization["limit"]), others + limit)
