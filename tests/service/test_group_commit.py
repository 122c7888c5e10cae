"""Group commit on SQLite: changes that wait at the same time share one commit and fail each for itself."""

import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from service.audit import entries, seals, verification
from service.audit.entries import AuditEvent
from service.db.dialect import Busy, is_lock_timeout, is_read_only_or_full
from service.db.engine import Database
from service.db.group_commit import MIN_LOCK_MILLISECONDS, GroupCommit
from service.db.prepared import PreparedStatements
from service.db.sqlite import BUSY_SECONDS
from service.db.tables import audit_log, memberships, platform_state
from service.principal import PLATFORM
from tests.service.audited import SECRET, audited
from tests.waiting import until

Body = Callable[[Connection], None]
TIMEOUT_SECONDS = 60
CHANGE = ("SAVEPOINT", "RELEASE")


class Group:
    """Changes that wait for a first one, on a database whose transactions are recorded."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = audited(url)
        self.transactions: list[str] = []
        """The statements BEGIN, SAVEPOINT, ROLLBACK TO, RELEASE, COMMIT and ROLLBACK, and the names of ended calls."""
        event.listen(self.database.engine, "connect", lambda driver, _: driver.set_trace_callback(self._record))
        self.database.engine.dispose()
        self.on_statement: Callable[[str], None] = lambda _: None
        self.now = 0.0
        self.threads = ThreadPoolExecutor(32)

    def _record(self, statement: str) -> None:
        self.on_statement(statement)
        if statement.startswith(("BEGIN", "SAVEPOINT", "ROLLBACK", "RELEASE", "COMMIT")):
            self.transactions.append(statement.removesuffix(" frost_change").removesuffix(" IMMEDIATE"))

    def limit(self, **limits: Any) -> None:
        self.database.group_commit = GroupCommit(
            self.database.engine, PreparedStatements(self.database.engine.dialect), **limits
        )

    def run(self, *bodies: Body, bulk: tuple[int, ...] = ()) -> list[Future[None]]:
        """Run changes that wait, in this order, while a first change runs; return when all calls have ended."""
        started, proceed = threading.Event(), threading.Event()
        calls = [self.threads.submit(self.change, partial(hold, started, proceed), "first")]
        assert started.wait(TIMEOUT_SECONDS)
        group_commit = self.database.group_commit
        assert group_commit is not None
        for number, body in enumerate(bodies):
            calls.append(self.threads.submit(self.change, body, str(number), bulk=number in bulk))
            until(lambda number=number: len(group_commit._waiting) == number + 1, TIMEOUT_SECONDS)  # type: ignore[misc]
        self.transactions.clear()
        proceed.set()
        for call in calls:
            call.exception(TIMEOUT_SECONDS)
        return calls[1:]

    def take(self, seconds: float) -> Body:
        """A change that takes so many seconds of a fake clock."""

        def body(_: Connection) -> None:
            self.now += seconds

        return body

    def change(self, body: Body, name: str, *, bulk: bool = False) -> None:
        try:
            with self.database.bulk_write() if bulk else self.database.write() as connection:
                body(connection)
        finally:
            self.transactions.append(f"end {name}")

    @property
    def steps(self) -> list[str]:
        return [step for step in self.transactions if not step.startswith("end")]

    @property
    def values(self) -> dict[str, str]:
        with self.database.read() as connection:
            query = select(platform_state.c.name, platform_state.c.value).order_by(platform_state.c.name)
            return {name: value for name, value in connection.execute(query) if name.startswith("test")}

    def close(self) -> None:
        self.threads.shutdown()
        self.database.close()


@pytest.fixture
def group(new_database_url: Callable[[str, bool], str]) -> Iterator[Group]:
    opened = Group(new_database_url("sqlite", True))
    # The default is milliseconds, which a busy machine exceeds.
    opened.limit(max_seconds=TIMEOUT_SECONDS)
    yield opened
    opened.close()


def hold(started: threading.Event, proceed: threading.Event, _: Connection) -> None:
    started.set()
    assert proceed.wait(TIMEOUT_SECONDS)


def store(name: str, value: str = "") -> Body:
    def body(connection: Connection) -> None:
        connection.execute(insert(platform_state).values(name=f"test {name}", value=value))

    return body


def store_with_entry(name: str) -> Body:
    def body(connection: Connection) -> None:
        store(name)(connection)
        event, at = AuditEvent.TENANT_PROVISION, datetime.now(UTC)
        entries.record(connection, PLATFORM, event=event, target=f"tenant:{name}", at=at)

    return body


def fail(name: str, error: BaseException) -> Body:
    def body(connection: Connection) -> None:
        store(name)(connection)
        raise error

    return body


def names(*numbers: int) -> dict[str, str]:
    return {f"test {number}": "" for number in numbers}


def test_changes_that_wait_are_committed_together_in_their_order(group: Group) -> None:
    group.change(store("0"), "alone")
    assert (group.transactions, group.database.lock_waits) == (["BEGIN", "COMMIT", "end alone"], 0)
    rows: list[int] = []

    def count(connection: Connection) -> None:
        rows.append(len(connection.execute(select(platform_state.c.name)).all()))

    calls = group.run(count, store("1"), fail("2", ZeroDivisionError()), store("3"), count)
    assert [type(call.exception()) is ZeroDivisionError for call in calls] == [False, False, True, False, False]
    assert rows[1] == rows[0] + 2, "a change sees the earlier ones of its group"
    # No change returns before the commit.
    at = group.transactions.index("COMMIT")
    assert group.transactions[:at] == [*CHANGE * 2, "SAVEPOINT", "ROLLBACK TO", "RELEASE", *CHANGE * 2]
    assert sorted(group.transactions[at + 1 :]) == [*(f"end {number}" for number in range(5)), "end first"]
    assert (group.values, group.database.lock_waits) == (names(0, 1, 3), 5)


def test_a_full_group_and_a_bulk_change_begin_another_transaction(group: Group) -> None:
    group.run(store("0"), store("1"), store("2"), bulk=(1,))
    assert group.steps == [*CHANGE, "COMMIT", "BEGIN", "COMMIT", "BEGIN", "COMMIT"]
    assert group.values == names(0, 1, 2)
    group.limit(max_changes=2, max_seconds=TIMEOUT_SECONDS)
    group.run(*(store(str(number)) for number in range(3, 7)))
    assert group.steps == [*CHANGE, "COMMIT", "BEGIN", *CHANGE, "COMMIT", "BEGIN", "COMMIT"]


def test_an_old_group_takes_no_further_change(group: Group) -> None:
    group.limit(max_seconds=5, clock=lambda: group.now, sleep=lambda _: None)
    group.run(store("0"), group.take(6), store("2"))
    assert group.steps == [*CHANGE, *CHANGE, "COMMIT", "BEGIN", "COMMIT"]


@pytest.mark.parametrize(
    ("commit_seconds", "commits"), [(0, 5), (0.01, 3), (0.02, 2), (10, 2)], ids=["fast", "slow", "slower", "limit"]
)
def test_a_group_grows_older_where_commits_are_slow(group: Group, commit_seconds: float, commits: int) -> None:
    def commit_slowly(statement: str) -> None:
        group.now += commit_seconds if statement == "COMMIT" else 0

    group.limit(clock=lambda: group.now, sleep=lambda _: None)
    group.on_statement = commit_slowly
    group.change(store("0"), "0")
    group.run(*[group.take(0.03)] * 5)
    assert group.transactions.count("COMMIT") == commits


def test_other_processes_get_a_pause_between_groups(group: Group) -> None:
    pauses: list[float] = []
    group.limit(max_changes=1, clock=lambda: group.now, sleep=pauses.append)
    group.run(group.take(0.5), group.take(20), store("2"))
    # The first change takes no time.
    assert pauses == pytest.approx([0.05, 0.1])


def roll_back(name: str) -> Body:
    def body(connection: Connection) -> None:
        store(name)(connection)
        connection.rollback()

    return body


def roll_back_to_savepoint(name: str) -> Body:
    def body(connection: Connection) -> None:
        store(name)(connection)
        with suppress(IntegrityError), connection.begin_nested():
            store(f"{name} again")(connection)
            store(name)(connection)

    return body


@pytest.mark.slow
def test_a_change_that_fails_or_rolls_back_undoes_only_itself(group: Group) -> None:
    chance, expected, left = random.Random(5), set[str](), list[Connection]()
    for number in range(30):
        bodies: list[Body] = [left.append]
        errors: list[BaseException | None] = [None]
        for name in (f"{number} {each}" for each in range(chance.randint(1, 5))):
            error = chance.choice((None, ZeroDivisionError(), KeyboardInterrupt(), SystemExit()))
            stores = chance.choice((store, roll_back, roll_back_to_savepoint))
            bodies.append(fail(name, error) if error else stores(name))
            errors.append(error)
            if not error and stores is not roll_back:
                expected.add(f"test {name}")
        chance.shuffle(order := [*range(len(bodies))])
        group.limit(max_changes=chance.choice((1, 3, 100)), max_seconds=TIMEOUT_SECONDS)
        calls = group.run(*(bodies[each] for each in order))
        assert [call.exception() for call in calls] == [errors[each] for each in order]
    assert set(group.values) == expected
    with pytest.raises(Exception, match="closed"):
        left[0].execute(select(platform_state))


def test_a_result_that_is_not_read_to_its_end_stops_no_later_change(group: Group) -> None:
    """Its cursor would keep the snapshot open, and BEGIN IMMEDIATE fails on a snapshot that is not the newest."""
    results: list[Any] = []
    with group.database.write() as connection:
        connection.execute(insert(platform_state), [{"name": f"row {row}", "value": ""} for row in range(500)])

    def read_a_row(connection: Connection) -> None:
        results.append(connection.execute(select(platform_state)))
        assert results[-1].fetchone()

    for _ in range(3):
        group.change(read_a_row, "1")
        other = sqlite3.connect(group.url.removeprefix("sqlite:///"))
        with other:
            other.execute("UPDATE platform_state SET value = value || '.'")
        other.close()
    group.change(store("last"), "2")
    assert "test last" in group.values


def violate_at_commit(connection: Connection) -> None:
    connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
    values = {"user_id": "none", "organization_id": "none", "role": "owner", "created_at": datetime.now(UTC)}
    connection.execute(insert(memberships).values(values))


def test_a_commit_that_fails_fails_all_changes_of_its_group(group: Group) -> None:
    calls = group.run(store("0"), fail("1", ZeroDivisionError()), violate_at_commit, store("3"))
    assert [type(call.exception()) for call in calls] == [IntegrityError] * 4
    assert group.values == {}
    group.change(store("4"), "4")
    assert group.values == names(4)


def fill(connection: Connection) -> None:
    """Write until SQLite finds no room, and rolls the transaction back by itself."""
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    for number in range(100):
        store(f"full {number}", "." * 4000)(connection)


def require_errors(calls: list[Future[None]], kind: type[Exception], is_expected: Callable[[Any], bool]) -> None:
    errors = [call.exception() for call in calls]
    assert all(isinstance(error, kind) and is_expected(error) for error in errors), errors


def test_a_full_disk_fails_all_changes_of_the_group(group: Group) -> None:
    *failed, last = group.run(store("0"), fail("1", ZeroDivisionError()), fill, store("3"))
    require_errors(failed, DBAPIError, is_read_only_or_full)
    # It had another transaction, in which there was room.
    assert last.exception() is None
    assert group.values == names(3)


@pytest.mark.parametrize("is_full", [True, False])
@pytest.mark.parametrize("goes_on", [True, False])
def test_nothing_is_committed_of_a_transaction_that_was_rolled_back(group: Group, is_full: bool, goes_on: bool) -> None:
    def body(connection: Connection) -> None:
        if is_full:
            with suppress(OperationalError):
                fill(connection)
        else:
            connection.exec_driver_sql("ROLLBACK")
        if goes_on:
            store("half")(connection)

    with pytest.raises(OperationalError, match="full" if is_full else None):
        group.change(body, "0")
    require_errors(group.run(store("0"), body), OperationalError, lambda _: True)
    assert group.values == {}


@contextmanager
def failing_begins(group: Group, seconds: float) -> Iterator[list[int]]:
    """Each BEGIN waits for 0.1 s at most, and takes some seconds of a fake clock. Yields the allowed milliseconds."""
    limits: list[int] = []

    def note(context: Any) -> None:
        driver = context.connection.connection.driver_connection
        limits.append(driver.execute("PRAGMA busy_timeout").fetchone()[0])
        group.now += seconds

    engine = group.database.engine
    event.listen(engine, "connect", lambda driver, _: driver.execute("PRAGMA busy_timeout = 100"))
    engine.dispose()
    event.listen(engine, "handle_error", note)
    group.now = 1.0
    yield limits


@contextmanager
def other_process(group: Group) -> Iterator[sqlite3.Connection]:
    with closing(
        sqlite3.connect(group.url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False)
    ) as connection:
        yield connection


def test_changes_that_waited_while_another_process_had_the_lock_fail_without_another_wait(group: Group) -> None:
    with other_process(group) as other, failing_begins(group, BUSY_SECONDS) as limits:

        def take_lock(_: float) -> None:
            if not other.in_transaction:
                other.execute("BEGIN IMMEDIATE")

        def tick() -> float:
            group.now += 0.01
            return group.now

        # The other process takes the lock in the pause between two groups.
        group.limit(max_changes=1, sleep=take_lock, clock=tick)
        require_errors(group.run(*(store(str(number)) for number in range(8))), DBAPIError, is_lock_timeout)
        other.rollback()
    assert limits == [100, *[MIN_LOCK_MILLISECONDS] * 7]
    group.change(store("8"), "8")
    assert group.values == names(8)


def test_a_change_that_comes_while_another_one_waits_for_the_lock_has_one_bound(group: Group) -> None:
    """It was queued 9.9 s before the other one failed, so 0.1 s are left, and not another 10 s."""
    late: list[Future[None]] = []

    def begin_late(_: Connection, __: Any, statement: str, *rest: Any) -> None:
        if statement == "BEGIN IMMEDIATE" and not late:
            group.now += 1
            late.append(group.threads.submit(group.change, store("late"), "late"))
            waiting = group.database.group_commit._waiting  # type: ignore[union-attr]
            until(lambda: len(waiting) == 1, TIMEOUT_SECONDS)

    with other_process(group) as other, failing_begins(group, BUSY_SECONDS - 0.1) as limits:
        group.limit(sleep=lambda _: None, clock=lambda: group.now)
        event.listen(group.database.engine, "before_cursor_execute", begin_late)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperationalError, match="locked"):
            group.change(store("first"), "first")
        assert isinstance(late[0].exception(TIMEOUT_SECONDS), OperationalError)
        other.rollback()
    assert limits == [100, pytest.approx(100, abs=1)]
    assert group.values == {}


def test_each_change_of_a_group_has_its_entry_and_the_chain_is_valid(group: Group) -> None:
    def fail_with_entry(connection: Connection) -> None:
        store_with_entry("1")(connection)
        raise ZeroDivisionError

    with group.database.write() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER refuse BEFORE INSERT ON audit_log WHEN NEW.target = 'tenant:2'"
            " BEGIN SELECT RAISE(ABORT, 'no entry'); END"
        )
    calls = group.run(store_with_entry("0"), fail_with_entry, store_with_entry("2"), store_with_entry("3"))
    assert [type(call.exception()) for call in calls] == [type(None), ZeroDivisionError, IntegrityError, type(None)]
    assert group.values == names(0, 3)
    with group.database.read() as connection:
        targets = connection.scalars(select(audit_log.c.target).order_by(audit_log.c.id)).all()
        verified = verification.verify(connection, seals.key_of(SECRET))
    assert (targets, verified.fault, verified.entries) == (["tenant:0", "tenant:3"], None, 2)


def test_a_change_that_does_not_wait_leaves_the_queue_and_a_nested_one_is_refused(group: Group) -> None:
    def require_busy() -> None:
        with pytest.raises(Busy), group.database.write_without_waiting():
            raise AssertionError("two transactions at once")

    def try_to_change(connection: Connection) -> None:
        with pytest.raises(RuntimeError, match="in a write transaction"):
            group.change(store("inner"), "inner")
        require_busy()
        group.threads.submit(require_busy).result(TIMEOUT_SECONDS)
        store("0")(connection)

    assert [call.exception() for call in group.run(try_to_change, store("1"))] == [None, None]
    with group.database.write_without_waiting() as connection:
        store("2")(connection)
    assert group.values == names(0, 1, 2)
    with group.database.write() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 10_000


def test_many_changes_of_two_processes_and_their_failures(group: Group) -> None:
    """Two engines stand in for two processes. Each change adds one; every third fails afterwards."""
    group.limit()
    with group.database.write() as connection:
        store("sum", "0")(connection)
    other = Database(group.url)
    total = platform_state.c.name == "test sum"

    def add(number: int) -> None:
        with suppress(ZeroDivisionError), (other if number % 10 == 0 else group.database).write() as connection:
            value = connection.scalar(select(platform_state.c.value).where(total))
            connection.execute(update(platform_state).where(total).values(value=str(int(value or 0) + 1)))
            store(f"of {number}")(connection)
            if number % 3 == 0:
                raise ZeroDivisionError

    list(group.threads.map(add, range(300)))
    other.close()
    expected = {f"test of {number}": "" for number in range(300) if number % 3}
    assert group.values == expected | {"test sum": "200"}
