"""Calls about durable operations, and the signals that say when to read one again. Source: facts 2.9, 2.10."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.core import Call, Request, path

if TYPE_CHECKING:
    import builtins

    from client.http import Http
    from client.models.operations import Operation

MODEL = "operations.Operation"


def get(tenant_id: str, operation_id: str) -> Call:
    """One operation, by its operation id (the latest run) or its run id (that run)."""
    route = path("/v1/tenants/{}/operations/{}", tenant_id, operation_id)
    return Call(Request("GET", route), model=MODEL, needs=("operationId", "status"))


def list_of(tenant_id: str) -> Call:
    """The newest operations of a tenant, at most 50."""
    return Call(Request("GET", path("/v1/tenants/{}/operations", tenant_id)), "operations", MODEL)


def events(tenant_id: str) -> Request:
    """The event stream of a tenant; client/events.py reads it."""
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
    return Request("GET", path("/v1/tenants/{}/events", tenant_id), headers=headers)


class Operations:
    """The same calls for the screens and the library, answered with models."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def get(self, tenant_id: str, operation_id: str) -> Operation:
        found: Operation = await self._http.record(get(tenant_id, operation_id))
        return found

    async def list(self, tenant_id: str) -> builtins.list[Operation]:
        found: builtins.list[Operation] = await self._http.records(list_of(tenant_id))
        return found
