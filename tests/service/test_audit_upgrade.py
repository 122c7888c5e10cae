"""A chain of the releases before migration 0017 goes on after it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from sqlalchemy import insert, select, update

from service.audit import chain, sealer
from service.audit.digests import ENTRY_FIELDS, head_mac
from service.audit.head import GENESIS_HASH
from service.audit.segments import export_segment
from service.audit.verification import ALTERED
from service.db import migrate
from service.db.engine import Database
from service.db.tables import audit_head, audit_log
from tests.service.audited import KEY, NOW, SECRET, append_as_before, seal, verdict, write_entry
from tests.service.conftest import KINDS
from tests.service.queries import execute, fetch


@pytest.fixture(params=KINDS)
def older(
    request: pytest.FixtureRequest, new_database_url: Callable[[str, bool], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    """A database of revision 0014 with a chain of five entries."""
    with closing(Database(new_database_url(request.param, False))) as database:
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


def require_whole(database: Database, entries: int) -> None:
    result = verdict(database, sealed=False)
    assert (result.entries, result.fault) == (entries, None)


def require_altered(database: Database) -> None:
    execute(database, update(audit_log).where(audit_log.c.target == "3").values(outcome="other"))
    fault = verdict(database, sealed=False).fault
    assert fault
    assert fault.reason == ALTERED


def test_a_chain_is_verified_before_the_upgrade(older: Database) -> None:
    """A restore verifies the chain of a backup before its database is upgraded."""
    require_whole(older, 5)
    require_altered(older)


def test_a_chain_goes_on_after_the_upgrade(older: Database) -> None:
    migrate.upgrade(older)
    require_whole(older, 5)
    chain.initialize_chain(older, SECRET, NOW, rolling=False)
    chain.install_audit_hooks(older, SECRET)
    write_entry(older, "new")
    seal(older)
    require_whole(older, 6)
    rows = fetch(older, select(audit_log.c.sequence, audit_log.c.target).order_by(audit_log.c.id))
    assert rows == [*((number + 1, str(number)) for number in range(5)), (6, "new")]
    with older.read() as connection:
        exported = export_segment(connection, KEY, after=0, before=NOW + timedelta(days=1))
    assert exported
    assert (exported[0].first, exported[0].last) == (1, 6)
    require_altered(older)


def test_the_numbers_of_a_large_log_are_given_in_batches(older: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    if older.kind == "sqlite":
        pytest.skip("the migration numbers the entries of a SQLite file")
    monkeypatch.setattr(sealer, "NUMBERED_ENTRIES", 2)
    migrate.upgrade(older)
    batches = [sealer.seal_batch(older, KEY) for _ in range(3)]
    assert [batch and batch.is_full for batch in batches] == [True, True, False]
    require_whole(older, 5)
