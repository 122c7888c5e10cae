"""Comparisons whose two sides take turns in one run, because only such ratios are stable on a shared machine."""

import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True)
class Line:
    """A ratio, or a figure with its unit, and the most that it may be, or the least if `is_least`."""

    what: str
    value: float
    most: float
    against: str
    unit: str = "x"
    is_least: bool = False

    @property
    def holds(self) -> bool:
        return self._is_met_by(self.value)

    def _is_met_by(self, value: float) -> bool:
        return value >= self.most if self.is_least else value <= self.most

    @property
    def figure(self) -> str:
        """The value with two digits, or with as many as show whether the goal is met."""
        digits = 2
        while digits < 6 and self._is_met_by(float(f"{self.value:.{digits}f}")) != self.holds:
            digits += 1
        return f"{self.value:.{digits}f}"

    def __str__(self) -> str:
        mark = "ok " if self.holds else "NO "
        bound = "at least" if self.is_least else "at most"
        return f"{mark} {self.what:<58} {self.figure:>9} {self.unit:<5} {bound} {self.most:g}, against {self.against}"

    def row(self) -> str:
        """Return a row of the table in docs/benchmarks.md."""
        goal = f"{'>=' if self.is_least else '<='} {self.most:g} {self.unit}".rstrip() + (
            "" if self.holds else " (missed)"
        )
        return f"| {self.what} | {self.against} | {self.figure} {self.unit} | {goal} |"


def seconds(command: Sequence[str], env: Mapping[str, str]) -> float:
    """Return the duration of a command, which must succeed."""
    run = partial(subprocess.run, command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return milliseconds(run) / 1000


def milliseconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def paired(ours: Callable[[], float], theirs: Callable[[], float], runs: int = 15) -> tuple[float, float, float]:
    """Return the medians of both and of their ratios, in alternating runs; the first of each is not counted."""
    ours(), theirs()
    pairs = [(ours(), theirs()) for _ in range(runs)]
    return (
        statistics.median(one for one, _ in pairs),
        statistics.median(other for _, other in pairs),
        statistics.median(one / other for one, other in pairs),
    )
