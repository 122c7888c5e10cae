"""The rules of a policy document, the requests to decide, and constraints compiled to predicates over the context.

An attribute of a request is a value, absent (a tag that the resource does not have) or unknown (`None`). An unreadable
address or time is unknown. An unknown attribute cannot satisfy an allow or prevent a deny. An allow applies if each
constraint must hold, a deny if each may hold. Each constraint is compiled in both forms, so a decision needs no
three-valued logic.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from operator import attrgetter
from socket import AF_INET, AF_INET6, inet_pton
from typing import Literal, NamedTuple

from client.policy.instants import parse_stored_timestamp
from client.policy.matching import OperationPattern, Target, compile_glob

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


Predicate = Callable[[RequestContext], bool]
Block = tuple[int, int, int]
"""IP version, first and last address of a CIDR block."""

# `ipaddress` also accepts netmasks, host masks, leading zeros and scopes.
_BLOCK = re.compile(r"([0-9A-Fa-f:.]{2,45})/(0|[1-9][0-9]{0,2})")


def parse_cidr_block(text: str) -> Block:
    """Return a CIDR block without host bits, IPv4-mapped blocks as IPv4. Raises `ValueError`.

    Uses the C library, because a document may contain over ten thousand blocks.
    """
    match = _BLOCK.fullmatch(text)
    if match is None:
        raise ValueError("not an address, a slash and a length in digits")
    address, length = match[1], int(match[2])
    try:
        packed = inet_pton(AF_INET6 if ":" in address else AF_INET, address)
    except OSError:
        raise ValueError("not an IPv4 or IPv6 address") from None
    bits, first = 8 * len(packed), int.from_bytes(packed)
    if length > bits:
        raise ValueError("the length is too large")
    last = first | ((1 << (bits - length)) - 1)
    if bits == 128 and length >= 96 and first >> 32 == 0xFFFF:
        bits, first, last = 32, first & 0xFFFFFFFF, last & 0xFFFFFFFF
        length -= 96
    if first & ((1 << (bits - length)) - 1):
        raise ValueError("has host bits set")
    return 4 if bits == 32 else 6, first, last


def explain_invalid_block(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the reason why `parse_cidr_block` rejects a text, and blocks to suggest."""
    address, slash, length = text.partition("/")
    try:
        max_length: int = ip_address(address).max_prefixlen
    except ValueError:
        max_length = 0
    if not max_length or "%" in address:
        return "it does not start with an IPv4 or IPv6 address", ()
    if not slash:
        return f"the prefix length is missing; a single address has the length {max_length}", (
            f"{address}/{max_length}",
        )
    if length not in map(str, range(max_length + 1)):
        return f"the prefix length must be a number from 0 to {max_length}", ()
    return "it has host bits set", (str(ip_network(text, strict=False)),)


def must_hold(constraint: Constraint) -> Predicate:
    """Return a predicate that is false for an unknown attribute."""
    return _compile(constraint, False)


def may_hold(constraint: Constraint) -> Predicate:
    """Return a predicate that is true for an unknown attribute."""
    return _compile(constraint, True)


def conjunction(tests: Sequence[Predicate]) -> Predicate | None:
    """Combine predicates with AND; None for no predicates."""
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda context: first(context) and second(context)
    return lambda context: all(test(context) for test in tests)


def _compile(constraint: Constraint, unknown: bool) -> Predicate:
    operator, key, values = constraint
    if operator == "ipInRange":
        assert key == SOURCE_IP
        return _address_test(tuple(map(parse_cidr_block, values)), unknown)
    value = values[0]
    if operator in ("before", "after"):
        assert key == CURRENT_TIME
        return _time_test(operator == "before", value, unknown)
    if key.startswith(REQUEST_TAG):
        return _tag_test("request_tags", key.removeprefix(REQUEST_TAG), operator, value, unknown)
    if key.startswith(RESOURCE_TAG):
        return _tag_test("resource_tags", key.removeprefix(RESOURCE_TAG), operator, value, unknown)
    return _field_test(
        {REGION: "region", PRINCIPAL_TYPE: "principal_type", TENANT: "tenant"}[key], operator, value, unknown
    )


def _address_test(blocks: Sequence[Block], unknown: bool) -> Predicate:
    intervals = {version: _merge_blocks(blocks, version) for version in (4, 6)}

    def contains(address: Address) -> bool:
        version, number = address
        firsts, lasts = intervals[version]
        index = bisect_right(firsts, number) - 1
        return index >= 0 and number <= lasts[index]

    return lambda context: unknown if context.source_ip is None else contains(context.source_ip)


def _merge_blocks(blocks: Sequence[Block], version: int) -> tuple[list[int], list[int]]:
    """Return the sorted intervals of a version's blocks, as first and last addresses."""
    firsts: list[int] = []
    lasts: list[int] = []
    for first, last in sorted((first, last) for family, first, last in blocks if family == version):
        if lasts and first <= lasts[-1] + 1:
            lasts[-1] = max(lasts[-1], last)
        else:
            firsts.append(first)
            lasts.append(last)
    return firsts, lasts


def _time_test(before: bool, text: str, unknown: bool) -> Predicate:
    limit = parse_stored_timestamp(text)
    if before:
        return lambda context: unknown if context.current_time is None else context.current_time < limit
    return lambda context: unknown if context.current_time is None else context.current_time > limit


def _tag_test(tags: str, name: str, operator: str, value: str, unknown: bool) -> Predicate:
    tags_of, matches, absent_result = attrgetter(tags), _text_test(operator, value), operator == "notEquals"

    def test(context: RequestContext) -> bool:
        present = tags_of(context)
        if present is None:
            return unknown
        text = present.get(name)
        return absent_result if text is None else matches(text)

    return test


def _field_test(field: str, operator: str, value: str, unknown: bool) -> Predicate:
    value_of, matches = attrgetter(field), _text_test(operator, value)
    return lambda context: unknown if (text := value_of(context)) is None else matches(text)


def _text_test(operator: str, value: str) -> Callable[[str], bool]:
    if operator == "equals":
        return value.__eq__
    if operator == "notEquals":
        return value.__ne__
    return compile_glob(value)
