"""A kind of durable work (job), and the rules of all jobs: attempts, failure and cancellation.

A job fails after `max_tries` failed attempts in a row (the setting FROST_PLATFORM_OPERATION_TRIES). The waits between
attempts double up to 60 seconds (`retry_delay`). `Attempts` records them, except in provisioning, which stores the
attempts of each step.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import (
    Connection,
    RowMapping,
)

from service.db.dialect import is_unreachable
from service.errors import ApiError
from service.jobs import queries
from service.jobs.queries import OPEN

WORKFLOW_ERROR = "WORKFLOW_ERROR"
CANCELLED = "cancelled"
REASON = "cancelled by an operator of the platform; earlier changes are kept"
MAX_RETRY_SECONDS = 60.0
MIN_RETRY_SECONDS = 0.05


class Job(Protocol):
    """The operations row has the whole state of a run."""

    async def run(self, run_id: str) -> None:
        """Run from the stored state to the end. May be cancelled at any await, and repeated."""

    def give_up(self, run_id: str, error: Exception) -> object:
        """End an open run as failed, with an audit entry, after too many attempts."""


Jobs = Mapping[str, Job]
"""Jobs by operation kind."""


def retry_delay(attempts: int, pace: float = 0.0, max_seconds: float = MAX_RETRY_SECONDS) -> float:
    """Return the seconds to wait after failed attempts: doubled each time, at most `max_seconds`.

    Args:
        pace: Seconds between two steps of the job; the first wait is twice as long.
    """
    return min(max_seconds, max(pace, MIN_RETRY_SECONDS) * 2.0 ** min(attempts, 30))


class Attempts:
    """Failed attempts of a job in a row, at most `max_tries`.

    An attempt that fails because the database is unreachable lengthens the wait but does not count, because no failure
    could be stored either.
    """

    def __init__(self, max_tries: int, pace: float = 0.0, max_retry_seconds: float = MAX_RETRY_SECONDS) -> None:
        self.max_tries = max_tries
        self.pace = pace
        self.max_retry_seconds = max_retry_seconds
        self.reset()

    def reset(self) -> None:
        self.waits = 0
        self.failures = 0

    def record(self, error: Exception) -> bool:
        """Record a failure; return whether to give up the job."""
        self.waits += 1
        self.failures += not is_unreachable(error)
        return self.failures >= self.max_tries

    def delay(self) -> float:
        return retry_delay(self.waits, self.pace, self.max_retry_seconds)


def internal_error(row: RowMapping, tries: int, error: Exception) -> str:
    """Return the error text of an unexpected failure, without internals."""
    step = f" at {row['current_step']}" if row["current_step"] else ""
    return (
        f"failed after {tries} attempts{step}: internal error ({type(error).__name__}); "
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
    """End an open run early, its running step as failed. Call with the row locked.

    Args:
        step_error: Error of the step, if it differs from that of the run.
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
            f"the operation is already {row['status']}",
            operationId=row["operation_id"],
            runId=row["run_id"],
        )
    end(connection, row, at, status=CANCELLED, error=REASON, code=CANCELLED)
