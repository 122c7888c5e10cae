"""`frost platform operations` (ours): the durable operations of the local platform, and their cancellation."""

import os
from typing import Any

import click

from client import records
from client.api import platform as calls
from client.commands.frame import Group
from client.commands.invocation import Invocation
from client.connection import Staff
from client.errors import Exit, FrostError
from client.text import safe

operations = Group("operations", ours=True)


@operations.alone(examples=("frost platform operations -o wide",))
def listed(run: Invocation) -> None:
    """List the durable operations of the local platform, open ones first.

    An open operation that has not moved for a minute is marked as stalled.
    """
    found = run.driver(Staff(os.environ)).call(calls.operations())["operations"]
    run.output.records(records.OPERATION, found)


@operations.leaf(
    "cancel",
    click.Argument(["operation_id"], metavar="OPERATION_ID"),
    ours=True,
    examples=("frost platform operations cancel apply-default-tags-4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5",),
)
def cancel(run: Invocation, operation_id: str) -> None:
    """Cancel an open operation of any tenant.

    OPERATION_ID is an operation id, which means its latest run, or a run id. What the operation changed until then is
    kept: an apply can be undone or started again. A cancelled provisioning is started again with the platform.
    """
    try:
        found: dict[str, Any] = run.driver(Staff(os.environ)).call(calls.cancel_operation(operation_id))
    except FrostError as error:
        if error.exit_code is Exit.NOT_FOUND:
            error.message = f"operation {safe(operation_id, 130)} not found"
            error.hint = "list the operations: frost platform operations -o wide"
        raise
    named = f"operation {safe(found.get('operationId'), 120)}, run {safe(found.get('runId'), 60)}"
    run.output.done(f"cancelled {named} of tenant {safe(found.get('tenantId'), 60)}", found)
