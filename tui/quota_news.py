"""Requests for other limits as far as they are known: which ones wait, and which were decided since."""

from collections.abc import Iterable, Mapping, Sequence

from client.records import Record
from client.records_quotas import amount_text


def waiting(requests: Iterable[Record]) -> dict[str, Record]:
    """By resource type the request that waits for review: there is one at most (checklist U21)."""
    return {str(one["resourceType"]): one for one in requests if one.get("status") == "pending"}


def decided(before: Iterable[Record], now: Iterable[Record]) -> Sequence[Record]:
    """Those that waited before and do no more."""
    waited = {str(one["id"]) for one in before if one.get("status") == "pending"}
    return [one for one in now if str(one["id"]) in waited and one.get("status") != "pending"]


def outcome_words(request: Record, titles: Mapping[str, str]) -> str:
    """`Instances of the organization: 200 → 300 approved`, with what was said to it."""
    resource_type, unit = str(request["resourceType"]), request.get("unit")
    whose = " of the organization" if request.get("scope") == "organization" else ""
    change = f"{amount_text(request.get('from'), unit)} → {amount_text(request.get('limit'), unit)}"
    status, decision = str(request.get("status", "")), str(request.get("decision") or "")
    said = f": {decision}" if decision and decision != status else ""
    return f"{titles.get(resource_type, resource_type)}{whose}: {change} {status}{said}"
