"""Entries of the audit log, written in the transaction of their change, which is rolled back if this fails."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from service.audit.chain import PENDING
from service.audit.events import AuditEvent
from service.principal import Principal

MAX_TARGET_LENGTH = 300


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
    """Add an entry, to be written at commit.

    Args:
        connection: the transaction of the change.
        target: the object, `<type>:<id>`; cut after MAX_TARGET_LENGTH characters.
        outcome: `done`, `refused` or `failed`.
        details: JSON values without secrets.

    Raises:
        LookupError: the database lacks the hooks of `install_audit_hooks`.
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
            "target": target[:MAX_TARGET_LENGTH],
            "outcome": outcome,
            # As the database returns them, for the digest.
            "details": json.loads(json.dumps(dict(details or {}), allow_nan=False)),
        }
    )
