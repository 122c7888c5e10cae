"""Bringing a database to the schema of this program. Alembic is loaded only when there is something to do.

The way is forward only: no revision has a `downgrade`. An older program refuses to start on a newer database and leaves
it as it is (`upgrade`), and whoever wants to go back restores the copy made before.

Replicas of the version before go on serving while a new one migrates, and beside it afterwards; they look at the
revision at their start only. So whoever writes a revision keeps to this:

- It only adds. A new column can be null or has a default of the database's: older programs write rows without it.
- What older programs read or write stays: no column or table is dropped, renamed or given another type before the
  version after the one that stopped using it, and no new constraint refuses what older programs write.
- What is there may be moved in the same transaction, as long as older programs may go on writing the old place: the
  new program has to read what they write after it.
- It holds its locks briefly. All of it is one transaction that waits for each lock for `LOCK_SECONDS` at most, because
  whoever asks for the table meanwhile waits behind it; it then lets go and begins again. So it changes tables in the
  order in which requests take them (what others hang on first, the audit log last), or it would meet them half-way
  again and again. Building an index, and changing every row of a table, close that table to writers as long as they
  take: for a large one, do it in portions at the start of the version after, or by hand with CONCURRENTLY beforehand.
- It is tested from every older one with data in it (`tests/service/test_migrations.py`), and beside a serving process.
"""

import logging
import time
from pathlib import Path

from sqlalchemy import Connection, column, select, table, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from service.db import dialect
from service.db.engine import Database

HEAD = "0012"
MIGRATIONS = Path(__file__).parent / "migrations"
# How long the others stand still at most while a change of a table waits for its turn, and how long it is tried.
# Less than the second after which PostgreSQL looks for changes in each other's way, and may end the other one.
LOCK_SECONDS = 0.4
TRIED_SECONDS = 120
# As PostgreSQL numbers what a change that is in others' way meets.
_LOCK_NOT_AVAILABLE, _DEADLOCK = "55P03", "40P01"

logger = logging.getLogger(__name__)


def upgrade(database: Database) -> str | None:
    """Migrate to `HEAD`, all of it in one transaction; replicas that start together wait for each other.

    Returns:
        The revision that was found: `HEAD` when there was nothing to do, None in a new database.

    Raises:
        ValueError: the database was written by a newer version of the program, or its tables could not be had.
    """
    stored = stored_revision(database)
    if stored == HEAD:
        return stored
    logger.info("migrating the database from %s to %s", stored or "nothing", HEAD)
    end = time.monotonic() + TRIED_SECONDS
    while not _migrated(database):
        if time.monotonic() > end:
            raise ValueError(
                f"the database is too busy to be migrated to {HEAD}; try again, or end what holds its tables"
            )
        logger.info("others are at the tables that are to be changed; trying again")
        time.sleep(LOCK_SECONDS)
    return stored


def is_behind(stored: str | None) -> bool:
    """Whether a database lacks what this program needs; one that is ahead has it all, and something more."""
    return stored is None or stored < HEAD


def stored_revision(database: Database) -> str | None:
    """The revision a database says it has; None for one that is new."""
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


def _migrated(database: Database) -> bool:
    """Migrate in one transaction; False when some table could not be had in time, and nothing has changed."""
    try:
        with database.write() as connection:
            if database.kind == "postgresql":
                # It takes as long as it takes, and so does the turn of another replica that is at it.
                connection.execute(text("SET LOCAL statement_timeout = 0"))
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": dialect.MIGRATION})
                connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS * 1000:.0f}ms'"))
            _run(connection, HEAD)
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) not in (_LOCK_NOT_AVAILABLE, _DEADLOCK):
            raise
        return False
    return True


def is_known_revision(revision: str) -> bool:
    """Whether a revision is one of this program's."""
    return revision in {path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("0*.py")}


def create(connection: Connection, revision: str) -> None:
    """Make the schema of a revision in an empty database, in the caller's transaction."""
    _run(connection, revision)


def _run(connection: Connection, revision: str) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    try:
        command.upgrade(config, revision)
    except CommandError as error:
        raise ValueError(f"the database has a schema this version does not know: {error}") from error
