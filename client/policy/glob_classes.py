"""Classes of texts that a set of globs cannot distinguish, each with a shortest witness.

Each literal is its own class. For the others, all globs run as one automaton, from each state by the characters that a
glob expects there and a character that no glob contains. Texts that reach the same state match the same globs.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count

from client.policy.bitsets import Budget, OutOfBudget, indices
from client.policy.matching import STAR

MAX_STATES = 20_000
# Positions of a glob for each unit of work.
POSITIONS_PER_UNIT = 1_024
UNNAMED_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789"

State = tuple[int, ...]


def class_witnesses(patterns: Iterable[str], budget: Budget, min_length: int = 0) -> list[str]:
    """Return a witness for each class of texts of at least `min_length` characters, literals first.

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
