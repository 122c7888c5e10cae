"""The `:` line: what was typed, as an intention. Pure; completion and history live here as well.

`:tenants`, `:tenants web` (with a filter), `:use newsroom`, `:create Name of a tenant`, `:help`, `:quit`,
or an action by its name (`:tenants.rename`). Enter runs exactly what was typed, Tab takes the suggestion.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tui import actions


@dataclass(frozen=True, slots=True)
class Go:
    """Open a place, with a filter when one was typed."""

    place: str
    filter: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """Run an action; `argument` is what stood behind it, with blanks kept."""

    action: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Mistake:
    """What was typed means nothing; `words` say why."""

    words: str


# Words that may stand for an action. Those in TAKES take an argument; the others refuse one.
ALIASES = {
    "use": "tenants.use",
    "create": "tenants.create",
    "rename": "tenants.rename",
    "context": "contexts.use",
    "use-context": "contexts.use",
    "login": "contexts.sign_in",
    "logout": "contexts.sign_out",
    "whoami": "app.who_am_i",
    "help": "app.help",
    "theme": "app.theme",
    "refresh": "app.refresh",
    "undo": "app.undo",
    "q": "app.quit",
    "quit": "app.quit",
}
TAKES = {"tenants.use", "tenants.create", "tenants.rename", "contexts.use", "contexts.sign_in", "contexts.sign_out"}


def words(places: Sequence[str]) -> list[str]:
    """Every first word the line understands."""
    return sorted({*places, *ALIASES, *actions.BY_ID})


def parse(text: str, places: Sequence[str]) -> Go | Run | Mistake | None:
    """The intention of a line; None for an empty one. A place may be shortened as long as it stays clear."""
    text = text.strip().removeprefix(":").strip()
    if not text:
        return None
    word, _, rest = text.partition(" ")
    if word == "frost" and rest.strip():
        word, _, rest = rest.strip().partition(" ")
    rest = rest.strip()
    name = word.casefold()
    if name == "tenant" and rest:
        # The commands of that name mean here what they mean in a shell; they are no filter.
        command, _, argument = rest.partition(" ")
        if command == "list":
            return Go("tenants")
        if command == "use":
            return _unquoted(Run("tenants.use", argument.strip()))
        return Mistake(f"tenant {command} is not known here; there is: tenant use NAME, tenant list")
    if name in places:
        return Go(name, rest)
    action = name if name in actions.BY_ID else ALIASES.get(name)
    if action is None:
        return _shortened(word, rest, places)
    if rest and action not in TAKES:
        return Mistake(f"{word} takes no argument")
    return _unquoted(Run(action, rest))


def _shortened(word: str, rest: str, places: Sequence[str]) -> Go | Mistake:
    found = [place for place in places if place.startswith(word.casefold())]
    if len(found) == 1:
        return Go(found[0], rest)
    if found:
        return Mistake(f"{word} may be {' or '.join(found)}")
    return Mistake(f"there is no {word}; Tab shows what there is")


def _unquoted(run: Run) -> Run | Mistake:
    """Quotes around a whole argument are a habit from the shell; the name inside is meant."""
    if not run.argument.startswith(("'", '"')):
        return run
    import shlex

    try:
        parts = shlex.split(run.argument)
    except ValueError:
        return Mistake("a quote is not closed")
    return Run(run.action, " ".join(parts))


def complete(text: str, places: Sequence[str], names: Sequence[str]) -> list[str]:
    """Whole lines that go on from what was typed, best first. `names` complete the argument (tenants, contexts)."""
    word, blank, rest = text.lstrip().removeprefix(":").partition(" ")
    if not blank:
        typed = word.casefold()
        candidates = [*places, *ALIASES, *actions.BY_ID]
        starting = [candidate for candidate in candidates if candidate.startswith(typed)]
        within = [candidate for candidate in candidates if typed in candidate and candidate not in starting]
        return list(dict.fromkeys(starting + within))
    if (ALIASES.get(word.casefold()) or word.casefold()) not in TAKES:
        return []
    typed = rest.strip().casefold()
    return [f"{word} {name}" for name in names if name.casefold().startswith(typed)]


class History:
    """Lines that were run, the newest last; moving past the newest gives back what was being typed."""

    def __init__(self, lines: Sequence[str] = (), limit: int = 100) -> None:
        self.lines = list(lines)[-limit:]
        self._limit = limit
        self._place: int | None = None
        self._typing = ""

    def add(self, line: str) -> None:
        """Remember a line, once, as the newest."""
        self.lines = [*(old for old in self.lines if old != line), line][-self._limit :]
        self._place = None

    def older(self, typing: str) -> str:
        """The line before; at the oldest it stays there."""
        if self._place is None:
            self._typing, self._place = typing, len(self.lines)
        self._place = max(0, self._place - 1)
        return self.lines[self._place] if self.lines else typing

    def newer(self, typing: str) -> str:
        """The line after, and after the newest what was being typed."""
        if self._place is None:
            return typing
        self._place += 1
        if self._place >= len(self.lines):
            self._place = None
            return self._typing
        return self.lines[self._place]
