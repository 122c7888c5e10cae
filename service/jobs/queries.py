"""The SQL of durable work: the operations table and what the event stream looks at. No decisions here."""

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

from service.audit.chain import LOWEST
from service.authn.workload_tokens import has_grant
from service.db import dialect
from service.db.engine import upsert_insert
from service.db.tables import (
    api_keys,
    audit_log,
    executors,
    operations,
    sessions,
    tenants,
    users,
    workload_identities,
    workload_tokens,
)
from service.principals.conditions import LIVE_KEY, LIVE_SESSION

OPEN = ("pending", "running")
LISTED = 50
# An open operation that has not moved for so long is flagged. design: Durable operations
STILL = timedelta(minutes=1)
SIGNALLED = frozenset(("policy", "group", "api_key", "workload_identity", "default_tags", "quota_request", "resource"))
"""The subjects of audit entries that are signalled. Tenants and operations have signals of their own."""
NOT_SIGNALLED = ("workload_identity.exchange",)
"""Operations on such a subject that change nothing that a reader shows."""
MAX_ENTRIES = 1000
"""Changes in the tenants of open streams, between two looks, beyond which readers have to read everything again."""


def is_open() -> ColumnElement[bool]:
    return operations.c.status.in_(OPEN)


def add(connection: Connection, row: Mapping[str, Any]) -> None:
    connection.execute(insert(operations).values(**row))


def locked(connection: Connection, run_id: str) -> RowMapping | None:
    """The run's row, held against other writers until the transaction ends.

    SQLite has no row locks: there the write transaction itself is the only one.
    """
    statement = select(operations).where(operations.c.run_id == run_id).with_for_update()
    return connection.execute(statement).mappings().one_or_none()


def advance(connection: Connection, run_id: str, *, at: datetime, **changes: Any) -> None:
    """Changes the run's row and moves `seq`, which is how everybody else sees that it moved."""
    connection.execute(
        update(operations)
        .where(operations.c.run_id == run_id)
        .values(seq=operations.c.seq + 1, updated_at=at, **changes)
    )


def kind_of(connection: Connection, run_id: str) -> str | None:
    """The kind of an open run; None when it is over or unknown."""
    return connection.execute(
        select(operations.c.kind).where(operations.c.run_id == run_id, is_open())
    ).scalar_one_or_none()


def tenant_of(connection: Connection, run_id: str) -> str:
    """The tenant of a run that there is."""
    return str(connection.scalar(select(operations.c.tenant_id).where(operations.c.run_id == run_id)))


def open_run(connection: Connection, tenant_id: str, kind: str) -> RowMapping | None:
    """The tenant's pending or running operation of a kind; there is at most one."""
    query = select(operations).where(operations.c.tenant_id == tenant_id, operations.c.kind == kind, is_open())
    return connection.execute(query).mappings().one_or_none()


def tenants_without_run(connection: Connection, kind: str) -> Sequence[str]:
    """Tenants that are still being provisioned although no run of the kind is open, in the order they were made."""
    run = select(operations.c.run_id).where(
        operations.c.tenant_id == tenants.c.id, operations.c.kind == kind, is_open()
    )
    query = select(tenants.c.id).where(tenants.c.status == "provisioning", ~run.exists())
    return connection.scalars(query.order_by(tenants.c.created_at, tenants.c.id)).all()


def is_provisioning(connection: Connection, tenant_id: str) -> bool:
    """Whether a tenant is still being provisioned."""
    return connection.scalar(select(tenants.c.status).where(tenants.c.id == tenant_id)) == "provisioning"


def open_runs(connection: Connection, run_ids: Collection[str] | None = None) -> list[str]:
    """Run ids of open operations, oldest first; among `run_ids` when given."""
    statement = select(operations.c.run_id).where(is_open()).order_by(operations.c.created_at, operations.c.run_id)
    if run_ids is not None:
        statement = statement.where(operations.c.run_id.in_(run_ids))
    return list(connection.execute(statement).scalars())


def open_count(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(operations).where(is_open())).scalar_one()


def stalled_count(connection: Connection, now: datetime) -> int:
    """How many open operations have not moved for a minute."""
    return connection.execute(
        select(func.count()).select_from(operations).where(is_open(), operations.c.updated_at <= now - STILL)
    ).scalar_one()


def of_tenant(connection: Connection, tenant_id: str) -> Sequence[RowMapping]:
    """The tenant's operations, newest first, at most 50."""
    return (
        connection.execute(
            select(operations)
            .where(operations.c.tenant_id == tenant_id)
            .order_by(operations.c.created_at.desc(), operations.c.run_id)
            .limit(LISTED)
        )
        .mappings()
        .all()
    )


def find(connection: Connection, tenant_id: str, identifier: str) -> RowMapping | None:
    """One operation of the tenant, by run id, else the latest run of an operation id."""
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
    """One operation of any tenant, by run id, else the latest run of an operation id; locked as by `locked`."""
    query = (
        select(operations.c.run_id)
        .where(or_(operations.c.run_id == identifier, operations.c.operation_id == identifier))
        .order_by((operations.c.run_id == identifier).desc(), operations.c.created_at.desc())
        .limit(1)
    )
    run_id = connection.scalar(query)
    return None if run_id is None else locked(connection, run_id)


def key_is_revoked(connection: Connection, key_id: str) -> bool:
    """Whether an API key was revoked, or is not there any more."""
    query = select(api_keys.c.id).where(api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
    return connection.scalar(query) is None


def of_platform(connection: Connection) -> Sequence[RowMapping]:
    """Every open operation (oldest first), then the newest 50 of the others, each with its tenant's name."""
    columns = select(operations, tenants.c.display_name.label("tenant_name")).join(tenants)
    running = columns.where(is_open()).order_by(operations.c.created_at, operations.c.run_id)
    over = columns.where(~is_open()).order_by(operations.c.created_at.desc(), operations.c.run_id).limit(LISTED)
    return [*connection.execute(running).mappings(), *connection.execute(over).mappings()]


# Who runs operations, where several processes share a PostgreSQL database.

DATABASE_NOW = text("(extract(epoch FROM clock_timestamp()) * 1000000)::bigint")


def seen(connection: Connection, executor: str) -> None:
    """Notes that the executor lives, on the database's clock."""
    statement = upsert_insert(connection, executors).values(id=executor, seen_at=DATABASE_NOW)
    connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_={"seen_at": DATABASE_NOW}))


def forget(connection: Connection, executor: str) -> None:
    connection.execute(delete(executors).where(executors.c.id == executor))


def delete_expired(connection: Connection, seconds: int) -> None:
    """Forgets executors that were not seen for so long."""
    limit = text("(extract(epoch FROM clock_timestamp()) * 1000000)::bigint - :silence").bindparams(
        silence=seconds * 1_000_000
    )
    connection.execute(delete(executors).where(executors.c.seen_at < limit))


def live_executors(connection: Connection) -> set[str]:
    return set(connection.execute(select(executors.c.id)).scalars())


def try_recovery_lock(connection: Connection) -> bool:
    """Try to take the recovery lock for this transaction."""
    return bool(connection.execute(select(func.pg_try_advisory_xact_lock(dialect.RECOVERY))).scalar_one())


# What the event stream compares from one look to the next.


def movement(connection: Connection, tenant_ids: Collection[str]) -> dict[str, tuple[int, int]]:
    """Per tenant with operations: how many, and the sum of their `seq`; any movement changes the pair."""
    rows = connection.execute(
        select(operations.c.tenant_id, func.count(), func.sum(operations.c.seq))
        .where(operations.c.tenant_id.in_(tenant_ids))
        .group_by(operations.c.tenant_id)
    )
    return {tenant_id: (int(count), int(total)) for tenant_id, count, total in rows}


def latest(connection: Connection, tenant_id: str) -> Sequence[RowMapping]:
    """What a signal says of the tenant's open and newest operations."""
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
            .limit(LISTED)
        )
        .mappings()
        .all()
    )


def tenant_states(connection: Connection, tenant_ids: Collection[str]) -> dict[str, tuple[str, str, datetime]]:
    """Per tenant: status, display name, last change."""
    rows = connection.execute(
        select(tenants.c.id, tenants.c.status, tenants.c.display_name, tenants.c.updated_at).where(
            tenants.c.id.in_(tenant_ids)
        )
    )
    return {row.id: (row.status, row.display_name, row.updated_at) for row in rows}


@dataclass(frozen=True)
class Changes:
    """The changes that the audit log recorded between two looks."""

    last: int
    """The newest entry."""
    things: Mapping[str, set[str]]
    """Per tenant: what was changed, a member of `SIGNALLED`."""
    cut: bool = False
    """Whether there were too many to look at."""


def changes_since(connection: Connection, last: int | None, tenant_ids: Collection[str]) -> Changes:
    """What was changed in these tenants after the audit entry `last`; nothing at the first look.

    An entry is written in the transaction of its change, and transactions that add entries wait for each other: an
    entry with a lower id never appears later.
    """
    newest = connection.scalar(select(func.max(audit_log.c.id)))
    newest = LOWEST if newest is None else newest
    if last is None or newest <= last:
        return Changes(newest, {})
    rows = connection.execute(
        select(audit_log.c.tenant_id, audit_log.c.operation)
        .where(
            audit_log.c.id > last,
            audit_log.c.id <= newest,
            audit_log.c.tenant_id.in_(tenant_ids),
            audit_log.c.outcome == "done",
            audit_log.c.operation.not_in(NOT_SIGNALLED),
        )
        .limit(MAX_ENTRIES + 1)
    ).all()
    if len(rows) > MAX_ENTRIES:
        return Changes(newest, {}, cut=True)
    things: dict[str, set[str]] = {}
    for tenant_id, operation in rows:
        thing = operation.partition(".")[0]
        if thing in SIGNALLED:
            things.setdefault(tenant_id, set()).add(thing)
    return Changes(newest, things)


@dataclass(frozen=True)
class Credentials:
    """Sessions, keys and workload identities behind open streams, or those among them that are still good."""

    sessions: frozenset[str]
    keys: frozenset[str]
    workloads: frozenset[str]


def live_credentials(connection: Connection, held: Credentials, now: datetime) -> Credentials:
    """Those that are neither ended, revoked nor expired at `now`, and whose person or grant is still there."""
    live_sessions = (
        connection.execute(
            select(sessions.c.id).join(users).where(sessions.c.id.in_(held.sessions), LIVE_SESSION), {"now": now}
        ).scalars()
        if held.sessions
        else ()
    )
    live_keys = (
        connection.execute(
            select(api_keys.c.id).join(users).where(api_keys.c.id.in_(held.keys), LIVE_KEY), {"now": now}
        ).scalars()
        if held.keys
        else ()
    )
    # Tokens of one identity may all do the same, so any that has not ended will do.
    bound = (
        connection.execute(
            select(workload_identities.c.tenant_id, workload_identities.c.id, workload_identities.c.scopes).where(
                workload_identities.c.id.in_(
                    select(workload_tokens.c.identity_id).where(
                        workload_tokens.c.identity_id.in_(held.workloads), workload_tokens.c.expires_at > now
                    )
                )
            )
        ).all()
        if held.workloads
        else ()
    )
    live_workloads = (row.id for row in bound if has_grant(connection, row.tenant_id, row.id, row.scopes))
    return Credentials(frozenset(live_sessions), frozenset(live_keys), frozenset(live_workloads))
