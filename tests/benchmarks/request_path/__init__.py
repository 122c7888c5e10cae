"""The cost of requests: all parts of the request path, or one as `request_path.reads`."""

import importlib
from collections.abc import Iterator

from tests.benchmarks.ratios import Line

PARTS = ("reads", "writes", "decisions", "connections", "replicas", "slow_requests", "checks")


def run() -> Iterator[Line]:
    for part in PARTS:
        yield from importlib.import_module(f"{__name__}.{part}").run()
