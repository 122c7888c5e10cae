"""The last use of credentials is gathered in memory and written in batches."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, event, select, update

from service.authn.credential_use import CredentialUse
from service.db import tables
from service.db.batch_writer import BatchWriter
from service.db.engine import Database
from service.principal import Principal
from tests.service import factories

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def of_key(key_id: str, last_used_at: datetime | None = None) -> Principal:
    return Principal(kind="api_key", request_id="r", key_id=key_id, last_used_at=last_used_at)


def of_session(session_id: str, last_used_at: datetime) -> Principal:
    return Principal(kind="session", request_id="r", session_id=session_id, last_used_at=last_used_at)


def stored(database: Database) -> dict[str, datetime | None]:
    keys, sessions = tables.api_keys.c, tables.sessions.c
    with database.read() as connection:
        rows = [*connection.execute(select(keys.id, keys.last_used_at))]
        rows += connection.execute(select(sessions.id, sessions.last_seen_at))
    return dict(map(tuple, rows))


@pytest.fixture
def credentials(database: Database) -> Database:
    """A database with the unused keys k1, k2 and k3, and the session s."""
    keys = [factories.api_key(f"k{number}", NOW) for number in (1, 2, 3)]
    with database.write() as connection:
        factories.add(connection, factories.seat(NOW))
        factories.add(connection, {tables.sessions: factories.session(at=NOW), tables.api_keys: keys})
    return database


@pytest.fixture
def use() -> CredentialUse:
    return CredentialUse()


@pytest.fixture
def writer(credentials: Database, use: CredentialUse) -> BatchWriter:
    return BatchWriter(credentials, [use])


@pytest.fixture
def other(credentials: Database, database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    yield opened
    opened.close()


def test_uses_are_written_with_the_next_batch_in_one_transaction(
    credentials: Database, use: CredentialUse, writer: BatchWriter
) -> None:
    transactions: list[object] = []
    event.listen(credentials.engine, "commit", transactions.append)
    use.record(of_key("k2"), NOW + MINUTE)
    use.record(of_key("k1"), NOW + MINUTE)
    use.record(of_session("s", NOW), NOW + MINUTE)
    assert stored(credentials) == {"k1": None, "k2": None, "k3": None, "s": NOW}
    transactions.clear()
    writer.flush()
    assert len(transactions) == 1
    assert stored(credentials) == {"k1": NOW + MINUTE, "k2": NOW + MINUTE, "k3": None, "s": NOW + MINUTE}
    transactions.clear()
    writer.flush()
    assert transactions == []


def test_a_use_is_gathered_once_a_minute(use: CredentialUse) -> None:
    recent = of_key("k1", NOW - MINUTE + timedelta(seconds=1))
    use.record(recent, NOW)
    assert use.drain() == {}
    for seconds in range(1, 62):
        use.record(recent, NOW + timedelta(seconds=seconds))
        uses = use.drain()
        assert list(uses.values()) == ([NOW + timedelta(seconds=seconds)] if seconds in (1, 61) else [])


def test_a_later_use_of_another_process_remains(credentials: Database, use: CredentialUse, writer: BatchWriter) -> None:
    use.record(of_key("k1"), NOW)
    with credentials.write() as connection:
        connection.execute(update(tables.api_keys).values(last_used_at=NOW + MINUTE))
    writer.flush()
    assert stored(credentials)["k1"] == NOW + MINUTE


def test_a_removed_key_is_no_error_and_is_forgotten(
    credentials: Database, use: CredentialUse, writer: BatchWriter
) -> None:
    for key_id in ("k1", "k2"):
        use.record(of_key(key_id), NOW)
    with credentials.write() as connection:
        connection.execute(delete(tables.api_keys).where(tables.api_keys.c.id == "k1"))
    writer.flush()
    assert stored(credentials) == {"k2": NOW, "k3": None, "s": NOW}
    assert use.drain() == {}


def test_a_locked_key_does_not_delay_the_others_and_is_written_later(
    credentials: Database, other: Database, use: CredentialUse, writer: BatchWriter
) -> None:
    if credentials.kind == "sqlite":
        pytest.skip("SQLite locks no rows")
    for key_id in ("k1", "k2", "k3"):
        use.record(of_key(key_id), NOW)
    with other.write() as connection:
        connection.execute(select(tables.api_keys).where(tables.api_keys.c.id == "k2").with_for_update(read=True))
        writer.flush()
        assert stored(credentials) == {"k1": NOW, "k2": None, "k3": NOW, "s": NOW}
    writer.flush()
    assert stored(credentials)["k2"] == NOW
    assert use.drain() == {}


def test_uses_that_could_not_be_written_are_written_with_the_next_batch(
    credentials: Database, use: CredentialUse, writer: BatchWriter
) -> None:
    def fail(*executed: Any) -> None:
        if "UPDATE" in executed[2]:
            raise RuntimeError("the disk is full")

    event.listen(credentials.engine, "before_cursor_execute", fail)
    use.record(of_key("k1"), NOW)
    writer.flush()
    use.record(of_key("k2"), NOW)
    event.remove(credentials.engine, "before_cursor_execute", fail)
    writer.flush()
    assert stored(credentials) == {"k1": NOW, "k2": NOW, "k3": None, "s": NOW}


def test_uses_that_no_longer_count_leave_the_memory() -> None:
    use = CredentialUse(max_recorded=10)
    for number in range(1_000):
        use.record(of_key(str(number)), NOW + timedelta(seconds=number))
        use.drain()
    assert len(use._recorded) <= 130
