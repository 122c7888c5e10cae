"""Settings of a benchmark run. `python -m tests.benchmarks` sets them from its flags."""

from dataclasses import dataclass

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"


@dataclass
class Settings:
    seconds: float = 3.0
    """Duration of one measurement."""
    rounds: int = 3
    """Both sides of a ratio are measured in turn, so many times."""
    databases: tuple[str, ...] = (SQLITE, POSTGRESQL)


settings = Settings()
