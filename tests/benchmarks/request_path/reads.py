"""Reading one resource with an API key, beside a bare FastAPI route that returns the same JSON to anybody."""

from collections.abc import Iterator

from tests.benchmarks import wrk
from tests.benchmarks.ratios import Line
from tests.benchmarks.request_path.resource_loads import bare_reads, instances, reads
from tests.benchmarks.samples import beside
from tests.benchmarks.servers import Platform, bare, stores
from tests.benchmarks.settings import POSTGRESQL, SQLITE

GOALS = {SQLITE: 0.6, POSTGRESQL: 0.4}


def run() -> Iterator[Line]:
    if not wrk.is_installed():
        return
    for store in stores():
        with Platform(store) as platform, bare(answer := instances(platform, 1)[0]) as other:
            ours, theirs = (reads(platform), platform.server), (bare_reads(answer), other)
            yield beside(f"reads with a key ({store.name})", ours, theirs, GOALS[store.name], "a bare route")
