"""Long-lived objects are visited rarely. Tests run in processes of their own: the collector is global."""

import subprocess
import sys
from pathlib import Path

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


def run(program: str) -> None:
    subprocess.run([sys.executable, "-c", START + program], check=True, timeout=60, cwd=Path(__file__).parents[2])


def test_survivors_of_a_full_collection_are_frozen() -> None:
    run("""
documents = [[number] for number in range(10_000)]
gc.collect()
assert gc.get_freeze_count() > 10_000
assert len(gc.get_objects(generation=2)) < 1_000
""")


def test_a_reference_count_frees_frozen_objects() -> None:
    run("""
documents = [[number] for number in range(10_000)]
gc.collect()
before = gc.get_freeze_count()
del documents
assert gc.get_freeze_count() <= before - 10_000
""")


def test_a_frozen_cycle_is_freed_after_the_interval() -> None:
    run("""
cycle = Cycle()
gc.collect()
del cycle
gc.collect()
assert Cycle.alive == 1
now = REVISIT_SECONDS
gc.collect()
assert Cycle.alive == 0
""")


def test_new_cycles_are_freed_by_each_full_collection() -> None:
    run("""
gc.collect()
Cycle()
gc.collect()
assert Cycle.alive == 0
""")
