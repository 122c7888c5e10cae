"""A bound on the work of one author check: whoever exceeds it gets "undecided", never an endless wait.

A document may be a quarter of a megabyte, and what is cheap for each of its parts is not for each pair of them.
"""

LIMIT = 4_000_000
"""Units of about a quarter of a microsecond: one atom tried, one mask compared, one place of a box looked at."""


class OutOfBudget(Exception):
    """Too much work."""


class Work:
    """What was spent so far."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.left = limit

    def spend(self, units: int) -> None:
        """Raises `OutOfBudget`; called before the work, so that nothing large is begun."""
        self.left -= units
        if self.left < 0:
            raise OutOfBudget
