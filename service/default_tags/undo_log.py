"""The undo log: the tags that the latest runs of a tenant added, for undoing these runs."""

from collections.abc import Iterable, Sequence

from sqlalchemy import (
    Connection,
    RowMapping,
    delete,
    func,
    insert,
    literal,
    select,
    tuple_,
)

from service.db import dialect
from service.db.engine import Database
from service.db.tables import applied_tags, operations, users
from service.jobs.queries import open_run

MAX_UNDO_RUNS = 10
"""Latest runs of a tenant that can be undone; older logs are deleted."""


def add(
    connection: Connection, tenant_id: str, run_id: str, kind: str, added: Iterable[tuple[str, Sequence[str]]]
) -> None:
    """Record the keys that a run adds, by resource."""
    rows = dialect.pairs_of(connection, [(resource_id, list(keys)) for resource_id, keys in added]).subquery()
    columns = applied_tags.c.run_id, applied_tags.c.kind, applied_tags.c.tenant_id
    entries = select(literal(run_id), literal(kind), literal(tenant_id), rows.c.first, rows.c.second)
    connection.execute(
        insert(applied_tags).from_select([*columns, applied_tags.c.resource_id, applied_tags.c["keys"]], entries)
    )


def totals(connection: Connection, tenant_id: str, run_id: str) -> dict[str, int]:
    """Return the number of resources in the log, by kind."""
    query = (
        select(applied_tags.c.kind, func.count().label("number"))
        .where(applied_tags.c.run_id == run_id, applied_tags.c.tenant_id == tenant_id)
        .group_by(applied_tags.c.kind)
    )
    return {row.kind: row.number for row in connection.execute(query)}


def batch(
    connection: Connection, tenant_id: str, run_id: str, kind: str, after: str, size: int
) -> dict[str, list[str]]:
    """Return the keys added to resources after the id `after`, by resource id, ordered by id."""
    rows = connection.execute(
        select(applied_tags.c.resource_id, applied_tags.c["keys"].label("keys_added"))
        .where(
            applied_tags.c.run_id == run_id,
            applied_tags.c.tenant_id == tenant_id,
            applied_tags.c.kind == kind,
            applied_tags.c.resource_id > after,
        )
        .order_by(applied_tags.c.resource_id)
        .limit(size)
    )
    return {row.resource_id: row.keys_added for row in rows}


def remove(connection: Connection, tenant_id: str, run_id: str, kind: str, ids: Sequence[str]) -> None:
    connection.execute(
        delete(applied_tags).where(
            applied_tags.c.run_id == run_id,
            applied_tags.c.tenant_id == tenant_id,
            applied_tags.c.kind == kind,
            applied_tags.c.resource_id.in_(dialect.values_of(connection, ids)),
        )
    )


def list_latest_runs(connection: Connection, tenant_id: str, kind: str) -> Sequence[RowMapping]:
    """Return the latest runs, newest first, with `name` and `email` of the person and `has_undo_log`."""
    undo_log = select(applied_tags.c.run_id).where(applied_tags.c.run_id == operations.c.run_id).exists()
    query = (
        select(operations, users.c.name, users.c.email, undo_log.label("has_undo_log"))
        .outerjoin(users, users.c.id == operations.c.started_by)
        .where(operations.c.tenant_id == tenant_id, operations.c.kind == kind)
        .order_by(operations.c.created_at.desc(), operations.c.run_id)
        .limit(MAX_UNDO_RUNS)
    )
    return connection.execute(query).mappings().all()


def prune(database: Database, tenant_id: str, kind: str, *, batch_size: int) -> None:
    """Delete the log of all but the latest runs, in batches. Called at the end of each run."""
    with database.read() as connection:
        older_runs = prunable_runs(connection, tenant_id, kind)
    for run_id in older_runs:
        more = True
        while more:
            with database.write() as connection:
                more = delete_batch(connection, tenant_id, run_id, batch_size)


def prunable_runs(connection: Connection, tenant_id: str, kind: str) -> list[str]:
    """Return the runs beyond MAX_UNDO_RUNS that have a log, except the run being undone."""
    running = open_run(connection, tenant_id, kind)
    undone = None if running is None else running["snapshot"]["undoes"]
    undo_log = select(applied_tags.c.run_id).where(applied_tags.c.run_id == operations.c.run_id).exists()
    older = (
        select(operations.c.run_id)
        .where(operations.c.tenant_id == tenant_id, operations.c.kind == kind)
        .order_by(operations.c.created_at.desc(), operations.c.run_id)
        .offset(MAX_UNDO_RUNS)
    )
    # SQLite requires a limit with an offset.
    older = older.limit(1_000_000)
    run_ids = connection.scalars(select(operations.c.run_id).where(operations.c.run_id.in_(older), undo_log))
    return [run_id for run_id in run_ids if run_id != undone]


def delete_batch(connection: Connection, tenant_id: str, run_id: str, size: int) -> bool:
    """Delete at most `size` rows; return whether there may be more."""
    of_run = (applied_tags.c.run_id == run_id, applied_tags.c.tenant_id == tenant_id)
    key = (applied_tags.c.run_id, applied_tags.c.kind, applied_tags.c.resource_id)
    rows = select(*key).where(*of_run).order_by(*key).limit(size)
    return connection.execute(delete(applied_tags).where(*of_run, tuple_(*key).in_(rows))).rowcount == size
