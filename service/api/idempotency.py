"""Handles `Idempotency-Key`: a repeated request returns the resource that the first one created.

A client without an answer (a time-out, a lost connection) may repeat the request. A key is kept for a day.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection

from service.audit.events import AuditEvent
from service.authz.context import AuthorizationContext
from service.db.idempotency_keys import claim
from service.errors import ApiError


def resolve_idempotency_key(
    connection: Connection,
    context: AuthorizationContext,
    key: str | None,
    event: AuditEvent,
    request: Sequence[Any],
    new: str,
    at: datetime,
) -> str:
    """Return the id for a resource to create: `new`, or the id that an earlier request under the same key got.

    Args:
        request: the parent and all members of the request as JSON values; one key requires the same values.

    Raises:
        ApiError: 409 IDEMPOTENCY_KEY_REUSED for another request, with the `id` of the resource.
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
    """Return the digest by which two requests under one idempotency key are compared."""
    return sha256(json.dumps(request).encode()).hexdigest()


def check_same_request(stored: str, now: str, **details: str) -> None:
    """Refuse another request under a used idempotency key.

    Args:
        details: members of the error that identify the resource of the first request.

    Raises:
        ApiError: 409 IDEMPOTENCY_KEY_REUSED.
    """
    if stored != now:
        raise ApiError(
            409,
            "IDEMPOTENCY_KEY_REUSED",
            "this Idempotency-Key was used for another request",
            details=details or None,
            hint="send the request under a new key",
        )
