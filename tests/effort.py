"""Measures work in units of the same machine, because a bound in seconds fails on a slow one."""

import gc
import statistics
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def effort(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of `work`, and its processor time divided by that of counting to a hundred thousand.

    It distinguishes linear from exponential work: the bounds of tests are ten times the usual value, and a fault takes
    a thousand times as long.
    """
    # A collection visits the objects of all tests before this one.
    gc.collect()
    gc.disable()
    try:
        began = time.thread_time()
        answer = work()
        taken = time.thread_time() - began
    finally:
        gc.enable()
    return answer, taken / min(_counting() for _ in range(5))


def take_as_long(ask: Callable[[str], object], questions: Iterable[str], times: int) -> bool:
    """Return whether no question, asked in turn so many times, takes a third longer than another.

    A difference is measured three times, because other programs also cause one.
    """
    return any(_apart(ask, questions, times) < 1.3 for _ in range(3))


def _apart(ask: Callable[[str], object], questions: Iterable[str], times: int) -> float:
    taken: dict[str, list[int]] = {question: [] for question in questions}
    for _ in range(times):
        for question, samples in taken.items():
            began = time.perf_counter_ns()
            ask(question)
            samples.append(time.perf_counter_ns() - began)
    medians = [statistics.median(samples) for samples in taken.values()]
    return max(medians) / min(medians)


def _counting() -> float:
    began, total = time.thread_time(), 0
    for number in range(100_000):
        total += number
    return time.thread_time() - began
