"""Handles `Idempotency-Key`: a repeated request creates nothing and finds the resource of the first request.

The route decides about the response: usually the current resource; for an API key a refusal, because its secret
is returned only once. Keys expire after a day.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, case

from service.audit.entries import AuditEvent
from service.authz.context import AuthorizationContext
from service.db.dialect import upsert_insert
from service.db.engine import Record
from service.db.tables import idempotency_keys
from service.errors import ApiError

LIFETIME = timedelta(days=1)
"""How long a key is kept."""
_PRIMARY_KEY = (idempotency_keys.c.actor_id, idempotency_keys.c.operation, idempotency_keys.c.key)


def resolve_idempotency_key(
    connection: Connection,
    context: AuthorizationContext,
    key: str | None,
    event: AuditEvent,
    request: Sequence[Any],
    new: str,
    at: datetime,
) -> str:
    """Return the id of the resource to create: `new`, or the id from an earlier request with the same key.

    Args:
        request: the parent and all members as JSON values, which must be equal for the same key.

    Raises:
        ApiError: 409 IDEMPOTENCY_KEY_REUSED for different values, with the `id` of the resource.
    """
    if key is None:
        return new
    digest = request_hash(*request)
    actor_id = context.principal.key_id or context.principal.actor_id
    row = {"actor_id": actor_id, "operation": event.value, "key": key, "request_hash": digest, "resource_id": new}
    claimed = claim(connection, row, at)
    check_same_request(claimed.request_hash, digest, id=claimed.resource_id)
    return str(claimed.resource_id)


def request_hash(*request: Any) -> str:
    return sha256(json.dumps(request).encode()).hexdigest()


def check_same_request(stored: str, now: str, **details: str) -> None:
    """Raise 409 IDEMPOTENCY_KEY_REUSED with `details` if the digests of two requests differ."""
    if stored != now:
        raise ApiError(
            409,
            "IDEMPOTENCY_KEY_REUSED",
            "this Idempotency-Key was used for another request",
            details=details or None,
            hint="send the request under a new key",
        )


def claim(connection: Connection, values: Mapping[str, Any], at: datetime) -> Record:
    """Insert an idempotency key or replace an expired key; return its stored `request_hash` and `resource_id`.

    A single statement, so that concurrent requests wait for the first and get its values.
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
