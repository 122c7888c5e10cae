"""Settings of a benchmark run. `python -m tests.benchmarks` sets them from its flags."""

from dataclasses import dataclass

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"


@dataclass
class Settings:
    seconds: float = 3.0
    """Duration of one measurement."""
    rounds: int = 3
    """Both sides of a ratio are measured in turn, so many times."""
    is_smallest: bool = False
    """Whether an area has the smallest load that runs all of its code. Its figures mean nothing."""
    databases: tuple[str, ...] = (SQLITE, POSTGRESQL)

    def load(self, usual: int, smallest: int) -> int:
        """Return a number of requests, keys or runs."""
        return smallest if self.is_smallest else usual


settings = Settings()
