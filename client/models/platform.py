"""The platform as its staff sees it. Source: design: The local platform."""

from __future__ import annotations

from client.models.base import Instant, Wire


class PlatformStatus(Wire):
    """A running platform: which program, on what data, with how much to do."""

    version: str
    pid: int
    started_at: Instant
    world: str = ""
    database: str = ""
    socket: str | None = None
    schema_revision: str = ""
    open_operations: int = 0
    stalled_operations: int = 0
    tenants: int = 0
    resources: int = 0


class BadEntry(Wire):
    """The first entry of the audit log that is not as it was written; without an id where the end of the chain is."""

    id: int | None = None
    at: Instant | None = None
    why: str = ""


class AuditVerdict(Wire):
    """Whether the audit log's chain is whole; `head` stands for all of it.

    `unchained` counts entries of an older version, written beside this one during an upgrade.
    """

    entries: int
    ok: bool
    first_bad: BadEntry | None
    head: str
    unchained: int = 0
    chained_since: Instant | None = None


class Stopping(Wire):
    """The answer to a stop."""

    status: str


class RestoredAccount(Wire):
    """An account that was deleted and is back."""

    id: str
    email: str
    name: str = ""
    restored_at: Instant
