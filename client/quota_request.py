"""A request for another limit before it is sent: the number and the reason as typed, and what will become of it. Pure.

Source: contract: tenant quota request; checklist U02, U06, U07, U09, U12 to U18, U21, U24.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from unicodedata import normalize

from client.api.quotas import UNREQUESTABLE
from client.records_quotas import amount_text

LARGEST = 2**53
"""A number above it is not the same in every reader of JSON (checklist U07)."""
LONGEST_REASON = 500

Quota = Mapping[str, Any]


class Foreseen(NamedTuple):
    """What a request will come to, and why in words for people."""

    outcome: str
    words: str


AT_ONCE = "at once"
"""A raise within what needs no review."""
LOWER = "lower"
"""A lower limit, at once as well; creating stops at it, so it is asked before it is sent."""
REVIEW = "review"
"""More than the tenant may be raised to: the organization's limit has to be raised first."""
WAITS = "waits"
"""For an organization: the platform's staff decides."""
DENIED = "denied"
SAME = "same"
PENDING = "pending"
"""Another request of the organization for the same type waits already."""
SUPPORT = "support"
"""Only support changes this limit."""
SENT = frozenset({AT_ONCE, LOWER, WAITS})
"""What is sent; with any other outcome nothing would come of it."""


def whole_number(text: str) -> int:
    """A limit in plain digits, 0 to 2^53.

    Raises:
        ValueError: It is none; says what is wanted.
    """
    if re.fullmatch("[0-9]+", text, re.ASCII) is None:
        raise ValueError("a whole number in plain digits: the new limit, not how much more")
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(LARGEST)) or int(digits) > LARGEST:
        raise ValueError(f"a limit is at most {LARGEST}")
    return int(digits)


def kept_reason(text: str) -> str:
    """A reason as it is stored.

    Raises:
        ValueError: There is none, or it is too long.
    """
    kept = normalize("NFC", text).strip()
    if not kept:
        raise ValueError("a reason is needed: in a few words, what it is for")
    if len(kept) > LONGEST_REASON:
        raise ValueError(f"a reason has at most {LONGEST_REASON} characters; these are {len(kept)}")
    return kept


def foreseen(quota: Quota, limit: int) -> Foreseen:
    """What asking for that limit of a tenant comes to, by what is known of its quota."""
    used, now, bound, unit = quota.get("used"), int(quota["limit"]), quota.get("requestable"), quota.get("unit")
    asked = amount_text(limit, unit)
    if not requestable(quota) or bound is None:
        return SUPPORTED
    if limit == now:
        return Foreseen(SAME, f"already {asked}")
    if limit > bound:
        return Foreseen(REVIEW, f"{asked}: above {amount_text(bound, unit)}, the most without review")
    if limit > now:
        return Foreseen(AT_ONCE, f"{asked}: at once, no review is needed up to {amount_text(bound, unit)}")
    if used is None:
        return Foreseen(DENIED, f"{asked}: denied, as what is in use is not known at the moment")
    if limit < used:
        creating = quota.get("creating")
        made = f", {amount_text(creating, unit)} of it being created" if creating else ""
        return Foreseen(DENIED, f"{asked}: denied, as {amount_text(used, unit)} is in use{made}")
    return Foreseen(LOWER, f"{asked}: lower, at once; you are asked before")


def foreseen_of_organization(quota: Quota, limit: int, pending: Mapping[str, Any] | None) -> Foreseen:
    """What asking for that limit of an organization comes to; `pending` is its request for the type that waits."""
    unit, allocated = quota.get("unit"), quota.get("allocated")
    asked = amount_text(limit, unit)
    if not requestable(quota):
        return SUPPORTED
    if pending is not None:
        waiting = amount_text(pending.get("limit"), unit)
        return Foreseen(PENDING, f"a request for {waiting} waits for review already")
    if limit == quota["limit"]:
        return Foreseen(SAME, f"already {asked}")
    below = allocated is not None and limit < allocated
    less = f"; its tenants have {amount_text(allocated, unit)} already" if below else ""
    return Foreseen(WAITS, f"{asked}: waits for review by the platform's staff{less}")


SUPPORTED = Foreseen(SUPPORT, "this limit cannot be requested; contact support")


def requestable(quota: Quota) -> bool:
    """Whether a request can change the limit at all (checklist U12)."""
    return quota.get("resourceType") not in UNREQUESTABLE


def needed_of_organization(quota: Quota, organization: Quota, limit: int) -> int:
    """The limit an organization must have so that a tenant may be raised to `limit` without review."""
    others = int(organization["allocated"]) - int(quota["limit"])
    return max(int(organization["limit"]), others + limit)
