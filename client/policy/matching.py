"""Patterns: operations `service:resource:action`, targets `frn:service:region:tenant:type/id`, and globs.

All matching is by whole parts and by literal text; only `*` is special, and inside a part only in the id
of a target and in the value of `like`. Nothing here takes more than linear time (hostile E10).
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

STAR = "*"
MAX_CACHED_LENGTH = 256
_NAME = re.compile(r"[a-z0-9_-]+")
_WHOLE = re.compile(r"([a-z0-9_-]+|\*):([a-z0-9_-]+|\*):([a-z0-9_-]+|\*)")


class OperationPattern(NamedTuple):
    """Three parts, each a literal or `*`."""

    service: str
    resource: str
    action: str

    def __str__(self) -> str:
        return ":".join(self)

    def matches(self, operation: "OperationPattern") -> bool:
        """Whether a concrete operation (no `*`) is one of this pattern."""
        return all(part in (STAR, other) for part, other in zip(self, operation, strict=True))


class Target(NamedTuple):
    """The five fields of a name. In a pattern `*` is any value, in a request it is an unknown one."""

    service: str
    region: str
    tenant: str
    type: str
    id: str

    def __str__(self) -> str:
        return f"frn:{self.service}:{self.region}:{self.tenant}:{self.type}/{self.id}"


ANY_TARGET = Target(STAR, STAR, STAR, STAR, STAR)


class InvalidPattern(ValueError):
    """A text that is no pattern; the message is the reason, without the text itself."""


def parse_operation_pattern(text: str) -> OperationPattern:
    """`a:b:c`, or a shorter form that ends in `*` (`compute:*`, `*`), each part a literal or `*`."""
    match = _WHOLE.fullmatch(text)
    if match is not None:
        return OperationPattern._make(match.groups())
    parts = text.split(":")
    if len(parts) > 3 or (len(parts) < 3 and parts[-1] != STAR):
        raise InvalidPattern("an operation is service:resource:action, or shorter when it ends in *")
    for part in parts:
        if part != STAR and not _is_name(part):
            if STAR in part:
                raise InvalidPattern("* stands for a whole part, never for a piece of one")
            raise InvalidPattern("each part is * or a name of a-z, 0-9, - and _")
    return OperationPattern(*(parts + [STAR] * (3 - len(parts))))


def parse_operation(text: str) -> OperationPattern:
    """One concrete operation, no `*` in it."""
    parts = text.split(":")
    if len(parts) != 3 or not all(map(_is_name, parts)):
        raise InvalidPattern("a single operation service:resource:action is needed")
    return OperationPattern(*parts)


def parse_target(text: str) -> Target:
    """`*` or a full name. Fields split at the first four colons, so that an id may hold colons."""
    if text == STAR:
        return ANY_TARGET
    fields = text.split(":", 4)
    if len(fields) != 5 or fields[0] != "frn":
        raise InvalidPattern("a target is * or frn:<service>:<region>:<tenant>:<type>/<id>")
    type_, slash, id_ = fields[4].partition("/")
    if not slash or not type_ or not id_:
        raise InvalidPattern("a target ends in <type>/<id>")
    _, service, region, tenant, _ = fields
    target = Target(service, region, tenant, type_, id_)
    for label, part in zip(Target._fields[:4], target[:4], strict=True):
        if not part:
            raise InvalidPattern(f"the {label} of a target is * or a name, never empty")
        if STAR in part and part != STAR:
            raise InvalidPattern(f"* in the {label} of a target stands alone; only the id takes a glob")
        # The first slash ends the type: one before it would make a name that no request has.
        if "/" in part:
            raise InvalidPattern(f"the {label} of a target holds no slash")
    # The service of a target is that of the operation: a deny on one that no operation can have would never fire.
    if service != STAR and not _is_name(service):
        raise InvalidPattern("the service of a target is * or a name of a-z, 0-9, - and _")
    if " " in text or not text.isprintable():
        raise InvalidPattern("a target holds no blanks and no invisible characters")
    return target


def is_region(text: str) -> bool:
    """Whether a text can stand for the open region of a target, without making another target of it."""
    return bool(text) and text.isprintable() and not any(c in text for c in " *:/")


def _is_name(part: str) -> bool:
    return _NAME.fullmatch(part) is not None


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """A test of a whole text against a pattern in which only `*` is special; linear in the text."""
    # What is remembered must stay small, whoever sends patterns of a quarter of a megabyte.
    return _cached_glob(pattern) if len(pattern) <= MAX_CACHED_LENGTH else _compile_glob(pattern)


def _compile_glob(pattern: str) -> Callable[[str], bool]:
    pieces = pattern.split(STAR)
    if len(pieces) == 1:
        return pattern.__eq__
    first, last, middle = pieces[0], pieces[-1], [piece for piece in pieces[1:-1] if piece]
    if not middle and not last:
        if not first:
            return lambda text: True
        return lambda text: text.startswith(first)
    shortest = len(first) + len(last)

    def test(text: str) -> bool:
        if len(text) < shortest or not text.startswith(first) or not text.endswith(last):
            return False
        position, end = len(first), len(text) - len(last)
        for piece in middle:
            position = text.find(piece, position, end)
            if position < 0:
                return False
            position += len(piece)
        return True

    return test


_cached_glob = lru_cache(maxsize=4096)(_compile_glob)


def fields_must_cover(pattern: Target, requested: Target) -> bool:
    """Whether the fields before the id hold for every value the asked ones may turn out to have."""
    service, region, tenant, type_, _ = pattern
    return (
        (service == STAR or service == requested.service)
        and (region == STAR or region == requested.region)
        and (tenant == STAR or tenant == requested.tenant)
        and (type_ == STAR or type_ == requested.type)
    )


def fields_may_cover(pattern: Target, requested: Target) -> bool:
    """Whether the fields before the id hold for at least one value the asked ones may turn out to have."""
    service, region, tenant, type_, _ = requested
    return (
        (service == STAR or pattern.service == STAR or pattern.service == service)
        and (region == STAR or pattern.region == STAR or pattern.region == region)
        and (tenant == STAR or pattern.tenant == STAR or pattern.tenant == tenant)
        and (type_ == STAR or pattern.type == STAR or pattern.type == type_)
    )


def must_cover(pattern: Target, requested: Target) -> bool:
    """Whether a pattern holds for every value the asked target may turn out to have."""
    if not fields_must_cover(pattern, requested):
        return False
    return not pattern.id.strip(STAR) or (requested.id != STAR and compile_glob(pattern.id)(requested.id))


def may_cover(pattern: Target, requested: Target) -> bool:
    """Whether a pattern holds for at least one value the asked target may turn out to have."""
    return fields_may_cover(pattern, requested) and (requested.id == STAR or compile_glob(pattern.id)(requested.id))


def resolve_target(target: Target, service: str, region: str | None) -> Target:
    """A request's target with what is known besides: its service is the operation's, its region the given one."""
    return target._replace(
        service=service if target.service == STAR else target.service,
        region=region if target.region == STAR and region is not None else target.region,
    )
