"""Constraints as tests of the facts, in two polarities.

An allow needs every constraint to be surely true; a deny needs none to be surely false. Compiling each
polarity on its own makes three-valued logic free when a request is decided.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from ipaddress import ip_address, ip_network
from operator import attrgetter
from socket import AF_INET, AF_INET6, inet_pton

from client.policy.matching import compile_glob
from client.policy.model import (
    CURRENT_TIME,
    PRINCIPAL_TYPE,
    REGION,
    REQUEST_TAG,
    RESOURCE_TAG,
    SOURCE_IP,
    TENANT,
    Address,
    Constraint,
    RequestContext,
    parse_instant,
)

Test = Callable[[RequestContext], bool]
Block = tuple[int, int, int]
"""Version, first and last address of a CIDR block."""

# The standard library's reader also takes netmasks, host masks, leading zeros and scopes.
_BLOCK = re.compile(r"([0-9A-Fa-f:.]{2,45})/(0|[1-9][0-9]{0,2})")


def parse_cidr_block(text: str) -> Block:
    """Return a CIDR block without host bits; IPv4-mapped blocks are IPv4. Raises ValueError for anything else.

    A document may hold some ten thousand of them, so that they are read by the C library.
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
    """What is wrong with a text that `read_block` refuses, and which block may have been meant."""
    address, slash, length = text.partition("/")
    try:
        most: int = ip_address(address).max_prefixlen
    except ValueError:
        most = 0
    if not most or "%" in address:
        return "it does not begin with an IPv4 or IPv6 address", ()
    if not slash:
        return f"its length is missing; a single address has the length {most}", (f"{address}/{most}",)
    if length not in map(str, range(most + 1)):
        return f"the length behind the slash is a number from 0 to {most}", ()
    return "it has host bits set", (str(ip_network(text, strict=False)),)


def must_hold(constraint: Constraint) -> Test:
    """True only where the constraint is known to hold."""
    return _test(constraint, False)


def may_hold(constraint: Constraint) -> Test:
    """False only where the constraint is known not to hold."""
    return _test(constraint, True)


def conjunction(tests: Sequence[Test]) -> Test | None:
    """All of them; None when there is nothing to test."""
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda facts: first(facts) and second(facts)
    return lambda facts: all(test(facts) for test in tests)


def _test(constraint: Constraint, unknown: bool) -> Test:
    operator, key, values = constraint
    if operator == "ipInRange":
        assert key == SOURCE_IP
        return _in_blocks(tuple(map(parse_cidr_block, values)), unknown)
    value = values[0]
    if operator in ("before", "after"):
        assert key == CURRENT_TIME
        return _at(operator == "before", value, unknown)
    if key.startswith(REQUEST_TAG):
        return _tag("request_tags", key.removeprefix(REQUEST_TAG), operator, value, unknown)
    if key.startswith(RESOURCE_TAG):
        return _tag("resource_tags", key.removeprefix(RESOURCE_TAG), operator, value, unknown)
    return _text({REGION: "region", PRINCIPAL_TYPE: "principal_type", TENANT: "tenant"}[key], operator, value, unknown)


def _in_blocks(blocks: Sequence[Block], unknown: bool) -> Test:
    spans = {version: _spans(blocks, version) for version in (4, 6)}

    def inside(address: Address) -> bool:
        version, number = address
        firsts, lasts = spans[version]
        place = bisect_right(firsts, number) - 1
        return place >= 0 and number <= lasts[place]

    return lambda facts: unknown if facts.source_ip is None else inside(facts.source_ip)


def _spans(blocks: Sequence[Block], version: int) -> tuple[list[int], list[int]]:
    """Where the blocks of a version begin and end, in order and without overlap."""
    firsts: list[int] = []
    lasts: list[int] = []
    for first, last in sorted((first, last) for family, first, last in blocks if family == version):
        if lasts and first <= lasts[-1] + 1:
            lasts[-1] = max(lasts[-1], last)
        else:
            firsts.append(first)
            lasts.append(last)
    return firsts, lasts


def _at(before: bool, text: str, unknown: bool) -> Test:
    instant = parse_instant(text)
    assert instant is not None
    limit = instant
    if before:
        return lambda facts: unknown if facts.current_time is None else facts.current_time < limit
    return lambda facts: unknown if facts.current_time is None else facts.current_time > limit


def _tag(tags: str, name: str, operator: str, value: str, unknown: bool) -> Test:
    """A tag map is known or unknown as a whole; a tag missing from a known one is known to be absent."""
    held_by, same, absent = attrgetter(tags), _sameness(operator, value), operator == "notEquals"

    def test(facts: RequestContext) -> bool:
        held = held_by(facts)
        if held is None:
            return unknown
        text = held.get(name)
        return absent if text is None else same(text)

    return test


def _text(fact: str, operator: str, value: str, unknown: bool) -> Test:
    known, same = attrgetter(fact), _sameness(operator, value)
    return lambda facts: unknown if (text := known(facts)) is None else same(text)


def _sameness(operator: str, value: str) -> Callable[[str], bool]:
    if operator == "equals":
        return value.__eq__
    if operator == "notEquals":
        return value.__ne__
    return compile_glob(value)
