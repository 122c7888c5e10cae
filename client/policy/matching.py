"""Patterns for operations (`service:resource:action`) and targets (`frn:service:region:tenant:type/id`), and globs.

The only wildcard is `*`. It replaces a whole part; in a target's id and in `like` it may be anywhere.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, count
from typing import NamedTuple

from client.policy.bitsets import Budget, OutOfBudget, indices

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
        raise InvalidPattern("expected service:resource:action, or fewer parts with a final *")
    for part in parts:
        if part != STAR and not _is_name(part):
            if STAR in part:
                raise InvalidPattern("* must be a whole part")
            raise InvalidPattern("each part must be * or a name of a-z, 0-9, - and _")
    return OperationPattern(*(parts + [STAR] * (3 - len(parts))))


def parse_operation(text: str) -> OperationPattern:
    """Parse a concrete operation, without `*`."""
    parts = text.split(":")
    if len(parts) != 3 or not all(map(_is_name, parts)):
        raise InvalidPattern("expected one operation service:resource:action")
    return OperationPattern(*parts)


def parse_target(text: str) -> Target:
    """Parse `*` or a full name. The text is split at the first four colons: an id may contain colons."""
    if text == STAR:
        return ANY_TARGET
    fields = text.split(":", 4)
    if len(fields) != 5 or fields[0] != "frn":
        raise InvalidPattern("expected * or frn:<service>:<region>:<tenant>:<type>/<id>")
    type_, slash, id_ = fields[4].partition("/")
    if not slash or not type_ or not id_:
        raise InvalidPattern("a target must end in <type>/<id>")
    _, service, region, tenant, _ = fields
    target = Target(service, region, tenant, type_, id_)
    for label, part in zip(Target._fields[:4], target[:4], strict=True):
        if not part:
            raise InvalidPattern(f"the {label} of a target must be * or a name")
        if STAR in part and part != STAR:
            raise InvalidPattern(f"* in the {label} of a target must be the whole part; only the id may be a glob")
        # The first slash ends the type, so a field with a slash would match no request.
        if "/" in part:
            raise InvalidPattern(f"the {label} of a target must not contain a slash")
    # A target has the service of its operation, so a deny on another service would be without effect.
    if service != STAR and not _is_name(service):
        raise InvalidPattern("the service of a target must be * or a name of a-z, 0-9, - and _")
    if " " in text or not text.isprintable():
        raise InvalidPattern("a target must not contain spaces or invisible characters")
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
    """Return whether the pattern matches all values of the target's unknown fields, except the id."""
    service, region, tenant, type_, _ = pattern
    return (
        (service == STAR or service == requested.service)
        and (region == STAR or region == requested.region)
        and (tenant == STAR or tenant == requested.tenant)
        and (type_ == STAR or type_ == requested.type)
    )


def fields_may_cover(pattern: Target, requested: Target) -> bool:
    """Return whether the pattern matches some values of the target's unknown fields, except the id."""
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


MAX_STATES = 20_000
# Positions of a glob for each unit of work.
POSITIONS_PER_UNIT = 1_024
UNNAMED_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789"

State = tuple[int, ...]


def class_witnesses(patterns: Iterable[str], budget: Budget, min_length: int = 0) -> list[str]:
    """Return a shortest witness for each class of texts that the patterns cannot distinguish, literals first.

    Each literal is its own class. For the others, all globs run as one automaton, from each state by the characters
    that a glob expects there and a character that no glob contains. Texts that reach the same state match the same
    globs.

    Args:
        patterns: Literals and globs.
        budget: The work that is left.
        min_length: Minimum number of characters of a text.

    Raises:
        OutOfBudget: the globs have too many classes.
    """
    patterns = dict.fromkeys(patterns)
    literals = [pattern for pattern in patterns if STAR not in pattern and len(pattern) >= min_length]
    globs = [pattern for pattern in patterns if STAR in pattern and pattern.strip(STAR)]
    return literals + list(_witnesses(globs, dict.fromkeys(literals), min_length, budget))


def _witnesses(globs: Sequence[str], literals: Iterable[str], min_length: int, budget: Budget) -> Iterator[str]:
    automaton = _Automaton(globs, budget)
    literals_by_state: dict[State, int] = {}
    for literal in literals:
        state = automaton.run(literal)
        literals_by_state[state] = literals_by_state.get(state, 0) + 1
    # If n literals reach a state, visit n + 1 finds another text, if any.
    visits = max(literals_by_state.values(), default=0) + 1
    seen: set[tuple[bool, ...]] = set()
    for text, state in automaton.texts(visits):
        matched = automaton.matched(state)
        if matched not in seen and len(text) >= min_length and text not in literals:
            seen.add(matched)
            yield text


class _Automaton:
    """All globs, each as a set of positions (bits of an integer)."""

    def __init__(self, globs: Sequence[str], budget: Budget) -> None:
        self.budget = budget
        self.globs = [_collapse_stars(glob) for glob in globs]
        literals = set().union(*self.globs)
        self.unnamed_character = next(
            character
            for character in chain(UNNAMED_CHARACTERS, map(chr, count(0xC0)))
            if character.isprintable() and character not in literals
        )
        self.positions_of: list[dict[str, int]] = []
        for glob in self.globs:
            budget.consume(len(glob) * (1 + len(glob) // POSITIONS_PER_UNIT))
            positions_of: dict[str, int] = {}
            for position, character in enumerate(glob):
                positions_of[character] = positions_of.get(character, 0) | 1 << position
            self.positions_of.append(positions_of)
        self.stars = [positions_of.pop(STAR, 0) for positions_of in self.positions_of]
        self.cost = sum(1 + len(glob) // POSITIONS_PER_UNIT for glob in self.globs)

    def start(self) -> State:
        return tuple(self._skip_stars(1, stars) for stars in self.stars)

    def advance(self, state: State, character: str) -> State:
        self.budget.consume(self.cost)
        return tuple(
            # A position at a star remains; a position at this character advances.
            self._skip_stars((positions & stars) | ((positions & positions_of.get(character, 0)) << 1), stars)
            for positions, stars, positions_of in zip(state, self.stars, self.positions_of, strict=True)
        )

    def run(self, text: str) -> State:
        state = self.start()
        for character in text:
            state = self.advance(state, character)
        return state

    def matched(self, state: State) -> tuple[bool, ...]:
        return tuple(bool(positions >> len(glob) & 1) for positions, glob in zip(state, self.globs, strict=True))

    def next_characters(self, state: State) -> Iterator[str]:
        """Yield the characters to follow from a state, first a character that no glob contains."""
        yield self.unnamed_character
        characters: dict[str, None] = {}
        for positions, glob, stars in zip(state, self.globs, self.stars, strict=True):
            positions &= ~stars & ((1 << len(glob)) - 1)
            for position in indices(positions):
                characters[glob[position]] = None
                self.budget.consume(1 + len(glob) // POSITIONS_PER_UNIT)
        yield from sorted(characters)

    def texts(self, visits: int) -> Iterator[tuple[str, State]]:
        """Yield texts with their states, shortest first; each state at most `visits` times."""
        start = self.start()
        # The empty text is not a visit, because it may be shorter than the minimum.
        visits_of: dict[State, int] = {}
        queue, states = deque([("", start)]), 1
        while queue:
            text, state = queue.popleft()
            yield text, state
            for character in self.next_characters(state):
                successor = self.advance(state, character)
                count_of = visits_of.get(successor, 0)
                if count_of < visits:
                    visits_of[successor] = count_of + 1
                    if (states := states + 1) > MAX_STATES:
                        raise OutOfBudget
                    queue.append((text + character, successor))

    @staticmethod
    def _skip_stars(positions: int, stars: int) -> int:
        """A star also matches the empty text."""
        return positions | ((positions & stars) << 1)


def _collapse_stars(glob: str) -> str:
    while STAR + STAR in glob:
        glob = glob.replace(STAR + STAR, STAR)
    return glob
