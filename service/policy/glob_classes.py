"""Texts no glob of a set can tell apart, with a shortest witness for each class.

Every literal is a class of its own. The rest is found by walking all globs at once through an alphabet of the
characters they name plus one they do not: two texts that end in the same state are matched by the same globs.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from service.policy.matching import STAR

MOST_STATES = 20_000
SPARE = "abcdefghijklmnopqrstuvwxyz0123456789" + "äöüßñçøåþð"

State = tuple[int, ...]


class TooManyClasses(Exception):
    """The globs are too entangled to tell their classes apart within the budget."""


def classes(patterns: Iterable[str], shortest: int = 0) -> list[str]:
    """One witness for every class of texts of at least `shortest` characters, literals first."""
    patterns = dict.fromkeys(patterns)
    literals = [pattern for pattern in patterns if STAR not in pattern and len(pattern) >= shortest]
    globs = [pattern for pattern in patterns if STAR in pattern and pattern.strip(STAR)]
    return literals + list(_witnesses(globs, set(literals), shortest))


def _witnesses(globs: Sequence[str], literals: set[str], shortest: int) -> Iterator[str]:
    walker = _Walker(globs)
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

    def __init__(self, globs: Sequence[str]) -> None:
        self.globs = [_squeeze(glob) for glob in globs]
        named = sorted({character for glob in self.globs for character in glob if character != STAR})
        self.alphabet = [next(character for character in SPARE if character not in named), *named]
        self.stars = [sum(1 << place for place, c in enumerate(glob) if c == STAR) for glob in self.globs]
        self.steps = [
            {c: sum(1 << place for place, mine in enumerate(glob) if mine == c) for c in self.alphabet}
            for glob in self.globs
        ]

    def start(self) -> State:
        return tuple(self._rest(1, stars) for stars in self.stars)

    def advance(self, state: State, character: str) -> State:
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

    def texts(self, visits: int) -> Iterator[tuple[str, State]]:
        """Shortest texts first, at most `visits` for each state."""
        start = self.start()
        # The empty text does not count as a visit: where texts may not be empty, another is looked for.
        seen: dict[State, int] = {}
        queue, count = deque([("", start)]), 1
        while queue:
            text, state = queue.popleft()
            yield text, state
            for character in self.alphabet:
                after = self.advance(state, character)
                times = seen.get(after, 0)
                if times < visits:
                    seen[after] = times + 1
                    if (count := count + 1) > MOST_STATES:
                        raise TooManyClasses
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
