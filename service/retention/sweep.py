"""Removes the rows that the rules name, hourly, in small batches.

Several replicas may sweep at the same time. Each batch is a transaction that skips locked rows, and a pause follows
that is at least as long, so that other writers get half of the time. A sweep that finds nothing only reads.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select, tuple_

from service.clock import Clock
from service.db.engine import Database
from service.db.revisions import lock_domains
from service.retention.rules import Rule, rules
from service.settings import Retention

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 3_600.0
MIN_PAUSE_SECONDS = 0.05
BATCH_ROWS = 200
QUERIED_BATCHES = 50
"""Number of batches with keys in memory at the same time."""


class RetentionSweep:
    """Call `remove_batch` again after the seconds that it returns."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        settings: Retention,
        *,
        interval: float = SWEEP_SECONDS,
        batch_rows: int = BATCH_ROWS,
        queried_batches: int = QUERIED_BATCHES,
    ) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings
        self._interval = interval
        self._batch_rows = batch_rows
        self._queried_rows = batch_rows * queried_batches
        self._batches: Iterator[bool] = iter(())
        self._running = False

    def remove_batch(self) -> float:
        """Remove the next batch of the sweep, or of a new one; return the seconds until the next batch."""
        began = time.monotonic()
        if not self._running:
            self._batches = self._sweep()
        # After an error the next call begins a new sweep.
        self._running = False
        self._running = next(self._batches, False)
        return max(MIN_PAUSE_SECONDS, time.monotonic() - began) if self._running else self._interval

    def _sweep(self) -> Iterator[bool]:
        """Remove all rows that are due now; yield True after each batch."""
        removed: Counter[str] = Counter()
        for rule in rules(self._settings, self._clock.now()):
            more = True
            while more:
                with self._database.read() as connection:
                    keys = connection.execute(_due(rule).limit(self._queried_rows)).all()
                before = removed[rule.table.name]
                for start in range(0, len(keys), self._batch_rows):
                    with self._database.write() as connection:
                        batch = keys[start : start + self._batch_rows]
                        removed[rule.table.name] += remove(connection, rule, batch)
                    yield True
                # Without progress the rows are locked: the next sweep gets them.
                more = len(keys) == self._queried_rows and removed[rule.table.name] > before
        if removed := +removed:
            logger.info("removed %s", ", ".join(f"{count} {name}" for name, count in removed.items()))


def remove(connection: Connection, rule: Rule, keys: Sequence[Any]) -> int:
    """Remove the rows of these keys that are still due and not locked; return their number."""
    if rule.domain is not None and connection.dialect.name == "postgresql":
        domains = select(rule.domain).where(_is_among(rule, keys)).distinct()
        lock_domains(connection, connection.scalars(domains))
    query = _due(rule).where(_is_among(rule, keys))
    rows = connection.execute(query.with_for_update(skip_locked=True, of=rule.table)).all()
    if rows:
        rule.prepare(connection, rows)
        connection.execute(delete(rule.table).where(_is_among(rule, rows)))
    return len(rows)


def _due(rule: Rule) -> Any:
    return select(*rule.table.primary_key).where(rule.is_due)


def _is_among(rule: Rule, keys: Sequence[Any]) -> ColumnElement[bool]:
    """Return whether a row has one of these primary keys."""
    columns = list(rule.table.primary_key)
    if len(columns) == 1:
        return columns[0].in_([key[0] for key in keys])
    return tuple_(*columns).in_([tuple(key) for key in keys])
