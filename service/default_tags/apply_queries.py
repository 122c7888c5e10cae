"""SQL of applying default tags: batches of resources, tag changes of a whole batch, and the undo log.

Every query is limited to a tenant. The merge of tags never overwrites a tag that a resource has.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import (
    Connection,
    RowMapping,
    Text,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    tuple_,
    update,
)

from service.db import dialect
from service.db.engine import Record
from service.db.tables import Document, applied_tags, operations, resources, users
from service.jobs.queries import open_run

# Resources per transaction: at most, and under write contention.
MAX_BATCH = 2_000
MIN_BATCH = 250
# The latest runs of a tenant that can be undone.
MAX_UNDO_RUNS = 10

# Tags and relations as text: many rows have equal ones, which are parsed once.
_RESOURCE = select(
    resources.c.id,
    resources.c.name,
    resources.c.state,
    cast(resources.c.tags, Text).label("tags"),
    cast(resources.c.relations, Text).label("relations"),
)


def totals(connection: Connection, tenant_id: str) -> dict[str, int]:
    """Return the number of the tenant's resources by kind, without kinds that have none."""
    rows = connection.execute(
        select(resources.c.kind, func.count().label("number"))
        .where(resources.c.tenant_id == tenant_id)
        .group_by(resources.c.kind)
    )
    return {row.kind: row.number for row in rows}


def batch(
    connection: Connection, tenant_id: str, kind: str, after: str, size: int, *, lock: bool = False
) -> Sequence[Record]:
    """Return the resources of a kind after an id, ordered by id: `id`, `name`, `state`, and as text `tags` and
    `relations`.

    Args:
        lock: Lock the rows until the transaction ends, so that no concurrent change of tags is lost.
    """
    query = (
        _RESOURCE.where(resources.c.tenant_id == tenant_id, resources.c.kind == kind, resources.c.id > after)
        .order_by(resources.c.id)
        .limit(size)
    )
    return connection.execute(query.with_for_update() if lock else query).all()


def add_to_undo_log(
    connection: Connection, tenant_id: str, run_id: str, kind: str, added: Iterable[tuple[str, Sequence[str]]]
) -> None:
    """Record the keys that a run adds, by resource."""
    rows = dialect.pairs_of(connection, [(resource_id, list(keys)) for resource_id, keys in added]).subquery()
    columns = applied_tags.c.run_id, applied_tags.c.kind, applied_tags.c.tenant_id
    entries = select(literal(run_id), literal(kind), literal(tenant_id), rows.c.first, rows.c.second)
    connection.execute(
        insert(applied_tags).from_select([*columns, applied_tags.c.resource_id, applied_tags.c["keys"]], entries)
    )


def add_tags(
    connection: Connection,
    tenant_id: str,
    run_id: str,
    kind: str,
    between: tuple[str, str],
    tags: Mapping[str, str],
    at: datetime,
) -> None:
    """Add the tags they lack to the resources in the undo log after one id, up to and including another."""
    after, last = between
    resource_ids = select(applied_tags.c.resource_id).where(
        applied_tags.c.run_id == run_id,
        applied_tags.c.kind == kind,
        applied_tags.c.resource_id > after,
        applied_tags.c.resource_id <= last,
    )
    defaults = literal(dict(tags), Document)
    merged = dialect.merge_json(connection, defaults, resources.c.tags)
    connection.execute(
        update(resources)
        .where(
            resources.c.tenant_id == tenant_id,
            # Without the kind SQLite would scan all resources of the tenant.
            resources.c.kind == kind,
            resources.c.id.in_(resource_ids),
        )
        .values(tags=merged, updated_at=at)
    )


# The undo of a run.


def undo_totals(connection: Connection, tenant_id: str, run_id: str) -> dict[str, int]:
    """Return the number of resources in the undo log of a run, by kind."""
    query = (
        select(applied_tags.c.kind, func.count().label("number"))
        .where(applied_tags.c.run_id == run_id, applied_tags.c.tenant_id == tenant_id)
        .group_by(applied_tags.c.kind)
    )
    return {row.kind: row.number for row in connection.execute(query)}


def undo_batch(
    connection: Connection, tenant_id: str, run_id: str, kind: str, after: str, size: int
) -> dict[str, list[str]]:
    """Return the keys that a run added to the resources of a kind after an id, by resource id, ordered by id."""
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


def by_ids(
    connection: Connection, tenant_id: str, kind: str, ids: Sequence[str], *, lock: bool = False
) -> dict[str, Record]:
    """Return those of the resources that still exist, by id; `lock` as for `batch`."""
    query = _RESOURCE.where(
        resources.c.tenant_id == tenant_id,
        resources.c.kind == kind,
        resources.c.id.in_(dialect.values_of(connection, ids)),
    ).order_by(resources.c.id)
    return {row.id: row for row in connection.execute(query.with_for_update() if lock else query)}


def remove_tags(
    connection: Connection, tenant_id: str, kind: str, ids: Sequence[str], keys: Sequence[str], at: datetime
) -> None:
    """Remove tags by key from resources of a kind."""
    # Keys of default tags have no characters that need escaping in a path.
    tags = dialect.without_json_keys(connection, resources.c.tags, keys)
    connection.execute(
        update(resources)
        .where(
            resources.c.tenant_id == tenant_id,
            resources.c.kind == kind,
            resources.c.id.in_(dialect.values_of(connection, ids)),
        )
        .values(tags=tags, updated_at=at)
    )


def delete_from_undo_log(connection: Connection, tenant_id: str, run_id: str, kind: str, ids: Sequence[str]) -> None:
    """Delete these resources from the undo log of a run."""
    connection.execute(
        delete(applied_tags).where(
            applied_tags.c.run_id == run_id,
            applied_tags.c.tenant_id == tenant_id,
            applied_tags.c.kind == kind,
            applied_tags.c.resource_id.in_(dialect.values_of(connection, ids)),
        )
    )


# The runs of a tenant.


def runs(connection: Connection, tenant_id: str, kind: str) -> Sequence[RowMapping]:
    """Return the tenant's latest runs, newest first, with the person who started them and `has_undo_log`."""
    undo_log = select(applied_tags.c.run_id).where(applied_tags.c.run_id == operations.c.run_id).exists()
    query = (
        select(operations, users.c.name, users.c.email, undo_log.label("has_undo_log"))
        .outerjoin(users, users.c.id == operations.c.started_by)
        .where(operations.c.tenant_id == tenant_id, operations.c.kind == kind)
        .order_by(operations.c.created_at.desc(), operations.c.run_id)
        .limit(MAX_UNDO_RUNS)
    )
    return connection.execute(query).mappings().all()


def prunable_runs(connection: Connection, tenant_id: str, kind: str) -> list[str]:
    """Return the runs before the tenant's latest ones that have an undo log, except one that is being undone."""
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


def delete_undo_batch(connection: Connection, tenant_id: str, run_id: str, size: int) -> bool:
    """Delete at most `size` rows from the undo log of a run; return whether there may be more."""
    of_run = (applied_tags.c.run_id == run_id, applied_tags.c.tenant_id == tenant_id)
    key = (applied_tags.c.run_id, applied_tags.c.kind, applied_tags.c.resource_id)
    rows = select(*key).where(*of_run).order_by(*key).limit(size)
    return connection.execute(delete(applied_tags).where(*of_run, tuple_(*key).in_(rows))).rowcount == size
