"""Rows of idempotency keys: requests claim them, and a periodic sweep deletes the expired ones."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, case, delete, select, tuple_

from service.db.dialect import upsert_insert
from service.db.engine import Record
from service.db.tables import idempotency_keys

LIFETIME = timedelta(days=1)

_PRIMARY_KEY = (idempotency_keys.c.actor_id, idempotency_keys.c.operation, idempotency_keys.c.key)


def claim(connection: Connection, values: Mapping[str, Any], at: datetime) -> Record:
    """Insert an idempotency key, or replace it if it has expired; return its stored `request_hash` and `resource_id`.

    It is one statement: of concurrent requests one inserts the key, and the others wait for it and get its values.
    """
    insert = upsert_insert(connection, idempotency_keys).values(**values, created_at=at)
    expired = idempotency_keys.c.created_at < at - LIFETIME
    values_now = {
        # Unchanged columns are set as well, because RETURNING only returns rows that were written.
        name: case((expired, insert.excluded[name]), else_=idempotency_keys.c[name])
        for name in ("request_hash", "resource_id", "created_at")
    }
    return connection.execute(
        insert.on_conflict_do_update(index_elements=_PRIMARY_KEY, set_=values_now).returning(
            idempotency_keys.c.request_hash, idempotency_keys.c.resource_id
        )
    ).one()


def delete_expired(connection: Connection, at: datetime, size: int) -> bool:
    """Delete at most `size` expired keys, skipping locked rows; return whether there may be more."""
    expired = (
        select(*_PRIMARY_KEY)
        .where(idempotency_keys.c.created_at < at - LIFETIME)
        .order_by(idempotency_keys.c.created_at)
        .limit(size)
        .with_for_update(skip_locked=True)
    )
    keys = connection.execute(expired).all()
    if keys:
        connection.execute(delete(idempotency_keys).where(tuple_(*_PRIMARY_KEY).in_([tuple(key) for key in keys])))
    return len(keys) == size
