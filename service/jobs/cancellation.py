"""Cancelling durable work for the operator of the platform. The operation's row decides, as everywhere else."""

from datetime import datetime

from sqlalchemy import Connection, RowMapping

from service.errors import ApiError
from service.jobs import queries

CANCELLED = "cancelled"
REASON = "cancelled by an operator of the platform; what was changed until then is kept"


def cancel(connection: Connection, row: RowMapping, at: datetime) -> None:
    """End an open operation as cancelled. Call it with the row locked.

    Raises:
        Refusal: 409 OPERATION_OVER, it has ended already.
    """
    if row["status"] not in queries.OPEN:
        raise ApiError(
            409,
            "OPERATION_OVER",
            f"the operation is {row['status']} already",
            operationId=row["operation_id"],
            runId=row["run_id"],
        )
    queries.advance(
        connection,
        row["run_id"],
        at=at,
        status=CANCELLED,
        error=REASON,
        error_code=CANCELLED,
        completed_at=at,
        steps=[
            step | {"status": "failed", "error": REASON} if step["status"] in ("running", "retrying") else step
            for step in row["steps"]
        ],
    )
