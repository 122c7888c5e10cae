"""The audit log: who changed what, or tried to. contract: Tenant; checklist N12

An entry is written in the transaction of the change itself, so that there is never one without the other: when the
log cannot be written, the change does not happen.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from service.audit.chain import PENDING
from service.audit.events import AuditEvent
from service.principal import Principal


def record(
    connection: Connection,
    caller: Principal,
    *,
    event: AuditEvent,
    target: str,
    outcome: str = "done",
    organization_id: str | None = None,
    tenant_id: str | None = None,
    details: Mapping[str, Any] | None = None,
    at: datetime,
) -> None:
    """Add one entry. It takes its place in the chain, and is written, when the transaction is committed.

    Args:
        connection: the transaction of the change.
        target: what it was done to, `<thing>:<id>`; at most 300 characters are kept.
        outcome: `done`, `refused` or `failed`.
        details: facts about the change, as JSON has them. Never a secret.

    Raises:
        LookupError: the database has no audit log that is kept (`audit_chain.keep`).
    """
    entries = connection.info.get(PENDING)
    if entries is None:
        raise LookupError("nobody keeps the audit log of this database")
    entries.append(
        {
            "at": at,
            "request_id": caller.request_id,
            "actor_kind": caller.kind,
            "actor_id": caller.actor_id,
            "credential_id": caller.credential_id,
            "organization_id": organization_id,
            "tenant_id": tenant_id,
            "operation": event.value,
            "target": target[:300],
            "outcome": outcome,
            # As it will be read back.
            "details": json.loads(json.dumps(dict(details or {}), allow_nan=False)),
        }
    )
