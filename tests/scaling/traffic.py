"""Simulates what changes cause at replicas: reloads of authority, and entries that wait for the sealer."""

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Reloads:
    """`expected` has the figures of the capacity model."""

    requests: int
    reloads: int
    expected: float


def expected_reloads(requests: float, changes: float) -> float:
    """Return the reloads a second of one credential at one replica.

    Args:
        requests: of the credential at the replica, a second.
        changes: of its organization, a second.
    """
    # A request reloads if a change came since the previous one.
    return requests * changes / (requests + changes) if requests + changes else 0.0


def simulate_reloads(
    replicas: int, credentials: int, requests: float, changes: float, seconds: float, seed: int = 0
) -> Reloads:
    """Simulate one organization.

    Args:
        requests: of each credential, a second, over all replicas.
        changes: of the organization, a second.
    """
    numbers = random.Random(seed)
    rate = requests / replicas
    pairs = [(replica, credential) for replica in range(replicas) for credential in range(credentials)]
    stamps = dict.fromkeys(pairs, 0)
    queue: list[tuple[float, tuple[int, int] | None]] = [(numbers.expovariate(rate), pair) for pair in pairs]
    queue.append((numbers.expovariate(changes), None))
    heapq.heapify(queue)
    revision = total = reloads = 0
    while queue[0][0] < seconds:
        at, pair = queue[0]
        if pair is None:
            revision += 1
        else:
            total += 1
            reloads += stamps[pair] != revision
            stamps[pair] = revision
        heapq.heapreplace(queue, (at + numbers.expovariate(changes if pair is None else rate), pair))
    return Reloads(total, reloads, expected_reloads(rate, changes) * len(pairs) * seconds)


@dataclass(frozen=True)
class Backlog:
    """Entries that are not sealed, and the longest time until one is."""

    entries: int
    seconds: float


def simulate_sealer(
    writes: float, sealed: float, seconds: float, *, interval: float = 0.1, burst: float = 1.0, seed: int = 0
) -> Backlog:
    """Return the largest backlog of a sealer that runs every `interval` seconds.

    Args:
        writes: entries a second.
        sealed: entries that it seals a second while it runs.
        burst: 1 to 2: in the second half of each minute, so many times as many entries come as on average.
    """
    finished, largest, waiting = 0.0, Backlog(0, 0.0), list[float]()
    entries = _entries(writes, burst, random.Random(seed))
    entry, tick = next(entries), interval
    while tick < seconds:
        while entry < tick:
            waiting.append(entry)
            entry = next(entries)
        if tick >= finished and waiting:
            finished = tick + len(waiting) / sealed
            largest = Backlog(max(largest.entries, len(waiting)), max(largest.seconds, finished - waiting[0]))
            waiting = []
        tick += interval
    return largest


def _entries(writes: float, burst: float, numbers: random.Random) -> Iterator[float]:
    """Yield the instants of entries, `burst` times as many in each second half minute as on average."""
    at = 0.0
    while True:
        at += numbers.expovariate(writes * burst)
        if at % 60 >= 30 or numbers.random() * burst < 2 - burst:
            yield at
