"""SQL that adds and removes default tags of resources."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import (
    Connection,
    Text,
    cast,
    func,
    literal,
    select,
    update,
)

from service.db import dialect
from service.db.engine import Record
from service.db.tables import Document, applied_tags, resources

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


def totals(connection: Connection, tenant_id: str) -> dict[str, int]:
    """Return the number of resources by kind."""
    rows = connection.execute(
        select(resources.c.kind, func.count().label("number"))
        .where(resources.c.tenant_id == tenant_id)
        .group_by(resources.c.kind)
    )
    return {row.kind: row.number for row in rows}


def batch(
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


def by_ids(
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
