"""Messages to the user: at most three at a time, without duplicates."""

from typing import Literal, NamedTuple

MOST = 3
SHORTEST, LONGEST = 3.5, 8.0
"""Seconds to show a message, depending on its length; errors use the longest."""
LETTERS_A_SECOND = 18

Severity = Literal["information", "warning", "error"]


class Notice(NamedTuple):
    """A message and its expiry time, on the clock of the caller."""

    words: str
    severity: Severity
    until: float


def seconds(words: str, severity: Severity) -> float:
    """Return how long to show a message, in seconds."""
    if severity == "error":
        return LONGEST
    return min(LONGEST, max(SHORTEST, 1.5 + len(words) / LETTERS_A_SECOND))


class Notices:
    """The messages that are shown."""

    def __init__(self) -> None:
        self._shown: list[Notice] = []

    def add(self, notice: Notice, now: float) -> list[Notice] | None:
        """Add a message. Return all messages to show, oldest first, or None if the others do not change."""
        before = [one for one in self._shown if one.until > now]
        others = [one for one in before if one.words != notice.words][-(MOST - 1) :]
        self._shown = [*others, notice]
        return None if others == before else self._shown

    def drop(self, words: str) -> None:
        """Remove a message."""
        self._shown = [one for one in self._shown if one.words != words]
