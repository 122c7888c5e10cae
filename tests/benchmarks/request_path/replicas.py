"""Two replicas beside one on PostgreSQL: processor time, waits for locks and context switches for each request."""

import statistics
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

import psycopg

from tests.benchmarks import wrk
from tests.benchmarks.processors import CORES, SERVER, context_switches, cpu_seconds, cpu_seconds_with_children, pin
from tests.benchmarks.ratios import Line
from tests.benchmarks.request_path.resource_loads import reads, renames
from tests.benchmarks.samples import CONNECTIONS, warm_up
from tests.benchmarks.servers import Platform, Store, share_secret, store
from tests.benchmarks.settings import POSTGRESQL, settings
from tests.benchmarks.wrk import Load

MAX_RATIO = 1.1
SCALING_GOAL, SCALING_CORES = 1.6, 4
SAMPLE_SECONDS = 0.005
LOCK_WAIT_RESOLUTION = 50
"""Microseconds a request. Samples of waits tell no smaller times apart."""
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type IN ('Lock', 'LWLock')"
)


@dataclass(frozen=True)
class Cost:
    """Of one request, in microseconds but for the rate and the switches."""

    rate: float
    cpu: float
    database_cpu: float
    lock_wait: float
    switches: float


def run() -> Iterator[Line]:
    if POSTGRESQL not in settings.databases or not wrk.is_installed():
        return
    with store(POSTGRESQL) as database, ExitStack() as stack:
        first = stack.enter_context(Platform(database))
        second = Platform(database)
        share_secret(first, second)
        stack.enter_context(second)
        both = (first, second)
        for what, load in (("reads", reads(first)), ("writes", renames(first))):
            for replica in both:
                warm_up(load, replica.server)
            pairs = [(measure(load, database, both), measure(load, database, both[:1])) for _ in range(settings.rounds)]
            yield from lines(what, pairs)
            if len(CORES) < SCALING_CORES:
                print(f"skipped: the rate of two replicas needs {SCALING_CORES} cores, this machine has {len(CORES)}")
                continue
            pin(first.server.pid, CORES[2:3])
            pairs = [(measure(load, database, both), measure(load, database, both[:1])) for _ in range(settings.rounds)]
            ratio = statistics.median(two.rate / one.rate for two, one in pairs)
            yield Line(f"{what} a second, two replicas", ratio, SCALING_GOAL, "one", is_least=True)
            pin(first.server.pid, SERVER)


def lines(what: str, pairs: Sequence[tuple[Cost, Cost]]) -> Iterator[Line]:
    for name, text, least in (
        ("cpu", "processor time", 1),
        ("database_cpu", "processor time of PostgreSQL", 1),
        ("lock_wait", "waits for locks", LOCK_WAIT_RESOLUTION),
    ):
        values = [(getattr(two, name), getattr(one, name)) for two, one in pairs]
        figures = (statistics.median(pair[side] for pair in values) for side in (0, 1))
        yield Line(
            f"{what}, two replicas: {text}",
            statistics.median(max(two, least) / max(one, least) for two, one in values),
            MAX_RATIO,
            f"one replica: {' beside '.join(f'{figure:,.0f}' for figure in figures)} us a request",
        )
    switches = statistics.median(two.switches for two, _ in pairs), statistics.median(one.switches for _, one in pairs)
    yield Line(
        f"{what}, two replicas: context switches",
        switches[0] / switches[1],
        MAX_RATIO,
        f"one replica: {switches[0]:.1f} beside {switches[1]:.1f} a request",
    )


def measure(load: Load, database: Store, replicas: Sequence[Platform]) -> Cost:
    """Put a load on replicas, which share the connections."""
    assert database.url
    assert database.postgres
    url = database.url
    servers = [replica.server for replica in replicas]
    # Each wrk sends numbers of its own.
    loads = [replace(load, first=load.first + 50_000_000 * place, acknowledged=0) for place in range(len(servers))]
    before = [(cpu_seconds(server.pid), sum(context_switches(server.pid))) for server in servers]
    database_before = cpu_seconds_with_children(database.postgres)
    over, waiting = threading.Event(), []

    def watch() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not over.wait(SAMPLE_SECONDS):
                waiting.append(connection.execute(WAITING).fetchone()[0])  # type: ignore[index]

    with ThreadPoolExecutor(len(servers) + 1) as threads:
        watching = threads.submit(watch)
        sending = [
            threads.submit(one.send, server.port, CONNECTIONS // len(servers))
            for one, server in zip(loads, servers, strict=True)
        ]
        try:
            results = [one.result() for one in sending]
        finally:
            over.set()
        watching.result()
    load.first = loads[0].first
    answered = sum(result.answered for result in results)
    after = [(cpu_seconds(server.pid), sum(context_switches(server.pid))) for server in servers]
    cpu, switches = (sum(now[i] - then[i] for now, then in zip(after, before, strict=True)) for i in (0, 1))
    waits = statistics.fmean(waiting) * results[0].seconds
    spent = cpu_seconds_with_children(database.postgres) - database_before
    return Cost(
        sum(result.rate for result in results),
        cpu / answered * 1e6,
        spent / answered * 1e6,
        waits / answered * 1e6,
        switches / answered,
    )
