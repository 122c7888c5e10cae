"""Samples of servers under load, and ratios of two servers that take turns."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.benchmarks.ratios import Line
from tests.benchmarks.servers import Server
from tests.benchmarks.settings import settings
from tests.benchmarks.wrk import Load

CONNECTIONS = 8
WARM_UP_SECONDS = 1


@dataclass(frozen=True)
class Sample:
    """The results of one run of a load: answers a second, and processor time in microseconds per answer."""

    rate: float
    cpu: float
    database_cpu: float


def take(load: Load, server: Server, connections: int = CONNECTIONS, seconds: float | None = None) -> Sample:
    before = server.cpu()
    result = load.send(server.port, connections, seconds)
    own, database = (after - start for after, start in zip(server.cpu(), before, strict=True))
    return Sample(result.rate, own / result.answered * 1e6, database / result.answered * 1e6)


def warm_up(load: Load, server: Server) -> None:
    """Check the answers of a load one by one, then send it for a second that is not measured."""
    load.prepare(server.port)
    load.send(server.port, CONNECTIONS, WARM_UP_SECONDS)


def compare(what: str, ours: Callable[[], Sample], theirs: Callable[[], Sample], goal: float, against: str) -> Line:
    """Return the ratio of rates, which has to reach a goal: the median of some rounds, with the spread.

    Both sides are measured in each round, in changing order. The ratio of processor time per answer stands beside it,
    because other work on the server's core disturbs it less.
    """
    pairs: list[tuple[Sample, Sample]] = []
    for number in range(settings.rounds):
        if number % 2:
            second = theirs()
            pairs.append((ours(), second))
        else:
            pairs.append((ours(), theirs()))
    ratios = [mine.rate / other.rate for mine, other in pairs]
    own, other = (_median([pair[side] for pair in pairs]) for side in (0, 1))
    by_cpu = statistics.median(other.cpu / mine.cpu for mine, other in pairs)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}, by processor time {by_cpu:.2f}"
    text = f"{against}: {_text(own)} beside {_text(other)}; {spread}"
    return Line(what, statistics.median(ratios), goal, text, is_least=True)


def beside(what: str, ours: tuple[Load, Server], theirs: tuple[Load, Server], goal: float, against: str) -> Line:
    for load, server in (ours, theirs):
        warm_up(load, server)
    return compare(what, partial(take, *ours), partial(take, *theirs), goal, against)


def _median(samples: list[Sample]) -> Sample:
    return Sample(
        statistics.median(sample.rate for sample in samples),
        statistics.median(sample.cpu for sample in samples),
        statistics.median(sample.database_cpu for sample in samples),
    )


def _text(sample: Sample) -> str:
    database = f" + {sample.database_cpu:,.0f}" if sample.database_cpu else ""
    return f"{sample.rate:,.0f}/s ({sample.cpu:,.0f}{database} us)"
