"""The parts of a policy document once it was read: rules, with patterns and constraints ready to match.

What a request is known to be: operation, target, and the facts constraints ask for.

Three states matter for every fact (policy language: Meaning): known, known to be absent (a tag that is not
there), and unknown (nobody said). `None` is unknown. A fact that cannot be read, an address or a time, is
unknown as well: it must never let an allow grant, and never keep a deny from firing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
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
    """One condition; `values` holds one text, or for `ipInRange` the CIDR blocks in their order."""

    operator: Operator
    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule matches when an operation, a target and every constraint do."""

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
    """A document that was read whole: everything in it is understood."""

    rules: tuple[Rule, ...]


# The standard library's reader takes other forms as well: weeks, commas, offsets with seconds (hostile E15).
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)

PrincipalType = Literal["api_key", "workload_identity", "user"]

Address = tuple[int, int]
"""Version (4 or 6) and the address as an integer: versions never compare as equal."""


def parse_address(text: str) -> Address | None:
    """An address, IPv4-mapped IPv6 taken as IPv4 (hostile E12); None when it is not one."""
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


def parse_instant(text: str) -> float | None:
    """An RFC 3339 instant with a zone as seconds since 1970; None when it is not one."""
    text = text.upper() if text.isascii() else ""
    if _INSTANT.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The facts of a request; `None` is unknown, a tag missing from a known map is known to be absent."""

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
    """May this operation be done on this target? The target is `*` or a name; its `*` parts are unknown."""

    operation: str
    target: str
    context: RequestContext = EMPTY_CONTEXT
