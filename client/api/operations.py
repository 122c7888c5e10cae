"""Calls about durable operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.transport.call import Call, Model, Request, path, record, records

if TYPE_CHECKING:
    from client.models.tenants import Operation

OPERATION: Model[Operation] = Model("tenants.Operation")


def get(tenant_id: str, operation_id: str) -> Call[Operation]:
    """Get an operation by its operation id (the latest run) or its run id."""
    route = path("/v1/tenants/{}/operations/{}", tenant_id, operation_id)
    return record(Request("GET", route), OPERATION, ("operationId", "status"))


def list_of(tenant_id: str) -> Call[list[Operation]]:
    """List the newest operations of a tenant, at most 50."""
    return records(Request("GET", path("/v1/tenants/{}/operations", tenant_id)), "operations", OPERATION)
