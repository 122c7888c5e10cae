"""Reading one resource with an API key, beside a bare FastAPI route that returns the same JSON to anybody."""

from collections.abc import Iterator

from tests.benchmarks.ratios import Line
from tests.benchmarks.request_path.resource_loads import bare_reads, instances, reads
from tests.benchmarks.samples import beside
from tests.benchmarks.servers import bare, platforms
from tests.benchmarks.settings import POSTGRESQL, SQLITE

GOALS = {SQLITE: 0.6, POSTGRESQL: 0.4}


def run() -> Iterator[Line]:
    for name, platform in platforms():
        with bare(answer := instances(platform, 1)[0]) as other:
            ours, theirs = (reads(platform), platform.server), (bare_reads(answer), other)
            yield beside(f"reads with a key ({name})", ours, theirs, GOALS[name], "a bare route")
