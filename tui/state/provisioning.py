"""Track the tenants being provisioned, including those that other clients created."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from client.errors import FrostError
from client.operations import FINAL
from client.tables.columns import Record

if TYPE_CHECKING:
    from tui.state.event_stream import Spawn, Watch


class Provisioning:
    """The latest provisioning operation of each tenant.

    `changed` is called after each change of an operation, `ended` once after its end.
    """

    def __init__(
        self,
        watch: "Watch",
        spawn: "Spawn",
        changed: Callable[[], None],
        ended: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self._watch, self._spawn = watch, spawn
        self._changed, self._ended = changed, ended
        self._operations: dict[str, dict[str, Any]] = {}

    def of(self, tenant_id: str) -> Mapping[str, Any] | None:
        """Return the operation of a tenant, as last read."""
        return self._operations.get(tenant_id)

    @property
    def running(self) -> list[Mapping[str, Any]]:
        """The operations that have not ended."""
        return [operation for operation in self._operations.values() if operation.get("status") not in FINAL]

    @property
    def tasks(self) -> list[str]:
        """Names of the background tasks."""
        return [_task(tenant_id) for tenant_id in self._operations]

    def noticed(self, tenants: Iterable[Record]) -> None:
        """Track the tenants that are being provisioned."""
        for tenant in tenants:
            tenant_id, operation_id = str(tenant["id"]), tenant.get("runId") or tenant.get("operationId")
            watched_already = self._operations.get(tenant_id, {}).get("status") not in (None, *FINAL)
            if tenant.get("status") == "provisioning" and operation_id and not watched_already:
                self._operations[tenant_id] = {"status": "pending"}
                self._spawn(_task(tenant_id), partial(self._follow, tenant_id, str(operation_id)))

    def stop(self) -> None:
        """Stop tracking and forget all operations."""
        for task in self.tasks:
            self._spawn(task, None)
        self._operations.clear()

    async def _follow(self, tenant_id: str, operation_id: str) -> None:
        try:
            async for operation in self._watch(tenant_id, operation_id):
                self._operations[tenant_id] = operation
                self._changed()
        except Exception as error:
            # `ask` handles the error. The next read of the tenants tracks the operation again.
            self._operations.pop(tenant_id, None)
            if not isinstance(error, FrostError):
                raise
            return
        self._ended(tenant_id, self._operations[tenant_id])


def _task(tenant_id: str) -> str:
    return f"watch {tenant_id}"
