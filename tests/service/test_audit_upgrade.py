"""A chain of the releases before migration 0017 goes on after it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, select, update

from service.audit import chain, entries, sealer
from service.audit.entries import AuditEvent
from service.audit.seals import ENTRY_FIELDS, GENESIS_HASH, head_mac, key_of
from service.audit.segments import export_segment
from service.audit.verification import ALTERED, Verification, verify
from service.db import migrate
from service.db.engine import Database
from service.db.tables import audit_head, audit_log
from service.principal import PLATFORM
from tests.service.audited import SECRET, append_as_before, seal
from tests.service.conftest import KINDS

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
KEY = key_of(SECRET)


@pytest.fixture(params=KINDS)
def older(
    request: pytest.FixtureRequest, new_database_url: Callable[[str, bool], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    """A database of revision 0014 with a chain of five entries."""
    database = Database(new_database_url(request.param, False))
    with monkeypatch.context() as before:
        before.setattr(migrate, "HEAD", "0014")
        migrate.upgrade(database)
    head = {"entries": 0, "hash": GENESIS_HASH, "began_at": NOW, "unchained_until": None}
    with database.write() as connection:
        connection.execute(insert(audit_head).values(id=1, **head, seal=head_mac(KEY, head)))
        for number in range(5):
            entry = dict.fromkeys(ENTRY_FIELDS, "x") | {"at": NOW, "details": {"n": number}, "target": str(number)}
            append_as_before(connection, entry)
    yield database
    database.close()


def verdict(database: Database) -> Verification:
    with database.read() as connection:
        return verify(connection, KEY)


def test_a_chain_is_verified_before_the_upgrade(older: Database) -> None:
    """A restore verifies the chain of a backup before its database is upgraded."""
    assert (verdict(older).entries, verdict(older).fault) == (5, None)
    altered = update(audit_log).where(audit_log.c.target == "3").values(outcome="other")
    with older.write() as connection:
        connection.execute(altered)
    fault = verdict(older).fault
    assert fault
    assert fault.reason == ALTERED


def test_a_chain_goes_on_after_the_upgrade(older: Database) -> None:
    migrate.upgrade(older)
    assert (verdict(older).entries, verdict(older).fault) == (5, None)
    chain.initialize_chain(older, SECRET, NOW, rolling=False)
    chain.install_audit_hooks(older, SECRET)
    with older.write() as connection:
        entries.record(connection, PLATFORM, event=AuditEvent.PLATFORM_STOP, target="new", at=NOW)
    seal(older)
    assert (verdict(older).entries, verdict(older).fault) == (6, None)
    with older.read() as connection:
        query = select(audit_log.c.sequence, audit_log.c.target).order_by(audit_log.c.id)
        assert [tuple(row) for row in connection.execute(query)] == [
            *((number + 1, str(number)) for number in range(5)),
            (6, "new"),
        ]
        exported = export_segment(connection, KEY, after=0, before=NOW + timedelta(days=1))
    assert exported
    assert (exported[0].first, exported[0].last) == (1, 6)
    with older.write() as connection:
        connection.execute(update(audit_log).where(audit_log.c.target == "3").values(outcome="other"))
    assert verdict(older).fault


def test_the_numbers_of_a_large_log_are_given_in_batches(older: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    if older.kind == "sqlite":
        pytest.skip("the migration numbers the entries of a SQLite file")
    monkeypatch.setattr(sealer, "NUMBERED_ENTRIES", 2)
    migrate.upgrade(older)
    batches = [sealer.seal_batch(older, KEY) for _ in range(3)]
    assert [batch and batch.is_full for batch in batches] == [True, True, False]
    assert (verdict(older).entries, verdict(older).fault) == (5, None)
