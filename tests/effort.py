"""How much work something is, in measures of the machine's own: a bound in seconds would fail on a slow one."""

import gc
import statistics
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def effort(work: Callable[[], T]) -> tuple[T, float]:
    """What `work` answers, and its processor time in times that of counting to a hundred thousand, in the same run.

    What it is good for is to tell work that grows with what it is given from work that explodes. The bounds
    are ten times what was seen, and what they keep out takes a thousand times as long, or for ever.
    """
    # A collection walks the objects of every test before this one, and other threads are not this work.
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
    """Whether of these questions, asked in turn so many times, none takes a third longer than another.

    Measured again when one does: what a question costs shows three times, what else the machine did does not.
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
