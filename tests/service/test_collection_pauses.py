"""Pauses of the garbage collector, in processes of their own: the collector is global."""

import subprocess
import sys
from pathlib import Path

import pytest

START = """
import gc
from service.http_server.collection_pauses import REVISIT_SECONDS, CollectionPauses

class Cycle:
    alive = 0
    def __init__(self):
        self.self = self
        Cycle.alive += 1
    def __del__(self):
        Cycle.alive -= 1

now = 0.0
pauses = CollectionPauses(clock=lambda: now)
pauses.start()
"""


PROGRAMS = {
    "survivors of a full collection are frozen": """
documents = [[number] for number in range(10_000)]
gc.collect()
assert gc.get_freeze_count() > 10_000
assert len(gc.get_objects(generation=2)) < 1_000
""",
    "a reference count frees frozen objects": """
documents = [[number] for number in range(10_000)]
gc.collect()
before = gc.get_freeze_count()
del documents
assert gc.get_freeze_count() <= before - 10_000
""",
    "a frozen cycle is freed after the interval": """
cycle = Cycle()
gc.collect()
del cycle
gc.collect()
assert Cycle.alive == 1
now = REVISIT_SECONDS
gc.collect()
assert Cycle.alive == 0
""",
    "new cycles are freed by each full collection": """
gc.collect()
Cycle()
gc.collect()
assert Cycle.alive == 0
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_long_lived_objects_are_visited_rarely(name: str) -> None:
    program = START + PROGRAMS[name]
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, cwd=Path(__file__).parents[2])
