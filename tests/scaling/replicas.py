"""Simulates replicas that share a rate limit, with the real lease arithmetic and a model of the row."""

import heapq
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from service.authn.rate_limit import HELD_MICROSECONDS, LEASE_SHARE, MINUTE, Grant, RateLimited, interval_of
from service.authn.request_limits import LeasedLimits

KEY = "a key"


@dataclass
class LeaseRows:
    """The rows of `rate_limits` in memory. `tests/service/test_leases.py` compares it with the statement.

    Args:
        clock: the server's clock in microseconds.
    """

    clock: Callable[[], int]
    full_at: dict[str, int] = field(default_factory=dict)
    statements: int = 0

    def take_lease(self, key: str, interval: int, needed: int, wanted: int, held: int = HELD_MICROSECONDS) -> Grant:
        now = self.clock()
        self.statements += 1
        ahead = self.full_at.get(key, now) - now
        ahead = ahead if 0 <= ahead <= 2 * MINUTE else 0
        if ahead > MINUTE - needed * interval:
            return Grant(0, ahead)
        leased = max(needed, min(wanted, (MINUTE - ahead) // interval // LEASE_SHARE), max(0, held - ahead) // interval)
        self.full_at[key] = now + ahead + leased * interval
        return Grant(leased, ahead + leased * interval)


@dataclass(frozen=True)
class Replica:
    limits: LeasedLimits

    def admits(self, per_minute: int, requests: int = 1) -> bool:
        try:
            if not self.limits.take(KEY, per_minute, requests):
                self.limits.renew(KEY, per_minute, requests)
        except RateLimited:
            return False
        return True


class Simulation:
    """Replicas under one server clock in microseconds, which the caller moves with `now`.

    Args:
        drift: how much faster or slower the clocks of replicas run, as a part of the time.
    """

    def __init__(self, replicas: int, *, drift: float = 0.0, seed: int = 0) -> None:
        self.now = 1_900_000_000_000_000
        self.rows = LeaseRows(lambda: self.now)
        numbers = random.Random(seed)
        self.replicas = []
        for _ in range(replicas):
            speed, start = 1 + numbers.uniform(-drift, drift), numbers.randrange(MINUTE)
            clock = lambda speed=speed, start=start: start + int(self.now * speed)  # noqa: E731
            self.replicas.append(Replica(LeasedLimits(self.rows.take_lease, clock)))

    def start_again(self, number: int) -> None:
        """Kill a replica and start it: its leases are lost."""
        limits = self.replicas[number].limits
        self.replicas[number] = Replica(LeasedLimits(self.rows.take_lease, limits._clock))

    def run(self, arrivals: Iterable[tuple[int, int]], per_minute: int) -> Iterator[int]:
        """Yield the instants of admitted requests, given the instants and replicas of all requests."""
        for self.now, number in arrivals:
            if self.replicas[number].admits(per_minute):
                yield self.now


def arrivals(start: int, seconds: float, rates: Sequence[float], seed: int = 0) -> Iterator[tuple[int, int]]:
    """Yield requests in the order of their instants; `rates` are requests a second at each replica."""
    numbers = random.Random(seed)
    end = start + int(seconds * 1_000_000)
    queue = [(start + int(numbers.expovariate(rate) * 1_000_000), number) for number, rate in enumerate(rates) if rate]
    heapq.heapify(queue)
    while queue and queue[0][0] < end:
        at, number = queue[0]
        yield at, number
        heapq.heapreplace(queue, (at + 1 + int(numbers.expovariate(rates[number]) * 1_000_000), number))


def skewed(replicas: int, total: float, exponent: float = 1.0) -> list[float]:
    """Return rates that sum to `total` and fall by Zipf's law."""
    weights = [1 / (number + 1) ** exponent for number in range(replicas)]
    return [total * weight / sum(weights) for weight in weights]


def shapes(total: float) -> dict[str, list[float]]:
    """Return rates of 100 replicas that sum to `total`, by name."""
    one_hot = [total * 0.9] + [total * 0.1 / 99] * 99
    return {"even": [total / 100] * 100, "Zipf": skewed(100, total), "one hot": one_hot}


def excess(instants: Sequence[int], per_minute: int) -> int:
    """Return by how many microseconds the admitted requests exceed the exact limit (GCRA); 0 if they never do."""
    interval, full_at, largest = interval_of(per_minute), 0, 0
    for now in instants:
        full_at = max(full_at, now) + interval
        largest = max(largest, full_at - now - MINUTE)
    return largest


def admitted_by_one(instants: Iterable[int], per_minute: int) -> int:
    """Return how many of the requests a single process admits."""
    interval, full_at, admitted = interval_of(per_minute), 0, 0
    for now in instants:
        if max(full_at, now) - now <= MINUTE - interval:
            full_at, admitted = max(full_at, now) + interval, admitted + 1
    return admitted
