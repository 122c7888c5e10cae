"""What a request is known to be: operation, target, and the facts constraints ask for.

Three states matter for every fact (policy language: Meaning): known, known to be absent (a tag that is not
there), and unknown (nobody said). `None` is unknown. A fact that cannot be read, an address or a time, is
unknown as well: it must never let an allow grant, and never keep a deny from firing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal

# The standard library's reader takes other forms as well: weeks, commas, offsets with seconds (hostile E15).
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)

PrincipalType = Literal["api_key", "workload_identity", "user"]

Address = tuple[int, int]
"""Version (4 or 6) and the address as an integer: versions never compare as equal."""


def read_address(text: str) -> Address | None:
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


def read_instant(text: str) -> float | None:
    """An RFC 3339 instant with a zone as seconds since 1970; None when it is not one."""
    text = text.upper() if text.isascii() else ""
    if _INSTANT.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a request; `None` is unknown, a tag missing from a known map is known to be absent."""

    source_ip: Address | None = None
    current_time: float | None = None
    region: str | None = None
    principal_type: str | None = None
    tenant: str | None = None
    request_tags: Mapping[str, str] | None = None
    resource_tags: Mapping[str, str] | None = None


NOTHING_KNOWN = Facts()


@dataclass(frozen=True, slots=True)
class Question:
    """May this operation be done on this target? The target is `*` or a name; its `*` parts are unknown."""

    operation: str
    target: str
    facts: Facts = NOTHING_KNOWN
