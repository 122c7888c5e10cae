"""Requests that create something under an `Idempotency-Key`: a repeated request gets what the first one created.

A client that got no answer (a time-out, a lost connection) may send the request again. A key is kept for a day.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from service.access.authority import Access
from service.db.idempotency_keys import claim
from service.tenants.rules import request_hash, require_same_request


def made_under(
    connection: Connection,
    access: Access,
    key: str | None,
    operation: str,
    request: Sequence[Any],
    new: str,
    at: datetime,
) -> str:
    """Return the id for a resource to create: `new`, or the id that an earlier request under the same key got.

    Args:
        request: the place and all members of the request, as JSON values; they must be the same under one key.

    Raises:
        Refusal: 409 IDEMPOTENCY_KEY_REUSED for another request, with the `id` of the resource.
    """
    if key is None:
        return new
    digest = request_hash(*request)
    actor_id = access.caller.key_id or access.caller.actor_id
    row = {"actor_id": actor_id, "operation": operation, "key": key, "request_hash": digest, "resource_id": new}
    claimed = claim(connection, row, at)
    require_same_request(claimed.request_hash, digest, id=claimed.resource_id)
    return str(claimed.resource_id)
