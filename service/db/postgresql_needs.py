"""What the platform needs of a PostgreSQL database, checked before a migration or the workflow engine changes it."""

import logging

from sqlalchemy import Connection, text

from service.db.engine import Database

logger = logging.getLogger(__name__)

MIN_VERSION = 13
_FACTS = text(
    "SELECT current_setting('server_encoding') AS encoding, current_setting('server_version_num')::int AS version,"
    " current_setting('synchronous_commit') AS synchronous_commit, current_user AS role, current_database() AS name,"
    " current_schema() AS schema, has_schema_privilege(current_schema(), 'CREATE') AS may_create_tables,"
    " has_database_privilege(current_database(), 'CREATE') AS may_create_schemas,"
    " EXISTS (SELECT FROM pg_namespace WHERE nspname = :workflows) AS has_workflows,"
    " COALESCE(has_schema_privilege((SELECT oid FROM pg_namespace WHERE nspname = :workflows), 'CREATE, USAGE'), true)"
    " AS may_use_workflows"
)


def check(database: Database, workflows: str, *, needs_migration: bool) -> None:
    """Check the encoding, the version and the rights of the role. Warn if a commit may be lost. Nothing on SQLite.

    Args:
        workflows: the schema of the workflow engine, which creates it with its first operation.
        needs_migration: the schema of the platform is missing or outdated.

    Raises:
        ValueError: the database does not meet a need, in a single sentence.
    """
    if database.kind != "postgresql":
        return
    with database.read() as connection:
        _check(connection, workflows, needs_migration)


def _check(connection: Connection, workflows: str, needs_migration: bool) -> None:
    facts = connection.execute(_FACTS, {"workflows": workflows}).one()
    if facts.version < MIN_VERSION * 10_000:
        raise ValueError(
            f"the server is PostgreSQL {facts.version // 10_000}; upgrade it to version {MIN_VERSION} or later"
        )
    if facts.encoding != "UTF8":
        raise ValueError(
            f"the database {facts.name} has the encoding {facts.encoding}; create one with the encoding UTF8"
        )
    if facts.schema is None:
        raise ValueError(f"the search_path of the role {facts.role} has no schema that exists; create or name one")
    if needs_migration and not facts.may_create_tables:
        raise ValueError(
            f"the role {facts.role} may not create tables in the schema {facts.schema}; grant it CREATE on the schema"
        )
    if not facts.has_workflows and not facts.may_create_schemas:
        raise ValueError(
            f"the role {facts.role} may not create the schema {workflows} in the database {facts.name}; grant it "
            "CREATE on the database, or create the schema with this role as its owner"
        )
    if not facts.may_use_workflows:
        raise ValueError(f"the role {facts.role} may not use the schema {workflows}; make this role its owner")
    if facts.synchronous_commit == "off":
        logger.warning("synchronous_commit is off: a crash of the server loses changes that were answered")
