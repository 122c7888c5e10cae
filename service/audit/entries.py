"""Events and entries of the audit log.

An entry is written in the transaction of its change, which is rolled back if this fails.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection

from service.audit.chain import PENDING
from service.principal import Principal

MAX_TARGET_LENGTH = 300


class AuditEvent(StrEnum):
    """An audited change, `<subject>.<verb>` or `<subject>.<part>.<verb>`. Stored values must not change."""

    ACCOUNT_DELETE = "account.delete"
    ACCOUNT_RESTORE = "account.restore"
    API_KEY_CREATE = "api_key.create"
    API_KEY_DELETE = "api_key.delete"
    API_KEY_REVOKE = "api_key.revoke"
    API_KEY_ROTATE = "api_key.rotate"
    API_KEY_UPDATE = "api_key.update"
    AUDIT_DROP = "audit.drop"
    DEFAULT_TAGS_APPLY = "default_tags.apply"
    DEFAULT_TAGS_APPLY_COMPLETE = "default_tags.apply.complete"
    DEFAULT_TAGS_UNDO = "default_tags.undo"
    DEFAULT_TAGS_UNDO_COMPLETE = "default_tags.undo.complete"
    DEFAULT_TAGS_UPDATE = "default_tags.update"
    DEVICE_APPROVE = "device.approve"
    GROUP_CREATE = "group.create"
    GROUP_DELETE = "group.delete"
    GROUP_MEMBER_ADD = "group.member.add"
    GROUP_MEMBER_REMOVE = "group.member.remove"
    GROUP_UPDATE = "group.update"
    IDENTITY_LINK = "identity.link"
    INTERACTIVE_OPEN = "interactive.open"
    OPERATION_CANCEL = "operation.cancel"
    PLATFORM_STOP = "platform.stop"
    POLICY_ATTACH = "policy.attach"
    POLICY_CREATE = "policy.create"
    POLICY_DELETE = "policy.delete"
    POLICY_DETACH = "policy.detach"
    POLICY_ROLLBACK = "policy.rollback"
    POLICY_UPDATE = "policy.update"
    QUOTA_REQUEST_CREATE = "quota_request.create"
    QUOTA_REQUEST_CREATE_ORGANIZATION = "quota_request.create_organization"
    QUOTA_REQUEST_REVIEW = "quota_request.review"
    RESOURCE_CREATE = "resource.create"
    RESOURCE_DELETE = "resource.delete"
    RESOURCE_RESTART = "resource.restart"
    RESOURCE_START = "resource.start"
    RESOURCE_STOP = "resource.stop"
    RESOURCE_UPDATE = "resource.update"
    SESSION_END = "session.end"
    SESSION_REVOKE_ALL = "session.revoke_all"
    SESSION_START = "session.start"
    TENANT_CREATE = "tenant.create"
    TENANT_PROVISION = "tenant.provision"
    TENANT_RENAME = "tenant.rename"
    WORKLOAD_IDENTITY_CREATE = "workload_identity.create"
    WORKLOAD_IDENTITY_DELETE = "workload_identity.delete"
    WORKLOAD_IDENTITY_EXCHANGE = "workload_identity.exchange"
    WORKLOAD_IDENTITY_ISSUER_REMOVE = "workload_identity.issuer.remove"
    WORKLOAD_IDENTITY_ISSUER_SET = "workload_identity.issuer.set"
    WORKLOAD_IDENTITY_UPDATE = "workload_identity.update"


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
