"""Bringing a database to the schema of this program. Alembic is loaded only when there is something to do.

The way is forward only: no revision has a `downgrade`. An older program refuses a newer database and leaves it as it is
(`upgrade`), and whoever wants to go back restores the copy made before. So a revision only adds, or moves what is there
in the same transaction, and is tested from every older one with data in it (`tests/service/test_migrations.py`).
"""

import logging
from pathlib import Path

from sqlalchemy import Connection, column, select, table, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from service.db.engine import Database

HEAD = "0006"
MIGRATIONS = Path(__file__).parent / "migrations"
# Any number will do, as long as nothing else on the database server uses it as an advisory lock.
_ADVISORY_LOCK = 0x66726F7374

logger = logging.getLogger(__name__)


def upgrade(database: Database) -> None:
    """Migrate to `HEAD`, all of it in one transaction; replicas that start together wait for each other.

    Raises:
        ValueError: the database was written by a newer version of the program.
    """
    stored = stored_revision(database)
    if stored == HEAD:
        return
    logger.info("migrating the database from %s to %s", stored or "nothing", HEAD)
    with database.write() as connection:
        if database.kind == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})
        _run(connection)


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


def _run(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    try:
        command.upgrade(config, HEAD)
    except CommandError as error:
        raise ValueError(f"the database has a schema this version does not know: {error}") from error
