"""Texts no glob of a set can tell apart, with a shortest witness for each class.

Every literal is a class of its own. The rest is found by walking all globs at once, from each state by the characters
some glob waits for there plus one that none names: two texts that end in the same state are matched by the same globs.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count

from client.policy.bitsets import Budget, OutOfBudget, indices
from client.policy.matching import STAR

MAX_STATES = 20_000
# In one word of an integer, about: that many positions of a glob cost one unit of work.
POSITIONS = 1_024
SPARE = "abcdefghijklmnopqrstuvwxyz0123456789"

State = tuple[int, ...]


def class_witnesses(patterns: Iterable[str], work: Budget, shortest: int = 0) -> list[str]:
    """One witness for every class of texts of at least `shortest` characters, literals first.

    Raises:
        OutOfBudget: the globs are too entangled to tell their classes apart.
    """
    patterns = dict.fromkeys(patterns)
    literals = [pattern for pattern in patterns if STAR not in pattern and len(pattern) >= shortest]
    globs = [pattern for pattern in patterns if STAR in pattern and pattern.strip(STAR)]
    return literals + list(_witnesses(globs, dict.fromkeys(literals), shortest, work))


def _witnesses(globs: Sequence[str], literals: Iterable[str], shortest: int, work: Budget) -> Iterator[str]:
    walker = _Walker(globs, work)
    taken: dict[State, int] = {}
    for literal in literals:
        state = walker.run(literal)
        taken[state] = taken.get(state, 0) + 1
    # A class may be nothing but literals: it takes one text more than they are to find another, if there is one.
    visits = max(taken.values(), default=0) + 1
    found: set[tuple[bool, ...]] = set()
    for text, state in walker.texts(visits):
        matched = walker.matched(state)
        if matched not in found and len(text) >= shortest and text not in literals:
            found.add(matched)
            yield text


class _Walker:
    """Each glob as a set of positions in it (bits of an integer), advanced one character at a time."""

    def __init__(self, globs: Sequence[str], work: Budget) -> None:
        self.work = work
        self.globs = [_squeeze(glob) for glob in globs]
        named = set().union(*self.globs)
        self.spare = next(one for one in chain(SPARE, map(chr, count(0xC0))) if one.isprintable() and one not in named)
        # For each glob and character the positions it stands at.
        self.steps: list[dict[str, int]] = []
        for glob in self.globs:
            work.spend(len(glob) * (1 + len(glob) // POSITIONS))
            steps: dict[str, int] = {}
            for place, character in enumerate(glob):
                steps[character] = steps.get(character, 0) | 1 << place
            self.steps.append(steps)
        self.stars = [steps.pop(STAR, 0) for steps in self.steps]
        self.cost = sum(1 + len(glob) // POSITIONS for glob in self.globs)

    def start(self) -> State:
        return tuple(self._rest(1, stars) for stars in self.stars)

    def advance(self, state: State, character: str) -> State:
        self.work.spend(self.cost)
        return tuple(
            # A position at a star stays there; one at this character goes on.
            self._rest((places & stars) | ((places & steps.get(character, 0)) << 1), stars)
            for places, stars, steps in zip(state, self.stars, self.steps, strict=True)
        )

    def run(self, text: str) -> State:
        state = self.start()
        for character in text:
            state = self.advance(state, character)
        return state

    def matched(self, state: State) -> tuple[bool, ...]:
        return tuple(bool(places >> len(glob) & 1) for places, glob in zip(state, self.globs, strict=True))

    def awaited(self, state: State) -> Iterator[str]:
        """The characters that lead on from here, each once; any other leads where the spare one does."""
        yield self.spare
        found: dict[str, None] = {}
        for places, glob, stars in zip(state, self.globs, self.stars, strict=True):
            places &= ~stars & ((1 << len(glob)) - 1)
            for place in indices(places):
                found[glob[place]] = None
                self.work.spend(1 + len(glob) // POSITIONS)
        yield from sorted(found)

    def texts(self, visits: int) -> Iterator[tuple[str, State]]:
        """Shortest texts first, at most `visits` for each state."""
        start = self.start()
        # The empty text does not count as a visit: where texts may not be empty, another is looked for.
        seen: dict[State, int] = {}
        queue, states = deque([("", start)]), 1
        while queue:
            text, state = queue.popleft()
            yield text, state
            for character in self.awaited(state):
                after = self.advance(state, character)
                times = seen.get(after, 0)
                if times < visits:
                    seen[after] = times + 1
                    if (states := states + 1) > MAX_STATES:
                        raise OutOfBudget
                    queue.append((text + character, after))

    @staticmethod
    def _rest(places: int, stars: int) -> int:
        """Positions after which a star stands may also be past it: a star matches nothing as well."""
        return places | ((places & stars) << 1)


def _squeeze(glob: str) -> str:
    """Stars side by side are one."""
    while STAR + STAR in glob:
        glob = glob.replace(STAR + STAR, STAR)
    return glob
