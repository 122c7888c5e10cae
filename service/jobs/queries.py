"""SQL of jobs: operations, executors, and the states that the event stream compares."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from service.audit.entries import AuditEvent
from service.db import dialect
from service.db.dialect import upsert_insert
from service.db.tables import (
    api_keys,
    audit_log,
    executors,
    operations,
    tenants,
)

OPEN = ("pending", "running")
MAX_LISTED = 50
STALLED_AFTER = timedelta(minutes=1)
"""Time without progress after which an open operation is stalled."""
SIGNALLED = frozenset(("policy", "group", "api_key", "workload_identity", "default_tags", "quota_request", "resource"))
"""Prefixes of signalled audit events. Tenants and operations have their own signals."""
NOT_SIGNALLED = (AuditEvent.WORKLOAD_IDENTITY_EXCHANGE.value,)
"""Audit events that change no displayed data."""
MAX_ENTRIES = 1000
"""Audit entries between two polls above which readers get a `resync`."""


def is_open() -> ColumnElement[bool]:
    return operations.c.status.in_(OPEN)


def add(connection: Connection, row: Mapping[str, Any]) -> None:
    connection.execute(insert(operations).values(**row))


def locked(connection: Connection, run_id: str) -> RowMapping | None:
    """Return the row of a run, locked until the transaction ends (SQLite has a single writer)."""
    statement = select(operations).where(operations.c.run_id == run_id).with_for_update()
    return connection.execute(statement).mappings().one_or_none()


def advance(connection: Connection, run_id: str, *, at: datetime, **changes: Any) -> None:
    """Update the row of a run and increment `seq`, which readers compare."""
    connection.execute(
        update(operations)
        .where(operations.c.run_id == run_id)
        .values(seq=operations.c.seq + 1, updated_at=at, **changes)
    )


def kind_of(connection: Connection, run_id: str) -> str | None:
    """Return the kind of an open run; None for other runs."""
    return connection.execute(
        select(operations.c.kind).where(operations.c.run_id == run_id, is_open())
    ).scalar_one_or_none()


def tenant_of(connection: Connection, run_id: str) -> str:
    return str(connection.scalar(select(operations.c.tenant_id).where(operations.c.run_id == run_id)))


def open_run(connection: Connection, tenant_id: str, kind: str) -> RowMapping | None:
    """Return the tenant's open run of a kind; a unique index allows only one."""
    query = select(operations).where(operations.c.tenant_id == tenant_id, operations.c.kind == kind, is_open())
    return connection.execute(query).mappings().one_or_none()


def tenants_without_run(connection: Connection, kind: str) -> Sequence[str]:
    """Return the provisioning tenants without an open run of a kind, oldest first."""
    run = select(operations.c.run_id).where(
        operations.c.tenant_id == tenants.c.id, operations.c.kind == kind, is_open()
    )
    query = select(tenants.c.id).where(tenants.c.status == "provisioning", ~run.exists())
    return connection.scalars(query.order_by(tenants.c.created_at, tenants.c.id)).all()


def is_provisioning(connection: Connection, tenant_id: str) -> bool:
    return connection.scalar(select(tenants.c.status).where(tenants.c.id == tenant_id)) == "provisioning"


def open_runs(connection: Connection, run_ids: Collection[str] | None = None) -> list[str]:
    """Return the ids of open runs, oldest first; only those in `run_ids`, if set."""
    statement = select(operations.c.run_id).where(is_open()).order_by(operations.c.created_at, operations.c.run_id)
    if run_ids is not None:
        statement = statement.where(operations.c.run_id.in_(run_ids))
    return list(connection.execute(statement).scalars())


def open_count(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(operations).where(is_open())).scalar_one()


def stalled_count(connection: Connection, now: datetime) -> int:
    return connection.execute(
        select(func.count()).select_from(operations).where(is_open(), operations.c.updated_at <= now - STALLED_AFTER)
    ).scalar_one()


def of_tenant(connection: Connection, tenant_id: str) -> Sequence[RowMapping]:
    return (
        connection.execute(
            select(operations)
            .where(operations.c.tenant_id == tenant_id)
            .order_by(operations.c.created_at.desc(), operations.c.run_id)
            .limit(MAX_LISTED)
        )
        .mappings()
        .all()
    )


def find(connection: Connection, tenant_id: str, identifier: str) -> RowMapping | None:
    """Return an operation of the tenant by run id, or the latest run of an operation id."""
    return (
        connection.execute(
            select(operations)
            .where(
                operations.c.tenant_id == tenant_id,
                or_(operations.c.run_id == identifier, operations.c.operation_id == identifier),
            )
            .order_by((operations.c.run_id == identifier).desc(), operations.c.created_at.desc())
            .limit(1)
        )
        .mappings()
        .one_or_none()
    )


def find_anywhere(connection: Connection, identifier: str) -> RowMapping | None:
    """Find an operation of any tenant, as `find`, and lock its row."""
    query = (
        select(operations.c.run_id)
        .where(or_(operations.c.run_id == identifier, operations.c.operation_id == identifier))
        .order_by((operations.c.run_id == identifier).desc(), operations.c.created_at.desc())
        .limit(1)
    )
    run_id = connection.scalar(query)
    return None if run_id is None else locked(connection, run_id)


def key_is_revoked(connection: Connection, key_id: str) -> bool:
    """Return whether an API key was revoked or deleted."""
    query = select(api_keys.c.id).where(api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
    return connection.scalar(query) is None


def of_platform(connection: Connection) -> Sequence[RowMapping]:
    """Return the open operations, oldest first, then the newest ended ones, with their tenants' names."""
    columns = select(operations, tenants.c.display_name.label("tenant_name")).join(tenants)
    running = columns.where(is_open()).order_by(operations.c.created_at, operations.c.run_id)
    ended = columns.where(~is_open()).order_by(operations.c.created_at.desc(), operations.c.run_id).limit(MAX_LISTED)
    return [*connection.execute(running).mappings(), *connection.execute(ended).mappings()]


# Executors: the processes that share a PostgreSQL database.

DATABASE_NOW = text(dialect.POSTGRESQL_NOW)


def seen(connection: Connection, executor: str) -> None:
    """Record a heartbeat, by the clock of the database."""
    statement = upsert_insert(connection, executors).values(id=executor, seen_at=DATABASE_NOW)
    connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_={"seen_at": DATABASE_NOW}))


def forget(connection: Connection, executor: str) -> None:
    connection.execute(delete(executors).where(executors.c.id == executor))


def delete_expired(connection: Connection, seconds: int) -> None:
    """Delete the executors without a heartbeat for `seconds`."""
    limit = text(f"{dialect.POSTGRESQL_NOW} - :silence").bindparams(silence=seconds * 1_000_000)
    connection.execute(delete(executors).where(executors.c.seen_at < limit))


def live_executors(connection: Connection) -> set[str]:
    return set(connection.execute(select(executors.c.id)).scalars())


# States that the event stream compares between polls.


def movement(connection: Connection, tenant_ids: Collection[str]) -> dict[str, tuple[int, int, datetime]]:
    """Return number, sum of `seq` and last update of operations, by tenant; progress changes them.

    The last update also differs if an old operation is removed during the progress.
    """
    rows = connection.execute(
        select(operations.c.tenant_id, func.count(), func.sum(operations.c.seq), func.max(operations.c.updated_at))
        .where(operations.c.tenant_id.in_(tenant_ids))
        .group_by(operations.c.tenant_id)
    )
    return {tenant_id: (int(count), int(total), updated_at) for tenant_id, count, total, updated_at in rows}


def latest(connection: Connection, tenant_id: str) -> Sequence[RowMapping]:
    """Return at most MAX_LISTED operations of a tenant: open first, then the newest."""
    return (
        connection.execute(
            select(
                operations.c.run_id,
                operations.c.seq,
                operations.c.status,
                operations.c.resource_type,
                operations.c.resource_id,
            )
            .where(operations.c.tenant_id == tenant_id)
            .order_by(case((is_open(), 0), else_=1), operations.c.created_at.desc())
            .limit(MAX_LISTED)
        )
        .mappings()
        .all()
    )


def tenant_states(connection: Connection, tenant_ids: Collection[str]) -> dict[str, tuple[str, str, datetime]]:
    """Return status, display name and time of the last change, by tenant."""
    rows = connection.execute(
        select(tenants.c.id, tenants.c.status, tenants.c.display_name, tenants.c.updated_at).where(
            tenants.c.id.in_(tenant_ids)
        )
    )
    return {row.id: (row.status, row.display_name, row.updated_at) for row in rows}


@dataclass(frozen=True)
class Changes:
    """Changes in the audit log between two polls."""

    last: int
    """The number of the newest entry in the chain."""
    kinds: Mapping[str, set[str]]
    """Changed members of `SIGNALLED` by tenant."""
    truncated: bool = False
    """Whether there were more than MAX_ENTRIES."""


def changes_since(connection: Connection, last: int | None, tenant_ids: Collection[str]) -> Changes:
    """Return the changes in these tenants after entry `last` of the audit log's chain; none if it is None.

    No lower number can appear later. On PostgreSQL an id can, and an entry gets its number within 100 ms.
    """
    # Lower than before if all entries were dropped.
    newest = max(connection.scalar(select(func.max(audit_log.c.sequence))) or 0, last or 0)
    if last is None or newest <= last:
        return Changes(newest, {})
    rows = connection.execute(
        select(audit_log.c.tenant_id, audit_log.c.operation)
        .where(
            audit_log.c.sequence > last,
            audit_log.c.sequence <= newest,
            audit_log.c.tenant_id.in_(tenant_ids),
            audit_log.c.outcome == "done",
            audit_log.c.operation.not_in(NOT_SIGNALLED),
        )
        .limit(MAX_ENTRIES + 1)
    ).all()
    if len(rows) > MAX_ENTRIES:
        return Changes(newest, {}, truncated=True)
    kinds: dict[str, set[str]] = {}
    for tenant_id, operation in rows:
        kind = operation.partition(".")[0]
        if kind in SIGNALLED:
            kinds.setdefault(tenant_id, set()).add(kind)
    return Changes(newest, kinds)
