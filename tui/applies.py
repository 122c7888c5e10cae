"""The applies of default tags that go on: picked up whoever began them, followed until they are over, found again.

One run a tenant at most (contract: apply semantics 9), so the newest of each tenant worked in is enough. A run goes on
without anybody watching: what is lost with a connection is only the view of it, and that comes back.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from client.api.default_tags import IN_PROGRESS
from client.errors import Exit, FrostError
from client.records import Record
from tui import apply_words
from tui.watching import watched

if TYPE_CHECKING:
    from client.api.client import Client
    from tui.following import Ask, Spawn


class Run:
    """The newest run of a tenant as it was read last."""

    def __init__(self, run_id: str, operation: Mapping[str, Any]) -> None:
        self.id = run_id
        self.operation = operation
        self.lost = ""
        """Why it is not read any more although it goes on; empty while it is read."""
        self.watched = False

    @property
    def open(self) -> bool:
        """Whether it may still change something."""
        return apply_words.is_open(self.operation)


class Applies:
    """Every run followed, by tenant. `changed` is told whenever one moved, `ended` once when it is over."""

    def __init__(
        self,
        client: Callable[[], Awaitable["Client"]],
        ask: "Ask",
        spawn: "Spawn",
        changed: Callable[[], None],
        ended: Callable[[str, Mapping[str, Any]], None],
        refused: Callable[[str, FrostError], None],
    ) -> None:
        """`refused` is told when one that was to begin after another one cannot."""
        self._client, self._ask, self._spawn = client, ask, spawn
        self._changed, self._ended, self._refused = changed, ended, refused
        self._runs: dict[str, Run] = {}
        self._afterwards: set[str] = set()

    # What is known

    def of(self, tenant_id: str) -> Run | None:
        """The newest run of a tenant as far as it is followed."""
        return self._runs.get(tenant_id)

    @property
    def running(self) -> list[tuple[str, Run]]:
        """The runs that are not over, with their tenants."""
        return [(tenant_id, run) for tenant_id, run in self._runs.items() if run.open]

    def goes_on(self, tenant_id: str) -> bool:
        """Whether the newest run of a tenant is not over."""
        run = self._runs.get(tenant_id)
        return run is not None and run.open

    @property
    def tasks(self) -> list[str]:
        """The names of what may be at work for this."""
        return [_task(tenant_id) for tenant_id in self._runs]

    def waits(self, tenant_id: str) -> bool:
        """Whether an own run begins when the one that goes on is over."""
        return tenant_id in self._afterwards

    # Following

    def noticed(self, tenant_id: str, runs: Sequence[Record]) -> None:
        """The newest runs of a tenant were read, the newest first: one that goes on is followed, whoever began it."""
        newest = next((run for run in runs if apply_words.is_open(run)), None)
        known = self._runs.get(tenant_id)
        if newest is not None and not (known is not None and known.open and known.watched):
            self.follow(tenant_id, str(newest["runId"]), newest)
        elif known is not None and not known.open and not self.waits(tenant_id) and not _newest(runs, known.id):
            del self._runs[tenant_id]  # another one came and went unseen, or a backup without it was restored

    def follow(self, tenant_id: str, run_id: str, told: Mapping[str, Any]) -> None:
        """Follow a run from what was told of it; following it already, go on with that."""
        run = self._runs.get(tenant_id)
        if run is None or run.id != run_id:
            run = self._runs[tenant_id] = Run(run_id, {"status": "pending", **told})
        elif run.watched or not run.open:
            return
        run.watched = True
        self._spawn(_task(tenant_id), partial(self._follow, tenant_id, run))
        self._changed()

    def again(self) -> None:
        """The platform answers: go on with what was lost, and begin what waited for it."""
        for tenant_id, run in list(self._runs.items()):
            if run.open:
                self.follow(tenant_id, run.id, run.operation)
            elif tenant_id in self._afterwards:
                self._spawn(_task(tenant_id), partial(self._begin, tenant_id))

    def stop(self) -> None:
        """Forget everything: somebody else works here, or it is another context."""
        for task in self.tasks:
            self._spawn(task, None)
        self._runs.clear()
        self._afterwards.clear()

    async def _follow(self, tenant_id: str, run: Run) -> None:
        try:
            async for operation in watched(await self._client(), self._ask, tenant_id, run.id):
                run.operation, run.lost = operation, ""
                self._changed()
        except FrostError as error:
            run.lost = error.message  # what to do about it is decided where all failures are; again() goes on
            if error.exit_code not in (Exit.UNREACHABLE, Exit.NOT_SIGNED_IN) and self._runs.get(tenant_id) is run:
                del self._runs[tenant_id]  # it cannot be read: the list of runs says whether it goes on
            self._changed()
            return
        finally:
            run.watched = False
        self._ended(tenant_id, run.operation)
        if tenant_id in self._afterwards:
            await self._begin(tenant_id)

    # Beginning

    async def start(self, tenant_id: str) -> None:
        """Begin a run with the set as it is then. Raises FrostError IN_PROGRESS while another one goes on."""
        started = await self._ask(lambda client: client.default_tags.apply(tenant_id))
        self.follow(tenant_id, started.run_id or started.operation_id, started.wire())

    async def undo(self, tenant_id: str, run_id: str) -> None:
        """Begin to take away what a run added. Raises FrostError IN_PROGRESS while another one goes on."""
        started = await self._ask(lambda client: client.default_tags.undo(tenant_id, run_id))
        self.follow(tenant_id, started.run_id or started.operation_id, started.wire())

    def start_afterwards(self, tenant_id: str, *, wanted: bool = True) -> None:
        """Begin an own run when the one that goes on is over, or no longer; one that ended meanwhile is waited for."""
        if wanted:
            self._afterwards.add(tenant_id)
            if (run := self._runs.get(tenant_id)) is not None and not run.open:
                self._spawn(_task(tenant_id), partial(self._begin, tenant_id))
        else:
            self._afterwards.discard(tenant_id)
        self._changed()

    async def _begin(self, tenant_id: str) -> None:
        """The own run; where somebody was quicker once more, it waits for that one as well (checklist L29)."""
        try:
            started = await self._ask(lambda client: client.default_tags.apply(tenant_id))
        except FrostError as error:
            if error.code == IN_PROGRESS and error.run_id:
                await self._taken_up(tenant_id, Run(error.run_id, {"status": "pending", "runId": error.run_id}))
            elif error.exit_code not in (Exit.UNREACHABLE, Exit.NOT_SIGNED_IN):
                self._afterwards.discard(tenant_id)
                self._refused(tenant_id, error)
            return
        self._afterwards.discard(tenant_id)
        await self._taken_up(
            tenant_id, Run(started.run_id or started.operation_id, {"status": "pending", **started.wire()})
        )

    async def _taken_up(self, tenant_id: str, run: Run) -> None:
        """Follow another run in the task of the one before it."""
        self._runs[tenant_id] = run
        run.watched = True
        self._changed()
        await self._follow(tenant_id, run)


def _newest(runs: Sequence[Record], run_id: str) -> bool:
    return bool(runs) and str(runs[0]["runId"]) == run_id


def _task(tenant_id: str) -> str:
    return f"apply {tenant_id}"
