"""Calls about durable operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.transport.request import Call, Request, path

if TYPE_CHECKING:
    import builtins

    from client.models.operations import Operation
    from client.transport.async_client import AsyncClient

MODEL = "operations.Operation"


def get(tenant_id: str, operation_id: str) -> Call:
    """Get an operation by its operation id (the latest run) or its run id."""
    route = path("/v1/tenants/{}/operations/{}", tenant_id, operation_id)
    return Call(Request("GET", route), model=MODEL, needs=("operationId", "status"))


def list_of(tenant_id: str) -> Call:
    """List the newest operations of a tenant, at most 50."""
    return Call(Request("GET", path("/v1/tenants/{}/operations", tenant_id)), "operations", MODEL)


class Operations:
    """The calls of this module with models as results."""

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    async def get(self, tenant_id: str, operation_id: str) -> Operation:
        found: Operation = await self._http.record(get(tenant_id, operation_id))
        return found

    async def list(self, tenant_id: str) -> builtins.list[Operation]:
        found: builtins.list[Operation] = await self._http.records(list_of(tenant_id))
        return found
