"""The platform's status and audit log, for the operator."""

from __future__ import annotations

from client.models.base import Instant, Wire


class PlatformStatus(Wire):
    """The running platform: version, data and load."""

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
    """The first invalid entry of the audit log; without an id if the end of the chain is invalid."""

    id: int | None = None
    at: Instant | None = None
    why: str = ""


class DroppedEntries(Wire):
    """The numbers of exported and dropped entries; `at` is the time of the last one."""

    first: int
    last: int
    at: Instant


class AuditVerdict(Wire):
    """The result of verifying the audit log's chain; `head` represents the whole chain.

    `entries` is the number of chained entries that were not dropped, `unsealed` that of entries which the platform adds
    within 100 ms. `unchained` is the number of entries that an older version wrote during an upgrade.
    """

    entries: int
    ok: bool
    first_bad: BadEntry | None
    head: str
    unsealed: int = 0
    unchained: int = 0
    dropped: DroppedEntries | None = None
    chained_since: Instant | None = None


class AuditSegment(Wire):
    """The proof of exported entries, numbers `first` to `last` of the audit log."""

    first: int
    last: int
    begins: Instant
    ends: Instant
    previous_hash: str
    hash: str
    sha256: str
    seal: str


class AuditExport(Wire):
    """A segment of the audit log and its entries as JSON Lines; both None after the last one."""

    segment: AuditSegment | None
    lines: str | None


class SegmentState(Wire):
    """Whether the entries of an exported segment were dropped, or are in the audit log."""

    first: int
    last: int
    dropped: bool


class Stopping(Wire):
    """The response to a stop."""

    status: str


class RestoredAccount(Wire):
    """A deleted account that was restored."""

    id: str
    email: str
    name: str = ""
    restored_at: Instant
