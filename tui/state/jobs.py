"""Track jobs, including those that other clients started: applies of default tags, and provisioning of tenants.

A tenant has at most one running apply, so its newest run is enough. Runs continue on the platform; after a lost
connection, they are tracked again.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from client.errors import Exit, FrostError
from client.operations import FINAL

if TYPE_CHECKING:
    from client.models.default_tags import ApplyOperation, ApplyRun
    from client.models.tenants import Operation, Tenant
    from tui.state.context_state import Requests
    from tui.state.event_stream import Spawn, Watch

RUNS = "apply runs"
"""The list of a tenant's recent applies of default tags."""


class Run:
    """The newest run of a tenant, as last read."""

    def __init__(self, operation: "ApplyOperation") -> None:
        self.id = operation.run_id
        self.operation = operation
        self.lost = ""
        """Why an open run can no longer be read; empty while it is read."""
        self.watched = False

    @property
    def open(self) -> bool:
        """Whether it may still change resources."""
        return self.operation.status not in FINAL


class Applies:
    """Tracked runs by tenant. `changed` is called after each change of a run, `ended` once after its end."""

    def __init__(
        self,
        requests: "Requests",
        watch: "Watch[ApplyOperation]",
        spawn: "Spawn",
        changed: Callable[[], None],
        ended: "Callable[[str, ApplyOperation], None]",
        refused: Callable[[str, FrostError], None],
    ) -> None:
        """`refused` is called if a queued apply cannot start."""
        self._requests, self._watch, self._spawn = requests, watch, spawn
        self._changed, self._ended, self._refused = changed, ended, refused
        self._runs: dict[str, Run] = {}
        self._afterwards: set[str] = set()
        self._starting: set[str] = set()
        """Tenants whose queued apply has been sent. Its task is not replaced before the response."""

    # State

    def of(self, tenant_id: str) -> Run | None:
        """Return the newest run of a tenant, if it is tracked."""
        return self._runs.get(tenant_id)

    @property
    def running(self) -> list[tuple[str, Run]]:
        """The open runs with their tenants."""
        return [(tenant_id, run) for tenant_id, run in self._runs.items() if run.open]

    def goes_on(self, tenant_id: str) -> bool:
        """Return whether the newest run of a tenant is open."""
        run = self._runs.get(tenant_id)
        return run is not None and run.open

    @property
    def tasks(self) -> list[str]:
        """Names of the background tasks."""
        return [_task(tenant_id) for tenant_id in self._runs]

    def waits(self, tenant_id: str) -> bool:
        """Return whether an apply is queued behind the open run."""
        return tenant_id in self._afterwards

    # Tracking

    def noticed(self, tenant_id: str, runs: "Sequence[ApplyRun]") -> None:
        """Track the open run among the newest runs of a tenant, which are sorted newest first."""
        newest = next((run for run in runs if run.status not in FINAL), None)
        known = self._runs.get(tenant_id)
        if newest is not None and not (known is not None and known.open and known.watched):
            self.follow(tenant_id, newest.operation)
        elif known is not None and not (known.open or self._is_to_start(tenant_id) or _newest(runs, known.id)):
            del self._runs[tenant_id]  # another run has ended unseen, or a backup without this one was restored

    def follow(self, tenant_id: str, operation: "ApplyOperation") -> None:
        """Track a run from its last known state, unless it is tracked already."""
        run = self._runs.get(tenant_id)
        if run is None or run.id != operation.run_id:
            run = self._runs[tenant_id] = Run(operation)
        self._resume(tenant_id, run)

    def _resume(self, tenant_id: str, run: Run) -> None:
        if run.watched or not run.open or tenant_id in self._starting:
            return
        run.watched = True
        self._spawn(_task(tenant_id), partial(self._follow, tenant_id, run))
        self._changed()

    def again(self) -> None:
        """Resume lost runs and start queued ones after the platform has responded."""
        for tenant_id, run in list(self._runs.items()):
            if run.open:
                self._resume(tenant_id, run)
            else:
                self._start_queued(tenant_id)

    def _start_queued(self, tenant_id: str) -> None:
        if tenant_id in self._afterwards and tenant_id not in self._starting:
            self._spawn(_task(tenant_id), partial(self._begin, tenant_id))

    def _is_to_start(self, tenant_id: str) -> bool:
        return tenant_id in self._afterwards or tenant_id in self._starting

    def stop(self) -> None:
        """Forget all runs: the user or the context has changed."""
        for task in self.tasks:
            self._spawn(task, None)
        self._runs.clear()
        self._afterwards.clear()
        self._starting.clear()

    async def _follow(self, tenant_id: str, run: Run) -> None:
        try:
            async for operation in self._watch(tenant_id, run.id):
                run.operation, run.lost = operation, ""
                self._changed()
        except FrostError as error:
            run.lost = error.message  # errors are handled centrally, and `again` resumes
            if error.exit_code not in (Exit.UNREACHABLE, Exit.NOT_SIGNED_IN) and self._runs.get(tenant_id) is run:
                del self._runs[tenant_id]  # unreadable; the list of runs shows whether it is open
            self._changed()
            return
        finally:
            run.watched = False
        self._ended(tenant_id, run.operation)
        if tenant_id in self._afterwards:
            await self._begin(tenant_id)

    # Starting

    async def start(self, tenant_id: str) -> None:
        """Start an apply with the stored set. Raises FrostError IN_PROGRESS while another run is open."""
        from client.api import default_tags

        started = await self._requests.ask(default_tags.apply(tenant_id))
        self.follow(tenant_id, started.operation)

    async def undo(self, tenant_id: str, run_id: str) -> None:
        """Start to remove the tags that a run added. Raises FrostError IN_PROGRESS while another run is open."""
        from client.api import default_tags

        started = await self._requests.ask(default_tags.undo(tenant_id, run_id))
        self.follow(tenant_id, started.operation)

    def start_afterwards(self, tenant_id: str, *, queued: bool = True) -> None:
        """Queue an apply behind the open run, or cancel the queued one. If the run has ended, start immediately."""
        if queued:
            self._afterwards.add(tenant_id)
            if (run := self._runs.get(tenant_id)) is not None and not run.open:
                self._start_queued(tenant_id)
        else:
            self._afterwards.discard(tenant_id)
        self._changed()

    async def _begin(self, tenant_id: str) -> None:
        """Start the queued apply. If another run has started first, wait for that one as well."""
        from client.api import default_tags
        from client.models.default_tags import ApplyStarted

        self._afterwards.discard(tenant_id)  # the request is sent once, also if a refresh begins before the response
        self._starting.add(tenant_id)
        try:
            started = await self._requests.ask(default_tags.apply(tenant_id))
        except FrostError as error:
            if error.code == default_tags.IN_PROGRESS and error.run_id:
                self._afterwards.add(tenant_id)
                started = ApplyStarted(operation_id=error.operation_id, run_id=error.run_id)
            elif error.exit_code in (Exit.UNREACHABLE, Exit.NOT_SIGNED_IN):
                self._afterwards.add(tenant_id)
                self._changed()
                return
            else:
                self._refused(tenant_id, error)
                return
        finally:
            self._starting.discard(tenant_id)
        await self._taken_up(tenant_id, Run(started.operation))

    async def _taken_up(self, tenant_id: str, run: Run) -> None:
        """Track another run in the current task."""
        self._runs[tenant_id] = run
        run.watched = True
        self._changed()
        await self._follow(tenant_id, run)


def _newest(runs: "Sequence[ApplyRun]", run_id: str) -> bool:
    return bool(runs) and runs[0].run_id == run_id


def _task(tenant_id: str) -> str:
    return f"apply {tenant_id}"


class Provisioning:
    """The latest provisioning operation of each tenant.

    `changed` is called after each change of an operation, `ended` once after its end.
    """

    def __init__(
        self,
        watch: "Watch[Operation]",
        spawn: "Spawn",
        changed: Callable[[], None],
        ended: "Callable[[str, Operation], None]",
    ) -> None:
        self._watch, self._spawn = watch, spawn
        self._changed, self._ended = changed, ended
        self._operations: dict[str, Operation] = {}

    def of(self, tenant_id: str) -> "Operation | None":
        """Return the operation of a tenant, as last read."""
        return self._operations.get(tenant_id)

    @property
    def running(self) -> "list[Operation]":
        """The operations that have not ended."""
        return [operation for operation in self._operations.values() if operation.status not in FINAL]

    @property
    def tasks(self) -> list[str]:
        """Names of the background tasks."""
        return [_watch_task(tenant_id) for tenant_id in self._operations]

    def noticed(self, tenants: "Iterable[Tenant]") -> None:
        """Track the tenants that are being provisioned."""
        from client.models.tenants import Operation

        for tenant in tenants:
            operation_id, known = tenant.run_id or tenant.operation_id, self._operations.get(tenant.id)
            watched_already = known is not None and known.status not in FINAL
            if tenant.status == "provisioning" and operation_id and not watched_already:
                self._operations[tenant.id] = Operation(operation_id=operation_id, status="pending")
                self._spawn(_watch_task(tenant.id), partial(self._follow, tenant.id, operation_id))

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


def _watch_task(tenant_id: str) -> str:
    return f"watch {tenant_id}"
