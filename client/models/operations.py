"""Durable operations and their steps. Source: facts 2.9; design: Durable operations."""

from __future__ import annotations

from typing import Any

from client.models.base import Instant, Wire


class Step(Wire):
    """A step of an operation; `status` is pending, running, retrying, completed or failed."""

    name: str
    status: str
    attempts: int = 0
    started_at: Instant | None = None
    completed_at: Instant | None = None
    error: str | None = None


class Operation(Wire):
    """One run of a durable operation.

    `status` is pending, running, completed, failed or cancelled; `progress` 0 to 100; `error` is prose for people,
    `error_code` only on some failures; `result` only when completed, `counts` what is counted so far. `stalled`
    flags an open one that has not moved for a minute. `tenant_name` comes only to the platform's staff.
    """

    operation_id: str
    run_id: str = ""
    status: str
    resource_type: str = ""
    resource_id: str | None = None
    tenant_id: str = ""
    tenant_name: str | None = None
    kind: str = ""
    progress: float = 0
    current_step: str | None = None
    steps: tuple[Step, ...] = ()
    created_at: Instant
    started_at: Instant | None = None
    completed_at: Instant | None = None
    updated_at: Instant | None = None
    seq: int = 0
    stalled: bool = False
    error: str | None = None
    error_code: str | None = None
    result: Any = None
    counts: Any = None
    started_by: str | None = None

    @property
    def open(self) -> bool:
        """Whether it may still change; a status this version does not know counts as open."""
        return self.status not in ("completed", "failed", "cancelled")
