"""What is told at the edge, so that it never piles up: at most three messages, and the same words once."""

from typing import Literal, NamedTuple

MOST = 3
SHORTEST, LONGEST = 3.5, 8.0
"""Seconds a message stays, by how much there is to read; what failed stays the longest."""
LETTERS_A_SECOND = 18

Severity = Literal["information", "warning", "error"]


class Notice(NamedTuple):
    """A message and when it goes, on the clock its teller uses."""

    words: str
    severity: Severity
    until: float


def seconds(words: str, severity: Severity) -> float:
    """How long a message stays: until it can have been noticed and read."""
    if severity == "error":
        return LONGEST
    return min(LONGEST, max(SHORTEST, 1.5 + len(words) / LETTERS_A_SECOND))


class Notices:
    """The messages that are still shown."""

    def __init__(self) -> None:
        self._shown: list[Notice] = []

    def add(self, notice: Notice, now: float) -> list[Notice] | None:
        """Take a message; what is to be shown then, oldest first, or None where it only comes on top of the others."""
        before = [one for one in self._shown if one.until > now]
        kept = [one for one in before if one.words != notice.words][-(MOST - 1) :]
        self._shown = [*kept, notice]
        return None if kept == before else self._shown

    def drop(self, words: str) -> None:
        """Forget a message that was taken away."""
        self._shown = [one for one in self._shown if one.words != words]
