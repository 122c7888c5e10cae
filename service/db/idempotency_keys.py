"""The rows of idempotency keys: claimed by requests, deleted by the periodic sweep once they have expired."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, case, delete, select, tuple_

from service.db.engine import Record, upsert_insert
from service.db.tables import idempotency_keys

LIFETIME = timedelta(days=1)


_PRIMARY_KEY = (idempotency_keys.c.actor_id, idempotency_keys.c.operation, idempotency_keys.c.key)


def claim(connection: Connection, values: Mapping[str, Any], at: datetime) -> Record:
    """Take an idempotency key unless it is taken; return the `request_hash` and `resource_id` it has now.

    One statement, so that of several concurrent requests one takes the key, and the others wait for it and get its
    values. An expired key is free: it gets the new values.
    """
    insert = upsert_insert(connection, idempotency_keys).values(**values, created_at=at)
    expired = idempotency_keys.c.created_at < at - LIFETIME
    kept = {
        # An unchanged column is set as well: only a row that was written is returned.
        name: case((expired, insert.excluded[name]), else_=idempotency_keys.c[name])
        for name in ("request_hash", "resource_id", "created_at")
    }
    return connection.execute(
        insert.on_conflict_do_update(index_elements=_PRIMARY_KEY, set_=kept).returning(
            idempotency_keys.c.request_hash, idempotency_keys.c.resource_id
        )
    ).one()


def delete_expired(connection: Connection, at: datetime, size: int) -> bool:
    """Delete at most `size` expired keys; return whether there may be more.

    Keys that a request holds are skipped, so that neither waits for the other.
    """
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
