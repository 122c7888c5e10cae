"""The audit log: who changed what, or tried to. contract: Tenant; checklist N12

An entry is written on the connection of the change itself, so that there is never one without the other:
when the log cannot be written, the change does not happen.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert

from service.access.caller import Caller
from service.db.tables import audit_log


def record(
    connection: Connection,
    caller: Caller,
    *,
    operation: str,
    target: str,
    outcome: str = "done",
    organization_id: str | None = None,
    tenant_id: str | None = None,
    details: Mapping[str, Any] | None = None,
    at: datetime,
) -> None:
    """Add one entry.

    Args:
        connection: the transaction of the change.
        operation: what was done, `<thing>.<verb>`, e.g. `tenant.rename`.
        target: what it was done to, `<thing>:<id>`; at most 300 characters are kept.
        outcome: `done`, `refused` or `failed`.
        details: facts about the change. Never a secret.
    """
    connection.execute(
        insert(audit_log).values(
            at=at,
            request_id=caller.request_id,
            actor_kind=caller.kind,
            actor_id=caller.actor_id,
            credential_id=caller.credential_id,
            organization_id=organization_id,
            tenant_id=tenant_id,
            operation=operation,
            target=target[:300],
            outcome=outcome,
            details=dict(details or {}),
        )
    )
