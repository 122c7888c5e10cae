"""Audit entries of refused changes. Of identical refusals of a principal, all but the first are counted.

The first is an entry at once. Identical ones, with the same credential, event, target, status and code, are one entry a
minute, with their number in `details` (`repeated`). The numbers are in the memory of a process: if it is killed, those
of the last minute are lost.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from service.audit import entries
from service.audit.entries import AuditEvent
from service.clock import Clock
from service.db.engine import Database
from service.principal import Principal

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 60.0
"""How often the platform calls `RefusalLog.flush`."""
MAX_COUNTED = 10_000
"""Different refusals that are counted; further ones are an entry each."""
BATCH_ENTRIES = 100

Owner = tuple[str | None, str | None]
"""The organization and the tenant of an entry."""
BelongsTo = Callable[[Connection, Principal, str | None, str | None], Owner]
"""Returns the organization and the tenant of an entry, given those of the request."""


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
        entries.record(
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
