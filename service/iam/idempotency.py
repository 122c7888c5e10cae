"""Making things under an `Idempotency-Key`: the same request again is answered with what the first one made.

Whoever saw no answer (a time-out, a lost connection) may send the request again. A key is kept for a day.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from service.access.authority import Access
from service.tenants.rules import request_hash, require_same_request
from service.tenants.store import claim


def made_under(
    connection: Connection,
    access: Access,
    key: str | None,
    operation: str,
    request: Sequence[str],
    new: str,
    at: datetime,
) -> str:
    """The id of what a request makes: `new`, or of what an earlier one under the same key has made.

    Args:
        request: what two requests under one key have in common, as it will be stored.

    Raises:
        Refusal: 409 IDEMPOTENCY_KEY_REUSED for another request, with the `id` of what was made.
    """
    if key is None:
        return new
    asked = request_hash(str(access.tenant_id), *request)
    named = {"actor_id": access.caller.key_id or str(access.caller.user_id), "operation": operation, "key": key}
    claimed = claim(connection, named | {"request_hash": asked, "resource_id": new}, at)
    require_same_request(claimed.request_hash, asked, id=claimed.resource_id)
    return str(claimed.resource_id)
