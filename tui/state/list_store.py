"""The lists of the screens: groups, members, policies and others, read on demand.

A list shows its old records during a read and after an error. It belongs to one tenant and one subject (the group, for
a list of members), so that a late response for another tenant is never shown. Recent lists are cached.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from client.errors import Exit, FrostError
from client.tables.columns import json_of
from client.text import safe

if TYPE_CHECKING:
    from tui.state.context_state import Requests
    from tui.state.event_stream import Spawn

KEPT = 60
"""Number of cached lists, without those being read."""
NOT_ENTITLED = "TENANT_ACCESS_DENIED"
REST_SECONDS = 0.12
"""How long the cursor must rest on a record before its lists are read."""
LOGS = ("activity", "activity of", "organization activity")
"""Lists that only grow. The newest entries are read; the limit doubles on request."""
OF_THE_PLATFORM = ("catalogue", "own keys", "sessions")
"""Lists that are the same for all tenants."""


MAX_PAUSE_SECONDS = 5.0
"""The longest pause before a read that follows another."""


class SingleFlight:
    """Runs `work` in the background. Requests during a run cause one more run after it.

    The pause before that run is as long as the last run took: a slow platform spends at most half of its time on it.
    An urgent request skips the pause.

    Args:
        spawn: Starts the background task.
        name: Names the task.
        work: Reads once. An exception ends the run and discards the request made during it.
        rest: Seconds to wait before the first read.
    """

    def __init__(self, spawn: "Spawn", name: str, work: Callable[[], Awaitable[None]], *, rest: float = 0.0) -> None:
        self._spawn, self._name, self._work, self._rest = spawn, name, work, rest
        self._run: object | None = None
        self._requested = False
        self._urgent = asyncio.Event()

    @property
    def running(self) -> bool:
        """Whether a read runs or is scheduled."""
        return self._run is not None

    @property
    def urgent(self) -> bool:
        """Whether an urgent request arrived since the current read began."""
        return self._run is not None and self._urgent.is_set()

    def request(self, *, urgent: bool = False) -> None:
        """Read, or read again after the current read."""
        if self._run is None:
            run = self._run = object()
            self._requested = False
            self._urgent.clear()
            self._spawn(self._name, partial(self._repeat, run))
            return
        self._requested = True
        if urgent:
            self._urgent.set()

    def stop(self) -> None:
        """Cancel the current read and pending requests."""
        self._run = None
        self._spawn(self._name, None)

    async def _repeat(self, run: object) -> None:
        loop = asyncio.get_running_loop()
        try:
            await self._pause(self._rest)
            while True:
                self._requested = False
                self._urgent.clear()
                began = loop.time()
                await self._work()
                if not self._requested:
                    return
                await self._pause(min(loop.time() - began, MAX_PAUSE_SECONDS))
        finally:
            if self._run is run:  # else another run has started
                self._run = None

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._urgent.wait()


class Listed(NamedTuple):
    """The key of a list: name, tenant (empty for lists of the platform) and subject."""

    name: str
    tenant_id: str
    subject: str = ""


T = TypeVar("T")
"""A record: a model of the client, or a mapping."""


class RecordList(Generic[T]):
    """A list of records and its state."""

    def __init__(self) -> None:
        self.records: Sequence[T] = ()
        self.state: Literal["unread", "reading", "fresh", "failed"] = "unread"
        self.known = False
        """Whether it was ever read completely."""
        self.total = 0
        """Number of records on the platform if it returns only the first ones; else 0."""
        self.most = 0
        """Maximum of records to read; 0 for all."""
        self.cut = False
        """Whether there may be more records."""
        self.error: FrostError | None = None
        self.settled = asyncio.Event()
        """Set after a read or its failure."""
        self.changes = 0
        """Number of local changes. A read that started before the last one is outdated."""

    @property
    def refused(self) -> bool:
        """Whether the principal may not see the list."""
        return self.error is not None and self.error.exit_code is Exit.NOT_ALLOWED

    @property
    def words(self) -> str:
        """Its freshness and limits in words; empty if it is fresh and complete."""
        if self.state == "failed":
            return "" if self.refused else "not refreshed"
        if self.state != "fresh":
            return "refreshing"
        if self.cut:
            return "the newest ones"
        return f"the first of {self.total:,}" if self.total > len(self.records) else ""


class Reading:
    """A read of a list."""

    def __init__(
        self, listed: Listed, record_list: RecordList[Any], task: str, spawn: "Spawn", read: "Read", rest: float
    ) -> None:
        self.listed, self.record_list, self.task = listed, record_list, task
        self.flight = SingleFlight(spawn, task, partial(read, self), rest=rest)


Read = Callable[[Reading], Awaitable[None]]
"""Reads a list once."""


class Collections:
    """The lists of the context in use.

    Args:
        requests: Sends the requests.
        require_session: Raises FrostError while no list can be read. Called before each page.
        spawn: Runs background tasks.
        changed: Called with the name of a list whose records or state change.
        newest: Entries of a log that are read at first.
    """

    def __init__(
        self,
        requests: "Requests",
        require_session: Callable[[], None],
        spawn: "Spawn",
        changed: Callable[[str], None],
        *,
        newest: int,
    ) -> None:
        self._newest = newest
        self._requests, self._require_session = requests, require_session
        self._spawn, self._changed = spawn, changed
        self._lists: dict[Listed, RecordList[Any]] = {}
        self._readings: dict[str, Reading] = {}
        """By the name of the background task. `_current` removes those that have ended."""

    def get(self, name: str, tenant_id: str, subject: str = "") -> RecordList[Any]:
        """Return a list without a request."""
        listed = _list_key(name, tenant_id, subject)
        record_list = self._lists.pop(listed, None)
        if record_list is None:
            record_list = RecordList()
            record_list.most = self._newest if name in LOGS else 0
        self._lists[listed] = record_list  # the most recent is last
        reading = {one.listed for one in self._current()}
        for old in [key for key in self._lists if key not in reading][: max(0, len(self._lists) - KEPT)]:
            del self._lists[old]
        return record_list

    def _current(self) -> Collection[Reading]:
        """Return the active reads."""
        self._readings = {task: one for task, one in self._readings.items() if one.flight.running}
        return self._readings.values()

    def _leave(self, reading: Reading) -> None:
        """Stop reading a list that is no longer shown. The next look reads it."""
        reading.flight.stop()
        reading.record_list.state = "unread"
        reading.record_list.settled.set()

    def read(
        self, name: str, tenant_id: str, subject: str = "", *, quiet: bool = False, rest: float = 0.0
    ) -> RecordList[Any]:
        """Read a list in the background; the old records are shown until then. A running read of the list is not
        cancelled.

        Args:
            quiet: A fresh list remains fresh during the read, and a repeated read may be delayed by the duration of the
                previous one.
            rest: Seconds to wait before the request. A call for another subject of the list replaces this one.
        """
        record_list = self.get(name, tenant_id, subject)
        if not quiet or record_list.state != "fresh":
            record_list.state = "reading"
        task = f"read {name} {subject}" if not rest else f"read {name} too"
        reading = self._readings.get(task)
        if reading is not None and reading.record_list is not record_list:
            self._leave(reading)
            reading = None
        if reading is None:
            listed = _list_key(name, tenant_id, subject)
            reading = self._readings[task] = Reading(listed, record_list, task, self._spawn, self._read, rest)
        reading.flight.request(urgent=not quiet)
        return record_list

    async def reread(self, name: str, tenant_id: str, subject: str = "") -> RecordList[Any]:
        """Read a list and wait for it. Its records are valid only if its state is `fresh` then."""
        record_list = self.get(name, tenant_id, subject)
        record_list.settled.clear()
        self.read(name, tenant_id, subject)
        await record_list.settled.wait()
        return record_list

    def further(self, name: str, tenant_id: str, subject: str = "") -> None:
        """Read more of a log."""
        self.get(name, tenant_id, subject).most *= 2
        self.read(name, tenant_id, subject)

    def drop(self) -> None:
        """Forget all lists: they belong to another context."""
        for reading in self._readings.values():
            reading.flight.stop()
        for record_list in self._lists.values():
            record_list.state = "unread"
            record_list.settled.set()  # releases tasks that wait for the list
        self._lists.clear()
        self._readings.clear()

    def outdate(self, error: FrostError) -> None:
        """Mark all fresh lists as failed: without a session, they cannot be read again."""
        for listed, record_list in list(self._lists.items()):
            if record_list.state == "fresh":
                record_list.state, record_list.error = "failed", error
                self._changed(listed.name)

    async def _read(self, reading: Reading) -> None:
        """Read a list once, completely or up to the first error."""
        listed, record_list, changes = reading.listed, reading.record_list, reading.record_list.changes
        try:
            records, cut = await self._pages(listed, record_list)
        except FrostError as error:
            self._end(reading, error)
            if error.exit_code is Exit.NOT_ALLOWED:
                self._take_away(listed, error)
            self._changed(listed.name)
        except Exception as error:
            self._end(reading, FrostError(_unexpected_text(error), code="UNEXPECTED_ANSWER"), is_last=True)
            self._changed(listed.name)
            raise
        except asyncio.CancelledError:
            if self._readings.get(reading.task) is reading:  # else `_leave` or `drop` has done it
                self._leave(reading)
            raise
        else:
            if record_list.changes != changes:
                return  # `_touch` has requested another read
            record_list.known, record_list.cut = True, cut
            self._end(reading, None)
            self._take(listed, record_list, records)

    @staticmethod
    def _end(reading: Reading, error: FrostError | None, *, is_last: bool = False) -> None:
        """Record the result of a read, unless an urgent request waits for the next one. No read follows the last."""
        record_list = reading.record_list
        record_list.error = error
        if is_last or not reading.flight.urgent:
            record_list.state = "fresh" if error is None else "failed"
            record_list.settled.set()

    async def _pages(self, listed: Listed, record_list: RecordList[Any]) -> tuple[list[Any], bool]:
        """Return the records, up to the limit of a log, and whether there may be more."""
        from tui.state.loaders import LOADERS, First  # after the first frame

        records: list[Any] = []
        pages = LOADERS[listed.name](self._requests, listed.tenant_id, listed.subject)
        cut = False
        while not cut:
            self._require_session()
            page = await anext(pages, None)
            if page is None:
                break
            records += page
            cut = 0 < record_list.most <= len(records)
            record_list.total = page.total if isinstance(page, First) else 0
            # The first read shows records page by page, but never fewer than before.
            if not record_list.known and len(records) > len(record_list.records):
                self._take(listed, record_list, list(records))
        return records, cut

    def _take_away(self, listed: Listed, error: FrostError) -> None:
        """Remove records that the principal may no longer see: those of a list, or of all lists of a tenant."""
        for other, record_list in list(self._lists.items()):
            if other == listed or (error.code == NOT_ENTITLED and other.tenant_id == listed.tenant_id):
                record_list.records, record_list.known = (), False
                if other != listed and record_list.state != "reading":
                    record_list.state, record_list.error = "failed", error
                    self._changed(other.name)

    def _take(self, listed: Listed, record_list: RecordList[Any], records: list[Any]) -> None:
        if list(map(json_of, record_list.records)) != list(map(json_of, records)):  # faster than models
            record_list.records = records
        self._changed(listed.name)

    def _touch(self, name: str, tenant_id: str) -> RecordList[Any]:
        """Return the list for a local change. A running read is repeated."""
        record_list = self.get(name, tenant_id)
        record_list.changes += 1
        for reading in self._current():
            if reading.record_list is record_list:
                reading.flight.request(urgent=True)
        return record_list

    def put(self, name: str, tenant_id: str, record: object, key: str = "id") -> None:
        """Show the record returned by a change before the next read."""
        record_list = self._touch(name, tenant_id)
        changed = json_of(record)[key]
        others = [old if json_of(old)[key] != changed else record for old in record_list.records]
        record_list.records = others if any(one is record for one in others) else [*others, record]
        self._changed(name)

    def remove(self, name: str, tenant_id: str, gone: str, key: str = "id") -> None:
        """Remove a deleted record."""
        record_list = self._touch(name, tenant_id)
        record_list.records = [old for old in record_list.records if json_of(old)[key] != gone]
        self._changed(name)


def _list_key(name: str, tenant_id: str, subject: str) -> Listed:
    return Listed(name, "" if name in OF_THE_PLATFORM else tenant_id, subject)


def read_error_text(error: FrostError) -> str:
    """Return why data cannot be read. If the API key lacks a scope, another read does not help; name what does."""
    if error.code != "INSUFFICIENT_SCOPE":
        return error.message
    return f"{error.message[:1].upper()}{error.message[1:]}. Use a key with that scope, or switch the context."


def _unexpected_text(error: Exception) -> str:
    """Return the message for an unusable response."""
    return f"the response could not be read: {type(error).__name__}: {safe(str(error), 120)}"
