"""The SQL of applying default tags: portions of resources to look at, and changes to a whole portion at once.

Every query carries the tenant. The rules are not here: what is added or removed has been decided row by row, and the
merge adds nothing a resource has already, whatever is asked (checklist L02, L04).
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

# How many resources are changed in one transaction, at most, and while others wait for their turn.
MAX_BATCH = 2_000
MIN_BATCH = 250
# The runs of a tenant whose additions are remembered, so that they can be undone.
MAX_UNDO_RUNS = 10

# Tags and relations as text: many are alike, and each is read once.
_LOOKED_AT = select(
    resources.c.id,
    resources.c.name,
    resources.c.state,
    cast(resources.c.tags, Text).label("tags"),
    cast(resources.c.relations, Text).label("relations"),
)


def totals(connection: Connection, tenant_id: str) -> dict[str, int]:
    """How many resources the tenant has of each kind it has any of."""
    rows = connection.execute(
        select(resources.c.kind, func.count().label("number"))
        .where(resources.c.tenant_id == tenant_id)
        .group_by(resources.c.kind)
    )
    return {row.kind: row.number for row in rows}


def batch(
    connection: Connection, tenant_id: str, kind: str, after: str, size: int, *, lock: bool = False
) -> Sequence[Record]:
    """Resources of a kind behind an id, in the order of their ids: `id`, `name`, `state`, and as text
    `tags` and `relations`.

    `lock` holds them against other writers until the transaction ends, so that nobody's change of tags is lost.
    """
    query = (
        _LOOKED_AT.where(resources.c.tenant_id == tenant_id, resources.c.kind == kind, resources.c.id > after)
        .order_by(resources.c.id)
        .limit(size)
    )
    return connection.execute(query.with_for_update() if lock else query).all()


def add_to_undo_log(
    connection: Connection, tenant_id: str, run_id: str, kind: str, added: Iterable[tuple[str, Sequence[str]]]
) -> None:
    """Write down which keys the run adds to which resources."""
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
    """Give the resources that were remembered last, behind one id and up to another, the tags they lack."""
    after, last = between
    remembered = select(applied_tags.c.resource_id).where(
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
            # Without the kind SQLite would go through everything the tenant has.
            resources.c.kind == kind,
            resources.c.id.in_(remembered),
        )
        .values(tags=merged, updated_at=at)
    )


# The undo of a run.


def undo_totals(connection: Connection, tenant_id: str, run_id: str) -> dict[str, int]:
    """How many resources of each kind are remembered to have got tags from a run."""
    query = (
        select(applied_tags.c.kind, func.count().label("number"))
        .where(applied_tags.c.run_id == run_id, applied_tags.c.tenant_id == tenant_id)
        .group_by(applied_tags.c.kind)
    )
    return {row.kind: row.number for row in connection.execute(query)}


def undo_batch(
    connection: Connection, tenant_id: str, run_id: str, kind: str, after: str, size: int
) -> dict[str, list[str]]:
    """The keys a run added to resources of a kind behind an id, by resource id, in the order of the ids."""
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
    """Those of these resources that are still there, by id; `lock` as for `portion`."""
    query = _LOOKED_AT.where(
        resources.c.tenant_id == tenant_id,
        resources.c.kind == kind,
        resources.c.id.in_(dialect.values_of(connection, ids)),
    ).order_by(resources.c.id)
    return {row.id: row for row in connection.execute(query.with_for_update() if lock else query)}


def remove_tags(
    connection: Connection, tenant_id: str, kind: str, ids: Sequence[str], keys: Sequence[str], at: datetime
) -> None:
    """Take these keys from these resources of a kind."""
    # The key of a default tag needs no escaping in a path.
    rest = dialect.without_json_keys(connection, resources.c.tags, keys)
    connection.execute(
        update(resources)
        .where(
            resources.c.tenant_id == tenant_id,
            resources.c.kind == kind,
            resources.c.id.in_(dialect.values_of(connection, ids)),
        )
        .values(tags=rest, updated_at=at)
    )


def forget(connection: Connection, tenant_id: str, run_id: str, kind: str, ids: Sequence[str]) -> None:
    """What a run added to these resources is not to be undone any more."""
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
    """The tenant's last runs, newest first, with who started each and whether anything of it can be undone."""
    remembered = select(applied_tags.c.run_id).where(applied_tags.c.run_id == operations.c.run_id).exists()
    query = (
        select(operations, users.c.name, users.c.email, remembered.label("remembered"))
        .outerjoin(users, users.c.id == operations.c.started_by)
        .where(operations.c.tenant_id == tenant_id, operations.c.kind == kind)
        .order_by(operations.c.created_at.desc(), operations.c.run_id)
        .limit(MAX_UNDO_RUNS)
    )
    return connection.execute(query).mappings().all()


def forgotten_runs(connection: Connection, tenant_id: str, kind: str) -> list[str]:
    """The runs older than the tenant's last ones of which something is still remembered, but one being undone now."""
    going = open_run(connection, tenant_id, kind)
    undone = None if going is None else going["snapshot"]["undoes"]
    remembered = select(applied_tags.c.run_id).where(applied_tags.c.run_id == operations.c.run_id).exists()
    older = (
        select(operations.c.run_id)
        .where(operations.c.tenant_id == tenant_id, operations.c.kind == kind)
        .order_by(operations.c.created_at.desc(), operations.c.run_id)
        .offset(MAX_UNDO_RUNS)
    )
    # PostgreSQL needs no bound beside an offset, SQLite does.
    older = older.limit(1_000_000)
    found = connection.scalars(select(operations.c.run_id).where(operations.c.run_id.in_(older), remembered))
    return [run_id for run_id in found if run_id != undone]


def delete_undo_batch(connection: Connection, tenant_id: str, run_id: str, size: int) -> bool:
    """Forget some of what a run added; whether there may be more of it."""
    mine = (applied_tags.c.run_id == run_id, applied_tags.c.tenant_id == tenant_id)
    key = (applied_tags.c.run_id, applied_tags.c.kind, applied_tags.c.resource_id)
    some = select(*key).where(*mine).order_by(*key).limit(size)
    return connection.execute(delete(applied_tags).where(*mine, tuple_(*key).in_(some))).rowcount == size
