"""More connections and more cores for one platform: 64 connections beside 8, 8 beside 1, and two cores beside one."""

from collections.abc import Iterator
from functools import partial

from tests.benchmarks.processors import CORES, SERVER, pin
from tests.benchmarks.ratios import Line
from tests.benchmarks.request_path.resource_loads import reads, renames
from tests.benchmarks.samples import Sample, compare, take, warm_up
from tests.benchmarks.servers import Platform, platforms
from tests.benchmarks.settings import POSTGRESQL, SQLITE
from tests.benchmarks.wrk import Load

PAIRS = ((64, 8), (8, 1))
GOALS = {(64, SQLITE): 1.0, (64, POSTGRESQL): 1.0, (8, SQLITE): 1.0, (8, POSTGRESQL): 1.3}
TWO_CORES_GOAL = 1.0


def run() -> Iterator[Line]:
    for name, platform in platforms():
        for what, load in (("reads", reads(platform)), ("writes", renames(platform))):
            warm_up(load, platform.server)
            for more, fewer in PAIRS:
                many, few = (partial(take, load, platform.server, number) for number in (more, fewer))
                against = f"{fewer} connection{'s' if fewer > 1 else ''}"
                yield compare(f"{what}, {more} connections ({name})", many, few, GOALS[more, name], against)
            if len(CORES) < 2:
                print("skipped: this machine has one core")
            elif what == "reads":
                two, one = (partial(take_on, load, platform, cores) for cores in (frozenset(CORES[:2]), SERVER))
                against = "one core; the load is on the second"
                yield compare(f"reads, two cores for the platform ({name})", two, one, TWO_CORES_GOAL, against)


def take_on(load: Load, platform: Platform, cores: frozenset[int]) -> Sample:
    server = platform.server
    pin(server.pid, cores)
    return take(load, server)
