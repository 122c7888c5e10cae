"""The audit log: who changed what, and which changes were refused or failed.

An entry is written in the transaction of its change: if the entry cannot be written, the change is rolled back.
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
    principal: Principal,
    *,
    event: AuditEvent,
    target: str,
    outcome: str = "done",
    organization_id: str | None = None,
    tenant_id: str | None = None,
    details: Mapping[str, Any] | None = None,
    at: datetime,
) -> None:
    """Add an entry, which is written when the transaction commits.

    Args:
        connection: the transaction of the change.
        target: the changed object, `<type>:<id>`; cut after 300 characters.
        outcome: `done`, `refused` or `failed`.
        details: JSON values, never a secret.

    Raises:
        LookupError: the audit hooks are not installed on the database (`install_audit_hooks`).
    """
    entries = connection.info.get(PENDING)
    if entries is None:
        raise LookupError("audit hooks are not installed on this database")
    entries.append(
        {
            "at": at,
            "request_id": principal.request_id,
            "actor_kind": principal.kind,
            "actor_id": principal.actor_id,
            "credential_id": principal.credential_id,
            "organization_id": organization_id,
            "tenant_id": tenant_id,
            "operation": event.value,
            "target": target[:300],
            "outcome": outcome,
            # As the database returns them, because the digest contains them.
            "details": json.loads(json.dumps(dict(details or {}), allow_nan=False)),
        }
    )
