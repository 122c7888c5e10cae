"""Migrate a database to the schema of this program. Alembic is imported only if there is something to migrate.

Migrations only go forward: no revision has a `downgrade`. An older program refuses to start on a newer database and
does not change it (`upgrade`). To go back, restore the backup made before.

Replicas of the previous release keep serving during a migration and after it; they check the revision only when they
start. A revision must therefore follow these rules:

- It only adds. A new column is nullable or has a server default, because older programs insert rows without it.
- It keeps what older programs read or write: no column or table is dropped, renamed or given another type before the
  release after the one that stopped using it, and no new constraint rejects what older programs write.
- It may move data in the same transaction, if the new program also reads what older programs write to the old place.
- It holds its locks briefly. It is one transaction that waits at most `LOCK_MILLISECONDS` for each lock, because later
  requests for the table queue behind it; then it rolls back and starts again. So it changes tables in the order in
  which requests lock them (referenced tables first, the audit log last), or it would deadlock with them repeatedly.
  Building an index and updating every row block writers of the table until the end: for a large table, do it in
  batches at the start of the next release, or by hand with CONCURRENTLY beforehand.
- It is tested from every older revision with data (`tests/service/test_migrations.py`), and during requests.
"""

import logging
import time
from pathlib import Path

from sqlalchemy import Connection, column, select, table
from sqlalchemy.exc import OperationalError, ProgrammingError

from service.db import dialect
from service.db.engine import Database
from service.db.errors import DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE, sqlstate

HEAD = "0012"
MIGRATIONS = Path(__file__).parent / "migrations"
# Less than PostgreSQL's deadlock_timeout of one second, after which it may abort the other transaction.
LOCK_MILLISECONDS = 400
MAX_RETRY_SECONDS = 120

logger = logging.getLogger(__name__)


def upgrade(database: Database) -> str | None:
    """Migrate to `HEAD` in one transaction. Replicas that start together wait for each other.

    Returns:
        The revision before: `HEAD` if there was nothing to do, None for a new database.

    Raises:
        ValueError: a newer version of the program wrote the database, or its tables stayed locked.
    """
    stored = stored_revision(database)
    if stored == HEAD:
        return stored
    logger.info("migrating the database from %s to %s", stored or "nothing", HEAD)
    deadline = time.monotonic() + MAX_RETRY_SECONDS
    while not _try_upgrade(database):
        if time.monotonic() > deadline:
            raise ValueError(
                f"the database is too busy to be migrated to {HEAD}; try again, or end what holds its tables"
            )
        logger.info("the tables to change are locked; trying again")
        time.sleep(LOCK_MILLISECONDS / 1000)
    return stored


def is_behind(stored: str | None) -> bool:
    """Return whether a database lacks tables or columns that this program needs."""
    return stored is None or stored < HEAD


def stored_revision(database: Database) -> str | None:
    """Return the revision of a database; None for a new one."""
    try:
        with database.read() as connection:
            revision: str | None = connection.scalar(
                select(column("version_num")).select_from(table("alembic_version"))
            )
            return revision
    except (OperationalError, ProgrammingError) as error:
        if "alembic_version" not in str(error):
            raise
        return None


def is_known_revision(revision: str) -> bool:
    """Return whether this program has a revision."""
    return revision in {path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("0*.py")}


def create(connection: Connection, revision: str) -> None:
    """Create the schema of a revision in an empty database, in the transaction of the connection."""
    _run_alembic(connection, revision)


def _try_upgrade(database: Database) -> bool:
    """Migrate in one transaction; return False, with nothing changed, if a table stayed locked."""
    try:
        with database.write() as connection:
            # Neither the migration nor the wait for another replica's may time out.
            dialect.set_timeout(connection, "statement_timeout", 0)
            dialect.lock_for_migration(connection)
            dialect.set_timeout(connection, "lock_timeout", LOCK_MILLISECONDS)
            _run_alembic(connection, HEAD)
    except OperationalError as error:
        if sqlstate(error) not in (LOCK_NOT_AVAILABLE, DEADLOCK_DETECTED):
            raise
        return False
    return True


def _run_alembic(connection: Connection, revision: str) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    try:
        command.upgrade(config, revision)
    except CommandError as error:
        raise ValueError(f"the database has a schema this version does not know: {error}") from error
