"""The rules of a policy document, and the requests to decide.

An attribute of a request is a value, absent (a tag that the resource does not have) or unknown (`None`). An unreadable
address or time is unknown. An unknown attribute cannot satisfy an allow or prevent a deny.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal, NamedTuple

from client.policy.matching import OperationPattern, Target

Effect = Literal["allow", "deny"]
Operator = Literal["equals", "notEquals", "like", "ipInRange", "before", "after"]

OPERATORS: tuple[Operator, ...] = ("equals", "notEquals", "like", "ipInRange", "before", "after")

SOURCE_IP = "frn:sourceIp"
CURRENT_TIME = "frn:currentTime"
REGION = "frn:region"
PRINCIPAL_TYPE = "frn:principalType"
TENANT = "frn:tenant"
REQUEST_TAG = "frn:requestTag/"
RESOURCE_TAG = "frn:resourceTag/"

TEXT_OPERATORS: frozenset[str] = frozenset(("equals", "notEquals", "like"))
TIME_OPERATORS: frozenset[str] = frozenset(("before", "after"))
TEXT_KEYS = (REGION, PRINCIPAL_TYPE, TENANT)
TAG_KEYS = (REQUEST_TAG, RESOURCE_TAG)


class Constraint(NamedTuple):
    """A condition. `values` has one text, or the CIDR blocks of `ipInRange` in document order."""

    operator: Operator
    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A policy rule. It matches if an operation, a target and all constraints match."""

    name: str
    effect: Effect
    operations: tuple[OperationPattern, ...]
    operation_texts: tuple[str, ...]
    targets: tuple[Target, ...]
    target_texts: tuple[str, ...]
    constraints: tuple[Constraint, ...]

    @property
    def denies(self) -> bool:
        return self.effect == "deny"


@dataclass(frozen=True, slots=True)
class Document:
    rules: tuple[Rule, ...]


# `datetime.fromisoformat` accepts more: weeks, commas, offsets with seconds.
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.([0-9]+))?(?:Z|[+-][0-9]{2}:([0-9]{2}))"
)

PrincipalType = Literal["api_key", "workload_identity", "user"]

Address = tuple[int, int]
"""IP version (4 or 6) and the address as an integer."""

MAX_ADDRESS_LENGTH = 45
MAX_CACHED_ADDRESSES = 1_024


def parse_address(text: str) -> Address | None:
    """Return an address, IPv4-mapped IPv6 as IPv4; None if the text is invalid."""
    return _parse_address(text) if len(text) <= MAX_ADDRESS_LENGTH else None


@lru_cache(MAX_CACHED_ADDRESSES)
def _parse_address(text: str) -> Address | None:
    try:
        address: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return None
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
    return address.version, int(address)


def parse_rfc3339(
    text: str, *, max_fraction_digits: int | None = None, max_offset_minutes: int = 59
) -> datetime | None:
    """Parse an RFC 3339 time with a zone, truncated to microseconds; None if the text is invalid."""
    text = text.upper() if text.isascii() else ""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    fraction, offset_minutes = match[1] or "", int(match[2] or 0)
    if offset_minutes > max_offset_minutes or len(fraction) > (max_fraction_digits or len(fraction)):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def parse_timestamp(text: str) -> float | None:
    """Parse a time of a policy or request to seconds since 1970; None if the text is invalid."""
    # Stored documents may have offsets such as +05:75, which RFC 3339 does not allow.
    instant = parse_rfc3339(text, max_fraction_digits=9, max_offset_minutes=99)
    return None if instant is None else instant.timestamp()


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Attributes of a request: `None` is unknown; a tag missing from a map is absent."""

    source_ip: Address | None = None
    current_time: float | None = None
    region: str | None = None
    principal_type: str | None = None
    tenant: str | None = None
    request_tags: Mapping[str, str] | None = None
    resource_tags: Mapping[str, str] | None = None


EMPTY_CONTEXT = RequestContext()


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """An operation on a target. The target is `*` or a full name; its `*` parts are unknown."""

    operation: str
    target: str
    context: RequestContext = EMPTY_CONTEXT
