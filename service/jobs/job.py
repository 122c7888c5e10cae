"""A kind of durable work: its interface, and the rules that all kinds share."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import (
    Connection,
    RowMapping,
)

from service.errors import ApiError
from service.jobs import queries
from service.jobs.queries import OPEN

WORKFLOW_ERROR = "WORKFLOW_ERROR"
CANCELLED = "cancelled"
REASON = "cancelled by an operator of the platform; what was changed until then is kept"
MAX_RETRY_SECONDS = 60.0
MIN_RETRY_SECONDS = 0.05


class Job(Protocol):
    """One kind of durable work. The operations row holds the whole state of a run."""

    async def run(self, run_id: str) -> None:
        """Take a run from its stored state to its end. It may be cancelled at any await, and run again."""

    def give_up(self, run_id: str, error: Exception) -> object:
        """End an open run as failed, with an audit entry: `run` has failed too often."""


Jobs = Mapping[str, Job]
"""Jobs by the kind of their operations."""


def retry_delay(attempts: int, pace: float = 0.0) -> float:
    """Return the seconds to wait after a number of attempts: doubled each time, at most a minute.

    Args:
        pace: Seconds between two steps of the job, from which the wait grows.
    """
    return min(MAX_RETRY_SECONDS, max(pace, MIN_RETRY_SECONDS) * 2.0 ** min(attempts, 30))


def internal_error(row: RowMapping, tries: int, error: Exception) -> str:
    """Return the text for a run that failed unexpectedly; it shows no internals of the platform."""
    step = f" at {row['current_step']}" if row["current_step"] else ""
    return (
        f"gave up after {tries} tries{step}: internal error ({type(error).__name__}); "
        "the platform's log has the details"
    )


def end(
    connection: Connection,
    row: RowMapping,
    at: datetime,
    *,
    status: str,
    error: str,
    code: str,
    step_error: str | None = None,
) -> None:
    """End an open run early as `failed` or `cancelled`, its running step as failed. Call with the row locked.

    Args:
        step_error: Error of the step, if it is another than that of the run.
    """
    steps: list[dict[str, Any]] = [
        step | {"status": "failed", "error": step_error or error} if step["status"] in ("running", "retrying") else step
        for step in row["steps"]
    ]
    queries.advance(
        connection,
        row["run_id"],
        at=at,
        status=status,
        error=error,
        error_code=code,
        completed_at=at,
        steps=steps,
    )


def cancel(connection: Connection, row: RowMapping, at: datetime) -> None:
    """End an open operation as cancelled. Call with the row locked.

    Raises:
        ApiError: 409 OPERATION_OVER if it has ended.
    """
    if row["status"] not in OPEN:
        raise ApiError(
            409,
            "OPERATION_OVER",
            f"the operation is {row['status']} already",
            operationId=row["operation_id"],
            runId=row["run_id"],
        )
    end(connection, row, at, status=CANCELLED, error=REASON, code=CANCELLED)
