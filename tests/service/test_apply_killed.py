"""An apply that is killed (-9) at any statement: no tag is lost or set twice, and the counts are right."""

import asyncio
import itertools
import multiprocessing
import os
import random
import signal
from collections.abc import Callable

import pytest
from sqlalchemy import event

from service.db.engine import Database
from tests.service.audited import audited
from tests.service.tagged import DEFAULTS, Tagged, every_sort

pytestmark = pytest.mark.slow

BATCH_SIZE = 20
LONGEST_SECONDS = 60
"""The limit of a run on a busy machine as well; it takes less than one second."""


def carry(tagged: Tagged, run_id: str) -> None:
    """Take a run to its end; one that does not end fails the test."""

    async def bounded() -> None:
        async with asyncio.timeout(LONGEST_SECONDS):
            await tagged.applying.run(run_id)

    asyncio.run(bounded())


def inventory(database: Database) -> Tagged:
    """A tenant with resources of every sort, whose apply takes some forty batches."""
    tagged = Tagged(database, BATCH_SIZE)
    tagged.many(150)
    tagged.many(70, "volume", tags={"env": "dev"})
    tagged.many(30, "bucket", tags=DEFAULTS)
    tagged.many(30, state="building")
    every_sort(tagged)
    return tagged


def on_each_statement(database: Database, do: Callable[[], object]) -> None:
    def notice(*_: object, **__: object) -> None:
        do()

    event.listen(database.engine, "before_cursor_execute", notice)
    event.listen(database.engine, "commit", notice)


def statements_of_a_run(tagged: Tagged) -> int:
    """Return the number of statements and commits of a whole run, counted on an engine of its own."""
    database = audited(tagged.database.engine.url.render_as_string(hide_password=False))
    numbers = itertools.count()
    on_each_statement(database, lambda: next(numbers))
    other = inventory(tagged.database)
    run_id = other.planned()
    other.database = database
    carry(other, run_id)
    database.close()
    return next(numbers)


def run_until_killed(url: str, size: int, run_id: str, statement: int) -> None:
    """Execute the run in a process that kills itself before its n-th statement or commit."""
    database = audited(url)
    numbers = itertools.count(1)

    def count() -> None:
        if next(numbers) == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    on_each_statement(database, count)
    shell = object.__new__(Tagged)
    shell.database, shell.size = database, size
    carry(shell, run_id)
    os._exit(0)


def kill_and_go_on(tagged: Tagged, statement: int) -> None:
    before = tagged.all_rows()
    run_id = tagged.planned()
    url = tagged.database.engine.url.render_as_string(hide_password=False)
    tagged.database.close()
    child = multiprocessing.get_context("fork").Process(
        target=run_until_killed, args=(url, tagged.size, run_id, statement), daemon=True
    )
    child.start()
    try:
        child.join(LONGEST_SECONDS)
        assert child.exitcode == -signal.SIGKILL, f"the run was not killed before statement {statement}"
    finally:
        # A child that goes on would keep the interpreter from ending after the test has failed.
        child.kill()
        child.join()
    tagged.is_all_or_none(before, run_id)
    carry(tagged, run_id)
    tagged.is_all_or_none(before, run_id)
    row = tagged.operation(run_id)
    assert row["status"] == "completed"
    result, expected = row["result"], tagged.expected(before)
    for kind, counts in result["byType"].items():
        expected_counts = dict(expected.get(kind, {}))
        assert {name: number for name, number in counts.items() if number and name != "examined"} == expected_counts
    assert len(tagged.remembered(run_id)) == result["summary"]["updated"]
    again = tagged.applied()
    assert again["summary"]["updated"] == 0
    assert again["summary"]["failed"] == result["summary"]["failed"]
    assert tagged.audited() == [("platform", "default_tags.apply.complete", "done")] * 2


def test_killed_at_200_random_points_an_apply_goes_on_where_it_was(database: Database) -> None:
    total = statements_of_a_run(inventory(database))
    for statement in random.Random().choices(range(1, total), k=200):
        try:
            kill_and_go_on(inventory(database), statement)
        except AssertionError as error:
            error.add_note(f"killed before statement {statement} of {total}")
            raise
