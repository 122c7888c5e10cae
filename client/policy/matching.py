"""Patterns for operations (`service:resource:action`) and targets (`frn:service:region:tenant:type/id`), and globs.

The only wildcard is `*`. It replaces a whole part; in a target's id and in `like` it may be anywhere.
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
    service: str
    resource: str
    action: str

    def __str__(self) -> str:
        return ":".join(self)

    def matches(self, operation: "OperationPattern") -> bool:
        return all(part in (STAR, other) for part, other in zip(self, operation, strict=True))


class Target(NamedTuple):
    """The fields of a target. `*` is any value in a pattern, an unknown value in a request."""

    service: str
    region: str
    tenant: str
    type: str
    id: str

    def __str__(self) -> str:
        return f"frn:{self.service}:{self.region}:{self.tenant}:{self.type}/{self.id}"


ANY_TARGET = Target(STAR, STAR, STAR, STAR, STAR)


class InvalidPattern(ValueError):
    """The text is not a pattern. The message is the reason, without the text."""


def parse_operation_pattern(text: str) -> OperationPattern:
    """Parse `a:b:c`, or a shorter form that ends in `*` (`compute:*`, `*`)."""
    match = _WHOLE.fullmatch(text)
    if match is not None:
        return OperationPattern._make(match.groups())
    parts = text.split(":")
    if len(parts) > 3 or (len(parts) < 3 and parts[-1] != STAR):
        raise InvalidPattern("an operation is service:resource:action, or shorter when it ends in *")
    for part in parts:
        if part != STAR and not _is_name(part):
            if STAR in part:
                raise InvalidPattern("* must be a whole part, not a piece of one")
            raise InvalidPattern("each part is * or a name of a-z, 0-9, - and _")
    return OperationPattern(*(parts + [STAR] * (3 - len(parts))))


def parse_operation(text: str) -> OperationPattern:
    """Parse a concrete operation, without `*`."""
    parts = text.split(":")
    if len(parts) != 3 or not all(map(_is_name, parts)):
        raise InvalidPattern("a single operation service:resource:action is needed")
    return OperationPattern(*parts)


def parse_target(text: str) -> Target:
    """Parse `*` or a full name. The text is split at the first four colons: an id may contain colons."""
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
            raise InvalidPattern(f"* in the {label} of a target must be the whole part; only the id may be a glob")
        # The first slash ends the type, so a field with a slash would match no request.
        if "/" in part:
            raise InvalidPattern(f"the {label} of a target must not contain a slash")
    # A target has the service of its operation, so a deny on another service would be without effect.
    if service != STAR and not _is_name(service):
        raise InvalidPattern("the service of a target is * or a name of a-z, 0-9, - and _")
    if " " in text or not text.isprintable():
        raise InvalidPattern("a target must not contain blanks or invisible characters")
    return target


def is_region(text: str) -> bool:
    """Return whether a text is a region without `*`."""
    return bool(text) and text.isprintable() and not any(c in text for c in " *:/")


def _is_name(part: str) -> bool:
    return _NAME.fullmatch(part) is not None


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches a whole text in linear time."""
    # A document may contain patterns of 256 KB, too large to cache.
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
    """Return whether the pattern matches all values of the target's unknown fields, apart from the id."""
    service, region, tenant, type_, _ = pattern
    return (
        (service == STAR or service == requested.service)
        and (region == STAR or region == requested.region)
        and (tenant == STAR or tenant == requested.tenant)
        and (type_ == STAR or type_ == requested.type)
    )


def fields_may_cover(pattern: Target, requested: Target) -> bool:
    """Return whether the pattern matches some values of the target's unknown fields, apart from the id."""
    service, region, tenant, type_, _ = requested
    return (
        (service == STAR or pattern.service == STAR or pattern.service == service)
        and (region == STAR or pattern.region == STAR or pattern.region == region)
        and (tenant == STAR or pattern.tenant == STAR or pattern.tenant == tenant)
        and (type_ == STAR or pattern.type == STAR or pattern.type == type_)
    )


def must_cover(pattern: Target, requested: Target) -> bool:
    """Return whether the pattern matches all values of the target's unknown parts."""
    if not fields_must_cover(pattern, requested):
        return False
    return not pattern.id.strip(STAR) or (requested.id != STAR and compile_glob(pattern.id)(requested.id))


def may_cover(pattern: Target, requested: Target) -> bool:
    """Return whether the pattern matches some values of the target's unknown parts."""
    return fields_may_cover(pattern, requested) and (requested.id == STAR or compile_glob(pattern.id)(requested.id))


def resolve_target(target: Target, service: str, region: str | None) -> Target:
    """Return a request's target with the operation's service and the known region in place of `*`."""
    return target._replace(
        service=service if target.service == STAR else target.service,
        region=region if target.region == STAR and region is not None else target.region,
    )
