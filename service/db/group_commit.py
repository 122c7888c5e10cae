"""Group commit on SQLite: changes that wait at the same time share one transaction and one sync of the disk.

The changes of a process take turns, in the order of their arrival. A change that ends while another one waits hands
the open transaction over instead of committing it, and waits. Each further change runs in a savepoint, so that its
failure undoes nothing else. The last one commits for the group. A change returns after the COMMIT; a refused or failed
change too, because it may have read changes of the group. If the COMMIT fails, or SQLite rolls the transaction back by
itself (disk full, I/O error), all changes of the group fail with the same error.

For SQLAlchemy each change is a transaction on a connection of its own, with `begin`, `commit` and `rollback` events.
So listeners write in the savepoint of their change.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, event

from service.db import sqlite
from service.db.change_thread import current_call
from service.db.dialect import Busy
from service.db.prepared import PreparedConnection, PreparedStatements
from service.db.sqlite import BUSY_SECONDS, SAVEPOINT, Change, ChangeGroup, record_lost_transaction
from service.db.storage import SqliteFiles

MAX_GROUP_CHANGES = 64
# Measured from BEGIN. Limits how long a change that has ended waits for others. On a slow disk or a busy machine the
# limit is some times the last commit, because small groups would spend most of their time with commits.
MAX_GROUP_SECONDS = 0.01
MAX_GROUP_COMMITS = 4
MAX_SLOW_GROUP_SECONDS = 0.1
# The pause between two groups while changes wait, of the time of the first group. SQLite has no queue for its write
# lock: other processes poll for it, and would hardly ever find it free.
PAUSE_SHARE = 0.1
# SQLite polls at least that often.
MAX_PAUSE_SECONDS = 0.1
# Of a change whose time is over: the lock may be free again.
MIN_LOCK_MILLISECONDS = 1


class GroupCommit:
    """The write transactions of a process.

    Args:
        files: of the database.
        max_seconds: the age of a group after which it takes no further change; higher if commits are slow.
        clock: seconds, for the age of groups.
        sleep: waits for the given seconds, between groups.
    """

    waits: int
    """How often a change waited for another one."""

    def __init__(
        self,
        engine: Engine,
        statements: PreparedStatements,
        files: SqliteFiles | None = None,
        max_changes: int = MAX_GROUP_CHANGES,
        max_seconds: float = MAX_GROUP_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._engine = engine
        self._statements = statements
        self._files = files
        self._first_engine = sqlite.begin_with(engine, "BEGIN IMMEDIATE")
        self._later_engine = sqlite.begin_with(engine, f"SAVEPOINT {SAVEPOINT}")
        self._max_changes = max_changes
        self._max_seconds = max_seconds
        self._clock = clock
        self._sleep = sleep
        self._mutex = threading.Lock()
        self._waiting: deque[Change] = deque()
        self._running: Change | None = None
        self._commit_seconds = 0.0
        self._closed_at = 0.0
        """When the last group ended."""
        self._pause_seconds = 0.0
        self._locked_since: float | None = None
        """Since when another process has the write lock, if the last BEGIN timed out."""
        self.waits = 0
        event.listen(engine, "handle_error", record_lost_transaction)

    @contextmanager
    def transaction(self, *, alone: bool = False, timeout_milliseconds: int | None = None) -> Iterator[Connection]:
        """Run a change; return after its commit.

        Args:
            alone: share the transaction with no other change, because this one takes long.
            timeout_milliseconds: how long to wait for other changes, and then for other processes.

        Raises:
            Busy: other changes of this process did not end within the timeout.
            RuntimeError: this thread is in a write transaction.
        """
        change = Change(alone=alone, end=self._end, abort=self._abort)
        try:
            self._wait_for_turn(change, timeout_milliseconds)
            if change.group is None:
                change.is_first = True
                limit = self._remaining_milliseconds(change) if timeout_milliseconds is None else timeout_milliseconds
                change.join(ChangeGroup(self._engine, self._clock(), limit, self._files))
            engine = self._first_engine if change.is_first else self._later_engine
            with PreparedConnection(engine, self._statements, change) as connection, connection.begin():
                change.has_begun = True
                yield connection
        finally:
            self._give_back(change)

    def is_running_here(self) -> bool:
        """Return whether this thread runs a change."""
        running = self._running
        return running is not None and running.runner == (current_call() or threading.get_ident())

    def _wait_for_turn(self, change: Change, timeout_milliseconds: int | None) -> None:
        with self._mutex:
            if self._running is None:
                self._running = change
                has_waited = 0 < change.queued_at <= self._closed_at
                is_queued = False
            else:
                if self._running.runner == change.runner:
                    if timeout_milliseconds is not None:
                        raise Busy
                    raise RuntimeError("this thread is in a write transaction; a second one would wait for it forever")
                self.waits += 1
                change.queued_at = change.queued_at or self._clock()
                self._waiting.append(change)
                has_waited = is_queued = True
        if is_queued:
            self._wait_in_queue(change, timeout_milliseconds)
        if has_waited and change.group is None and self._pause_seconds:
            self._sleep(self._pause_seconds)

    def _wait_in_queue(self, change: Change, timeout_milliseconds: int | None) -> None:
        if not change.signal.wait(None if timeout_milliseconds is None else timeout_milliseconds / 1000):
            with self._mutex:
                if change in self._waiting:
                    raise Busy
            # Its turn came at the last moment.
            change.signal.wait()

    def _remaining_milliseconds(self, change: Change) -> int | None:
        """Return how long the BEGIN of a change may wait for another process; None for the default.

        A change that was queued while a BEGIN timed out has waited for the same lock, and has only the rest.
        """
        if self._locked_since is None or not change.queued_at:
            return None
        waited = self._clock() - max(change.queued_at, self._locked_since)
        return max(MIN_LOCK_MILLISECONDS, int((BUSY_SECONDS - waited) * 1000))

    def _end(self, change: Change) -> None:
        """Hand the transaction of an ended change to the next one, or commit it. Return after its commit.

        Raises:
            sqlite3.Error: the group was not committed.
        """
        group, change.has_ended = change.open_group, True
        group.changes.append(change)
        if not self._waiting and (call := current_call()) is not None:
            call.start_others()
        with self._mutex:
            following = self._next_of(group, change)
            if following is not None:
                self._start(following, group)
        if following is not None:
            change.signal.wait()
        else:
            began = self._clock()
            try:
                group.commit()
            finally:
                self._commit_seconds = self._clock() - began
                self._close(group, change)
        group.require_intact()

    def _abort(self, change: Change) -> None:
        """Roll back the transaction of a failed first change, and start the next change."""
        change.has_ended = True
        self._close(change.open_group, change)

    def _give_back(self, change: Change) -> None:
        """Release the turn of a change that neither committed nor rolled back, or its place in the queue."""
        if change.has_ended:
            return
        with self._mutex:
            if change in self._waiting:
                self._waiting.remove(change)
                return
            if self._running is not change:
                return
            if change.group is None:
                self._start_next()
                return
        change.close()

    def _next_of(self, group: ChangeGroup, change: Change) -> Change | None:
        """Return the waiting change that may join a group. The caller holds the mutex."""
        following = self._waiting[0] if self._waiting else None
        if following is None or change.alone or following.alone or group.error is not None:
            return None
        slow_seconds = min(MAX_GROUP_COMMITS * self._commit_seconds, MAX_SLOW_GROUP_SECONDS)
        is_old = self._clock() - group.opened_at >= max(self._max_seconds, slow_seconds)
        return None if is_old or len(group.changes) >= self._max_changes else following

    def _start(self, following: Change, group: ChangeGroup | None) -> None:
        """Give the first waiting change its turn. The caller holds the mutex."""
        self._waiting.popleft()
        self._running = following
        if group is not None:
            following.join(group)
        following.signal.set()

    def _start_next(self) -> None:
        """Give the first waiting change, if any, a new transaction. The caller holds the mutex."""
        if self._waiting:
            self._start(self._waiting[0], None)
        else:
            self._running = None

    def _close(self, group: ChangeGroup, change: Change) -> None:
        """End a group, and wake its changes and the next one."""
        try:
            group.close()
        finally:
            for ended in group.changes:
                if ended is not change:
                    ended.signal.set()
            with self._mutex:
                if change.has_begun:
                    self._locked_since = None
                elif group.has_timed_out and self._locked_since is None:
                    self._locked_since = group.opened_at
                self._closed_at = self._clock()
                self._pause_seconds = min(PAUSE_SHARE * (self._closed_at - group.opened_at), MAX_PAUSE_SECONDS)
                self._start_next()
