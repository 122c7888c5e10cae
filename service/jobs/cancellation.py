"""Cancels an open operation for an operator of the platform."""

from datetime import datetime

from sqlalchemy import Connection, RowMapping

from service.errors import ApiError
from service.jobs import job, queries

CANCELLED = "cancelled"
REASON = "cancelled by an operator of the platform; what was changed until then is kept"


def cancel(connection: Connection, row: RowMapping, at: datetime) -> None:
    """End an open operation as cancelled. Call with the row locked.

    Raises:
        ApiError: 409 OPERATION_OVER if it has ended.
    """
    if row["status"] not in queries.OPEN:
        raise ApiError(
            409,
            "OPERATION_OVER",
            f"the operation is {row['status']} already",
            operationId=row["operation_id"],
            runId=row["run_id"],
        )
    job.end(connection, row, at, status=CANCELLED, error=REASON, code=CANCELLED)
