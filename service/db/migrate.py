"""Schema migrations. Alembic is imported only if the schema is outdated.

Revisions have no `downgrade`: to go back, restore a backup. Programs refuse to start on a newer database.

Replicas of the previous release serve requests during and after a migration, because they check the revision only at
start. Rules for a revision:

- It only adds. New columns are nullable or have a server default, because older programs insert rows without them.
- A column or table may be dropped, renamed or change its type a release after the program stopped using it, at the
  earliest. No new constraint may reject rows that older programs write.
- It may move data, if the new program also reads the rows that older programs write to the old place.
- It holds locks briefly. It waits at most `LOCK_MILLISECONDS` for a lock, because requests queue behind it, then rolls
  back and retries. It changes tables in the lock order of requests (referenced tables first, the audit log last), or it
  would deadlock repeatedly. Index builds and updates of all rows block writers: for a large table, do them in batches
  at the start of the next release, or beforehand by hand with CONCURRENTLY.
- It drops the triggers of 0013, 0015 and 0019 before it copies a table (a batch operation on SQLite), drops one of
  their columns or changes its type, and creates them again. Triggers of one table refer to others, so it drops all of
  them. `service/db/triggers.py` lists them; the previous release caches no grants while one of its own is missing.
- It is tested with data from every older revision (`tests/service/test_migrations.py`), and during requests.
"""

import logging
import threading
import time
from pathlib import Path

from sqlalchemy import Connection, column, select, table
from sqlalchemy.exc import OperationalError, ProgrammingError

from service.db import dialect
from service.db.dialect import DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE, sqlstate
from service.db.engine import Database
from service.db.statements import get_value

HEAD = "0019"
MIGRATIONS = Path(__file__).parent / "migrations"
# Less than PostgreSQL's deadlock_timeout (1 s), after which it may abort the other transaction.
LOCK_MILLISECONDS = 400
MAX_RETRY_SECONDS = 120
_ALEMBIC = threading.Lock()
"""Alembic keeps its context in module globals: one migration at a time in a process, also of different databases."""

logger = logging.getLogger(__name__)


def upgrade(database: Database, head: str = HEAD, migrations: Path = MIGRATIONS) -> str | None:
    """Migrate to a revision in a single transaction. Concurrent replicas wait for each other.

    Args:
        head: The revision to reach.
        migrations: The folder with the scripts of Alembic.

    Returns:
        The previous revision; None for a new database.

    Raises:
        ValueError: a newer program wrote the database, or its tables remained locked.
    """
    stored = stored_revision(database)
    if stored == head:
        return stored
    logger.info("migrating the database from %s to %s", stored or "nothing", head)
    deadline = time.monotonic() + MAX_RETRY_SECONDS
    while not _try_upgrade(database, head, migrations):
        if time.monotonic() > deadline:
            raise ValueError(
                f"the database is too busy to be migrated to {head}; try again, or end sessions that lock its tables"
            )
        logger.info("the tables to change are locked; retrying")
        time.sleep(LOCK_MILLISECONDS / 1000)
    return stored


def is_behind(stored: str | None) -> bool:
    return stored is None or stored < HEAD


def stored_revision(database: Database) -> str | None:
    """Return the current revision; None for a new database."""
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


def has_seed(database: Database) -> bool:
    """Return whether a seed was loaded into a migrated database."""
    with database.read() as connection:
        return get_value(connection, "world") is not None


def is_known_revision(revision: str) -> bool:
    return revision in {path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("0*.py")}


def create(connection: Connection, revision: str) -> None:
    """Create the schema of a revision in an empty database."""
    _run_alembic(connection, revision)


def _try_upgrade(database: Database, head: str, migrations: Path) -> bool:
    """Migrate in a single transaction; roll back and return False if a table remains locked."""
    try:
        with database.write() as connection:
            # No timeout for this migration or the wait for another replica's.
            dialect.set_timeout(connection, "statement_timeout", 0)
            dialect.lock_for_migration(connection)
            dialect.set_timeout(connection, "lock_timeout", LOCK_MILLISECONDS)
            _run_alembic(connection, head, migrations)
    except OperationalError as error:
        if sqlstate(error) not in (LOCK_NOT_AVAILABLE, DEADLOCK_DETECTED):
            raise
        return False
    return True


def _run_alembic(connection: Connection, revision: str, migrations: Path = MIGRATIONS) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    try:
        with _ALEMBIC:
            command.upgrade(config, revision)
    except CommandError as error:
        raise ValueError(f"the database has a schema this version does not know: {error}") from error
