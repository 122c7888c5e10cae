"""The migrated schema is the one `service/db/tables.py` describes, on both databases."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import update
from sqlalchemy.sql import column, table

from service.db import migrate
from service.db.engine import Database
from service.db.tables import metadata
from tests.service.conftest import KINDS

NewUrl = Callable[[str, bool], str]


def test_the_migrated_schema_is_the_described_one(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_the_partial_unique_index_of_open_operations_exists(database: Database) -> None:
    query = (
        "SELECT sql FROM sqlite_master WHERE name = 'uq_operations_open'"
        if database.kind == "sqlite"
        else "SELECT indexdef FROM pg_indexes WHERE indexname = 'uq_operations_open'"
    )
    with database.read() as connection:
        definition = str(connection.exec_driver_sql(query).scalar_one())
    assert "UNIQUE" in definition
    assert "pending" in definition.partition("WHERE")[2]


def test_the_revision_this_program_expects_is_the_newest_one() -> None:
    assert ScriptDirectory(str(migrate.MIGRATIONS)).get_heads() == [migrate.HEAD]


def test_a_database_that_is_up_to_date_does_not_load_alembic(database_url: str) -> None:
    program = (
        "import sys; from service.db.engine import Database; from service.db import migrate;"
        f"migrate.upgrade(Database({database_url!r})); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", ["0001", "0002"])
def test_a_database_of_an_earlier_version_becomes_the_described_one(
    kind: str, before: str, new_database_url: NewUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(new_database_url(kind, False))
    with monkeypatch.context() as earlier:
        earlier.setattr(migrate, "HEAD", before)
        migrate.upgrade(database)
    assert migrate.stored_revision(database) == before
    migrate.upgrade(database)
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    database.close()


@pytest.mark.parametrize("kind", KINDS)
def test_replicas_that_start_together_migrate_once(kind: str, new_database_url: NewUrl) -> None:
    url = new_database_url(kind, False)
    databases = [Database(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(migrate.upgrade, databases))
    assert {migrate.stored_revision(database) for database in databases} == {migrate.HEAD}
    for database in databases:
        database.close()


def test_a_database_of_a_newer_version_is_refused_and_left_alone(database: Database) -> None:
    version = table("alembic_version", column("version_num"))
    with database.write() as connection:
        connection.execute(update(version).values(version_num="9999"))
    with pytest.raises(ValueError, match="schema this version does not know"):
        migrate.upgrade(database)
    assert migrate.stored_revision(database) == "9999"
