"""SQL of default tags: their versions, the tags of resources, and the undo log.

The undo log has the tags that the latest runs of a tenant added, for undoing these runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Connection,
    RowMapping,
    Text,
    bindparam,
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
from service.db.engine import Database, Record
from service.db.prepared import prepared
from service.db.statements import add_row, records, update_row
from service.db.tables import Document, applied_tags, default_tag_versions, operations, resources, tenants, users
from service.jobs.queries import open_run

_CURRENT = prepared(
    select(
        tenants.c.default_tags.label("tags"), tenants.c.default_tags_version.label("version"), tenants.c.status
    ).where(tenants.c.id == bindparam("tenant"))
)
# Resources per transaction; the minimum under write contention.
MAX_BATCH = 2_000
MIN_BATCH = 250

# Tags and relations as text, because equal texts are parsed only once.
_RESOURCE = select(
    resources.c.id,
    resources.c.name,
    resources.c.state,
    cast(resources.c.tags, Text).label("tags"),
    cast(resources.c.relations, Text).label("relations"),
)
MAX_UNDO_RUNS = 10
"""Latest runs of a tenant that can be undone; older logs are deleted."""


def get_tags(connection: Connection, tenant_id: str) -> Record:
    """Return `tags`, `version` and the tenant's `status`."""
    return connection.execute(_CURRENT, {"tenant": tenant_id}).one()


def store_version(
    connection: Connection, tenant_id: str, number: int, tags: dict[str, str], changed_by: str | None, at: datetime
) -> None:
    """Store the tags as version `number`, also in the history."""
    current = {"default_tags": tags, "default_tags_version": number, "updated_at": at}
    update_row(connection, tenants, {"id": tenant_id}, current)
    version = {"tenant_id": tenant_id, "version": number, "tags": tags, "changed_by": changed_by, "changed_at": at}
    add_row(connection, default_tag_versions, version)


def version_page(connection: Connection, tenant_id: str, before: int | None, limit: int) -> Sequence[Record]:
    """Return at most `limit` + 1 versions before `before`, newest first."""
    query = (
        select(default_tag_versions, users.c.name, users.c.email)
        .outerjoin(users, users.c.id == default_tag_versions.c.changed_by)
        .where(default_tag_versions.c.tenant_id == tenant_id)
    )
    if before is not None:
        query = query.where(default_tag_versions.c.version < before)
    return list(records(connection, query.order_by(default_tag_versions.c.version.desc()).limit(limit + 1)))


def propagated(connection: Connection, tenant_id: str, since: datetime) -> dict[str, str]:
    """Return the tags for new resources: the newest version at `since`, or the oldest if all are newer."""
    versions = select(default_tag_versions.c.tags).where(default_tag_versions.c.tenant_id == tenant_id)
    newest = versions.where(default_tag_versions.c.changed_at <= since).order_by(default_tag_versions.c.version.desc())
    tags: dict[str, str] | None = connection.scalar(newest.limit(1))
    if tags is None:
        tags = connection.scalar(versions.order_by(default_tag_versions.c.version).limit(1))
    return tags or {}


def person(row: Any, identifier: str | None) -> dict[str, Any] | None:
    return None if identifier is None else {"id": identifier, "name": row.name, "email": row.email}


def count_resources(connection: Connection, tenant_id: str) -> dict[str, int]:
    """Return the number of resources by kind."""
    rows = connection.execute(
        select(resources.c.kind, func.count().label("number"))
        .where(resources.c.tenant_id == tenant_id)
        .group_by(resources.c.kind)
    )
    return {row.kind: row.number for row in rows}


def resource_batch(
    connection: Connection, tenant_id: str, kind: str, after: str, size: int, *, lock: bool = False
) -> Sequence[Record]:
    """Return the first resources after the id `after`, ordered by id, with `tags` and `relations` as JSON text.

    Args:
        lock: Lock the rows until the transaction ends, against concurrent changes of tags.
    """
    query = (
        _RESOURCE.where(resources.c.tenant_id == tenant_id, resources.c.kind == kind, resources.c.id > after)
        .order_by(resources.c.id)
        .limit(size)
    )
    return connection.execute(query.with_for_update() if lock else query).all()


def add_tags(
    connection: Connection,
    tenant_id: str,
    run_id: str,
    kind: str,
    between: tuple[str, str],
    tags: Mapping[str, str],
    at: datetime,
) -> None:
    """Add missing tags to the resources in the undo log of a run with `between[0] < id <= between[1]`."""
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


def resources_by_id(
    connection: Connection, tenant_id: str, kind: str, ids: Sequence[str], *, lock: bool = False
) -> dict[str, Record]:
    """Return the resources that still exist, by id; `lock` as in `batch`."""
    query = _RESOURCE.where(
        resources.c.tenant_id == tenant_id,
        resources.c.kind == kind,
        resources.c.id.in_(dialect.values_of(connection, ids)),
    ).order_by(resources.c.id)
    return {row.id: row for row in connection.execute(query.with_for_update() if lock else query)}


def remove_tags(
    connection: Connection, tenant_id: str, kind: str, ids: Sequence[str], keys: Sequence[str], at: datetime
) -> None:
    # Keys of default tags need no escaping in a JSON path.
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


def log_added_keys(
    connection: Connection, tenant_id: str, run_id: str, kind: str, added: Iterable[tuple[str, Sequence[str]]]
) -> None:
    """Record the keys that a run adds, by resource."""
    rows = dialect.pairs_of(connection, [(resource_id, list(keys)) for resource_id, keys in added]).subquery()
    columns = applied_tags.c.run_id, applied_tags.c.kind, applied_tags.c.tenant_id
    entries = select(literal(run_id), literal(kind), literal(tenant_id), rows.c.first, rows.c.second)
    connection.execute(
        insert(applied_tags).from_select([*columns, applied_tags.c.resource_id, applied_tags.c["keys"]], entries)
    )


def count_logged(connection: Connection, tenant_id: str, run_id: str) -> dict[str, int]:
    """Return the number of resources in the log, by kind."""
    query = (
        select(applied_tags.c.kind, func.count().label("number"))
        .where(applied_tags.c.run_id == run_id, applied_tags.c.tenant_id == tenant_id)
        .group_by(applied_tags.c.kind)
    )
    return {row.kind: row.number for row in connection.execute(query)}


def logged_batch(
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


def remove_logged(connection: Connection, tenant_id: str, run_id: str, kind: str, ids: Sequence[str]) -> None:
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


def prune_undo_log(database: Database, tenant_id: str, kind: str, *, batch_size: int) -> None:
    """Delete the log of all but the latest runs, in batches. Called at the end of each run."""
    with database.read() as connection:
        older_runs = prunable_runs(connection, tenant_id, kind)
    for run_id in older_runs:
        more = True
        while more:
            with database.write() as connection:
                more = delete_logged_batch(connection, tenant_id, run_id, batch_size)


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


def delete_logged_batch(connection: Connection, tenant_id: str, run_id: str, size: int) -> bool:
    """Delete at most `size` rows; return whether there may be more."""
    of_run = (applied_tags.c.run_id == run_id, applied_tags.c.tenant_id == tenant_id)
    key = (applied_tags.c.run_id, applied_tags.c.kind, applied_tags.c.resource_id)
    rows = select(*key).where(*of_run).order_by(*key).limit(size)
    return connection.execute(delete(applied_tags).where(*of_run, tuple_(*key).in_(rows))).rowcount == size
