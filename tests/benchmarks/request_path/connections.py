"""More connections and more cores for one platform: 64 connections beside 8, 8 beside 1, and two cores beside one."""

from collections.abc import Iterator
from functools import partial

from tests.benchmarks import wrk
from tests.benchmarks.processors import CORES, SERVER, pin
from tests.benchmarks.ratios import Line
from tests.benchmarks.request_path.resource_loads import reads, renames
from tests.benchmarks.samples import Sample, compare, take, warm_up
from tests.benchmarks.servers import Platform, stores
from tests.benchmarks.settings import POSTGRESQL, SQLITE
from tests.benchmarks.wrk import Load

PAIRS = ((64, 8), (8, 1))
GOALS = {(64, SQLITE): 1.0, (64, POSTGRESQL): 1.0, (8, SQLITE): 1.0, (8, POSTGRESQL): 1.3}
TWO_CORES_GOAL = 1.0


def run() -> Iterator[Line]:
    if not wrk.is_installed():
        return
    for store in stores():
        with Platform(store) as platform:
            for what, load in (("reads", reads(platform)), ("writes", renames(platform))):
                warm_up(load, platform.server)
                for more, fewer in PAIRS:
                    yield compare(
                        f"{what}, {more} connections ({store.name})",
                        partial(take, load, platform.server, more),
                        partial(take, load, platform.server, fewer),
                        GOALS[more, store.name],
                        f"{fewer} connection{'s' if fewer > 1 else ''}",
                    )
                if len(CORES) < 2:
                    print("skipped: this machine has one core")
                elif what == "reads":
                    yield compare(
                        f"reads, two cores for the platform ({store.name})",
                        partial(take_on, load, platform, frozenset(CORES[:2])),
                        partial(take_on, load, platform, SERVER),
                        TWO_CORES_GOAL,
                        "one core; the load is on the second",
                    )


def take_on(load: Load, platform: Platform, cores: frozenset[int]) -> Sample:
    """Put a load on a platform that may use these cores."""
    server = platform.server
    pin(server.pid, cores)
    return take(load, server)
