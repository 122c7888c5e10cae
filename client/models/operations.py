"""Durable operations and their steps."""

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
    """A run of a durable operation.

    `status` is pending, running, completed, failed or cancelled; `progress` is 0 to 100; `error` is a text for users,
    `error_code` is set for some failures only; `result` is set when completed, `counts` are the counts so far.
    `stalled` marks an open run without progress for a minute. Only the operator gets `tenant_name`.
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
        """Return whether the run may still change; true for a status unknown to this version."""
        return self.status not in ("completed", "failed", "cancelled")
