"""Pauses of the garbage collector, in a process of their own: the collector is global."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
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
CollectionPauses(clock=lambda: now).start()

# Survivors of a full collection are frozen, and a reference count frees them.
documents = [[number] for number in range(10_000)]
gc.collect()
frozen = gc.get_freeze_count()
assert frozen > 10_000
assert len(gc.get_objects(generation=2)) < 1_000
del documents
assert gc.get_freeze_count() <= frozen - 10_000

# A frozen cycle is freed after the interval, a new one by each full collection.
cycle = Cycle()
gc.collect()
del cycle
Cycle()
gc.collect()
assert Cycle.alive == 1
now = REVISIT_SECONDS
gc.collect()
assert Cycle.alive == 0
"""


def test_long_lived_objects_are_visited_rarely() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60, cwd=Path(__file__).parents[2])
