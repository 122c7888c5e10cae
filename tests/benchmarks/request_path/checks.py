"""The cost of checking each answer in wrk, on the fastest server: the bare route with and without the checks."""

from collections.abc import Iterator
from functools import partial

from tests.benchmarks import wrk
from tests.benchmarks.ratios import Line
from tests.benchmarks.request_path.resource_loads import bare_reads
from tests.benchmarks.samples import CONNECTIONS, Sample, compare, warm_up
from tests.benchmarks.servers import bare

ANSWER = {"id": "4cbb3c4f-7a6c-4b2e-a9f1-5a3a2d7d9a10", "name": "web-1", "kind": "instance", "tags": {"env": "prod"}}
GOAL = 0.95


def run() -> Iterator[Line]:
    if not wrk.is_installed():
        return
    with bare(ANSWER) as server:
        load = bare_reads(ANSWER)
        warm_up(load, server)

        def take(*, checks: bool) -> Sample:
            before, _ = server.cpu()
            result = load.send(server.port, CONNECTIONS, checks=checks)
            return Sample(result.rate, (server.cpu()[0] - before) / result.answered * 1e6, 0)

        with_checks, without = (partial(take, checks=checks) for checks in (True, False))
        yield compare("a bare route, each answer checked", with_checks, without, GOAL, "no checks")
