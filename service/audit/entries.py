"""Events and entries of the audit log, and the entries of refused changes.

An entry is written in the transaction of its change, which is rolled back if this fails.

Of identical refusals of a principal, all but the first are counted. The first is an entry at once. Identical ones, with
the same credential, event, target, status and code, are one entry a minute, with their number in `details`
(`repeated`). The numbers are in the memory of a process: if it is killed, those of the last minute are lost.
"""

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection

from service.audit.chain import PENDING
from service.clock import Clock
from service.db.engine import Database
from service.principal import Principal

logger = logging.getLogger(__name__)

MAX_TARGET_LENGTH = 300

FLUSH_SECONDS = 60.0
"""How often the platform calls `RefusalLog.flush`."""
MAX_COUNTED = 10_000
"""Different refusals that are counted; further ones are an entry each."""
BATCH_ENTRIES = 100

Owner = tuple[str | None, str | None]
"""The organization and the tenant of an entry."""
BelongsTo = Callable[[Connection, Principal, str | None, str | None], Owner]
"""Returns the organization and the tenant of an entry, given those of the request."""


class AuditEvent(StrEnum):
    """An audited change, `<subject>.<verb>` or `<subject>.<part>.<verb>`. Stored values must not change."""

    ACCOUNT_DELETE = "account.delete"
    ACCOUNT_RESTORE = "account.restore"
    API_KEY_CREATE = "api_key.create"
    API_KEY_DELETE = "api_key.delete"
    API_KEY_REVOKE = "api_key.revoke"
    API_KEY_ROTATE = "api_key.rotate"
    API_KEY_UPDATE = "api_key.update"
    AUDIT_CHAIN_ACCEPT = "audit.chain.accept"
    AUDIT_CHAIN_ADOPT = "audit.chain.adopt"
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


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused change. The ids are those of the request, which the principal may not belong to."""

    event: AuditEvent
    target: str
    status: int
    code: str
    organization_id: str | None
    tenant_id: str | None


_Key = tuple[str, str, str | None, Refusal]


@dataclass(slots=True)
class _Count:
    key: _Key
    principal: Principal
    """Of the latest request."""
    refusals: int = 0
    """Not written yet."""
    is_new: bool = True
    """Since the last flush."""
    owner: Owner | None = None
    """Of the first entry, so that a removed principal cannot hide its refusals."""


class RefusalLog:
    """Thread-safe."""

    def __init__(
        self, database: Database, clock: Clock, belongs_to: BelongsTo, *, max_counted: int = MAX_COUNTED
    ) -> None:
        self._database = database
        self._clock = clock
        self._belongs_to = belongs_to
        self._max_counted = max_counted
        self._lock = threading.Lock()
        self._counts: dict[_Key, _Count] = {}
        self._closed = False

    def record(self, principal: Principal, refusal: Refusal) -> None:
        """Write the entry of a refusal, in its own transaction, or count the refusal."""
        key = (principal.kind, principal.actor_id, principal.credential_id, refusal)
        with self._lock:
            count = self._counts.get(key)
            if count is not None:
                count.principal = principal
                count.refusals += 1
                return
            if not self._closed and len(self._counts) < self._max_counted:
                self._counts[key] = _Count(key, principal)
        owner, missing = None, 0
        try:
            with self._database.write() as connection:
                owner = self._owner_of(connection, principal, refusal)
                self._add_entry(connection, principal, refusal, owner)
        except Exception:
            # A full disk must not replace the refusal by another error. A counted refusal is written later.
            logger.exception("a refusal could not be written to the audit log")
            missing = 1
        with self._lock:
            if (count := self._counts.get(key)) is not None:
                count.owner = count.owner or owner
                count.refusals += missing

    def flush(self) -> None:
        """Write an entry for each kind of counted refusals; forget kinds that were not repeated."""
        with self._lock:
            due = [replace(count) for count in self._counts.values() if count.refusals]
            self._counts = {key: count for key, count in self._counts.items() if count.refusals or count.is_new}
            for count in self._counts.values():
                count.refusals, count.is_new = 0, False
        if failed := self._write(due):
            with self._lock:
                for count in failed:
                    self._counts.setdefault(count.key, replace(count, refusals=0)).refusals += count.refusals

    def close(self) -> None:
        """Write all counted refusals; later refusals are single entries. Call it when no `flush` runs."""
        with self._lock:
            self._closed = True
            due = [count for count in self._counts.values() if count.refusals]
            self._counts = {}
        if failed := self._write(due):
            logger.error("%s counted refusals were lost", sum(count.refusals for count in failed))

    def _write(self, due: Sequence[_Count]) -> list[_Count]:
        """Write the entries with the numbers; return the entries that could not be written."""
        failed: list[_Count] = []
        for start in range(0, len(due), BATCH_ENTRIES):
            batch = due[start : start + BATCH_ENTRIES]
            try:
                with self._database.write() as connection:
                    for count in batch:
                        *_, refusal = count.key
                        owner = count.owner or self._owner_of(connection, count.principal, refusal)
                        self._add_entry(connection, count.principal, refusal, owner, repeated=count.refusals)
            except Exception:
                logger.exception("counted refusals could not be written to the audit log")
                failed += batch
        return failed

    def _owner_of(self, connection: Connection, principal: Principal, refusal: Refusal) -> Owner:
        return self._belongs_to(connection, principal, refusal.organization_id, refusal.tenant_id)

    def _add_entry(
        self, connection: Connection, principal: Principal, refusal: Refusal, owner: Owner, **details: int
    ) -> None:
        organization_id, tenant_id = owner
        record(
            connection,
            principal,
            event=refusal.event,
            target=refusal.target,
            outcome="refused",
            organization_id=organization_id,
            tenant_id=tenant_id,
            details={"status": refusal.status, "code": refusal.code, **details},
            at=self._clock.now(),
        )
