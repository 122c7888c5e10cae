"""The lists of a tenant: groups, members, policies and what belongs to them, each read when it is wanted.

A list keeps its rows while newer ones are on their way and when they could not be read. Rows belong to one tenant and
one subject (the group of a list of members): what is shown after a switch is another list, so that an answer for the
former tenant has nowhere to appear. Lists looked at lately are kept, so that coming back shows them at once.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from client.errors import Exit, FrostError
from client.records import Record
from client.text import safe
from tui.readers import READ, First
from tui.single_flight import SingleFlight

if TYPE_CHECKING:
    from client.api.client import Client
    from tui.following import Ask, Spawn

KEPT = 60
"""Lists remembered besides those being read."""
NOT_ENTITLED = "TENANT_ACCESS_DENIED"
REST_SECONDS = 0.12
"""How long the cursor rests on a record before what belongs to it is read."""
LOGS = ("activity", "activity of", "organization activity")
"""Lists without an end worth reading to: so many of the newest are read, and as many again when they are wanted."""
NEWEST = 400
OF_THE_PLATFORM = ("catalogue", "own keys", "sessions")
"""Lists that are the same whatever the tenant."""


class Listed(NamedTuple):
    """Which list: its name, the tenant (empty for what is the platform's), and the subject it hangs on."""

    name: str
    tenant_id: str
    subject: str = ""


class Rows:
    """One list as far as it is known."""

    def __init__(self) -> None:
        self.records: Sequence[Record] = ()
        self.state: Literal["unread", "reading", "fresh", "failed"] = "unread"
        self.known = False
        """Whether it was ever read to its end: then the records are all there were."""
        self.total = 0
        """How many there are, of a list of which only the first are told; 0 of one that is told whole."""
        self.most = 0
        """As many as are read at most, of a list that only grows; 0: all of them."""
        self.cut = False
        """Whether there may be more than were read."""
        self.error: FrostError | None = None
        self.settled = asyncio.Event()
        """Set once it was read to its end or could not be."""
        self.changes = 0
        """How many changes made here were put into the rows: a read that began before the last one is outdated."""

    @property
    def refused(self) -> bool:
        """Whether it was not read because the caller may not see it, or not any more."""
        return self.error is not None and self.error.exit_code is Exit.NOT_ALLOWED

    @property
    def words(self) -> str:
        """What is to be said about its freshness and its end; empty when it is fresh and whole."""
        if self.state == "failed":
            return "" if self.refused else "not refreshed, r tries again"
        if self.state != "fresh":
            return "refreshing"
        if self.cut:
            return "the newest ones"
        return f"the first of {self.total:,}" if self.total > len(self.records) else ""


class Reading:
    """One list being read."""

    def __init__(self, listed: Listed, rows: Rows, task: str, spawn: "Spawn", read: "Read", rest: float) -> None:
        self.listed, self.rows, self.task = listed, rows, task
        self.flight = SingleFlight(spawn, task, partial(read, self), rest=rest)


Read = Callable[[Reading], Awaitable[None]]
"""Reads a list once."""


class Collections:
    """Every list of the context in use. `changed` is called with a list's name when its rows or its state change."""

    def __init__(self, ask: "Ask", spawn: "Spawn", changed: Callable[[str], None]) -> None:
        self._ask, self._spawn, self._changed = ask, spawn, changed
        self._lists: dict[Listed, Rows] = {}
        self._readings: dict[str, Reading] = {}
        """By the name of the background task; those that have ended are removed by `_current`."""

    def rows(self, name: str, tenant_id: str, subject: str = "") -> Rows:
        """A list as far as it is known; nothing is asked."""
        listed = _listed(name, tenant_id, subject)
        rows = self._lists.pop(listed, None)
        if rows is None:
            rows = Rows()
            rows.most = NEWEST if name in LOGS else 0
        self._lists[listed] = rows  # the one looked at last stands last
        reading = {one.listed for one in self._current()}
        for old in [key for key in self._lists if key not in reading][: max(0, len(self._lists) - KEPT)]:
            del self._lists[old]
        return rows

    def _current(self) -> Collection[Reading]:
        """The lists that are being read."""
        self._readings = {task: one for task, one in self._readings.items() if one.flight.running}
        return self._readings.values()

    def _leave(self, reading: Reading) -> None:
        """Stop reading a list that is no longer looked at. It is read when it is looked at again."""
        reading.flight.stop()
        reading.rows.state = "unread"
        reading.rows.settled.set()

    def read(self, name: str, tenant_id: str, subject: str = "", *, quiet: bool = False, rest: float = 0.0) -> Rows:
        """Read a list in the background; the known rows stay until then. A read of the list that runs is not cancelled.

        Args:
            quiet: A list that is fresh counts as fresh while it is read again, and a read that follows another may
                wait for as long as the other one took.
            rest: Seconds to wait before asking; a call for another subject of that list takes this one's place.
        """
        rows = self.rows(name, tenant_id, subject)
        if not quiet or rows.state != "fresh":
            rows.state = "reading"
        task = f"read {name} {subject}" if not rest else f"beside {name}"
        reading = self._readings.get(task)
        if reading is not None and reading.rows is not rows:
            self._leave(reading)
            reading = None
        if reading is None:
            listed = _listed(name, tenant_id, subject)
            reading = self._readings[task] = Reading(listed, rows, task, self._spawn, self._read, rest)
        reading.flight.request(urgent=not quiet)
        return rows

    async def anew(self, name: str, tenant_id: str, subject: str = "") -> Rows:
        """Read a list anew and wait for it; unless it is `fresh` then, nothing can be said of what is in it."""
        rows = self.rows(name, tenant_id, subject)
        rows.settled.clear()
        self.read(name, tenant_id, subject)
        await rows.settled.wait()
        return rows

    def further(self, name: str, tenant_id: str, subject: str = "") -> None:
        """Read a log further back than it was read so far."""
        self.rows(name, tenant_id, subject).most *= 2
        self.read(name, tenant_id, subject)

    def drop(self) -> None:
        """Forget everything: it belonged to another context."""
        for reading in self._readings.values():
            reading.flight.stop()
        for rows in self._lists.values():
            rows.state = "unread"
            rows.settled.set()  # a task that waits for the list goes on without it
        self._lists.clear()
        self._readings.clear()

    def outdate(self, error: FrostError) -> None:
        """Nothing counts as fresh any more: there is nobody to read it again for."""
        for listed, rows in list(self._lists.items()):
            if rows.state == "fresh":
                rows.state, rows.error = "failed", error
                self._changed(listed.name)

    async def _read(self, reading: Reading) -> None:
        """Read a list once, to its end or to the first failure."""
        listed, rows, changes = reading.listed, reading.rows, reading.rows.changes
        try:
            found, cut = await self._pages(listed, rows)
        except FrostError as error:
            self._end(reading, error)
            if error.exit_code is Exit.NOT_ALLOWED:
                self._take_away(listed, error)
            self._changed(listed.name)
        except Exception as error:
            self._end(reading, FrostError(_unexpected(error), code="UNEXPECTED_ANSWER"))
            self._changed(listed.name)
            raise
        except asyncio.CancelledError:
            if self._readings.get(reading.task) is reading:  # else `_leave` or `drop` has done it
                self._leave(reading)
            raise
        else:
            if rows.changes != changes:
                return  # `_touch` has requested another read
            rows.known, rows.cut = True, cut
            self._end(reading, None)
            self._take(listed, rows, found)

    @staticmethod
    def _end(reading: Reading, error: FrostError | None) -> None:
        """Note how a read ended, unless another one was requested urgently and its result is waited for."""
        rows = reading.rows
        rows.error = error
        if not reading.flight.urgent:
            rows.state = "fresh" if error is None else "failed"
            rows.settled.set()

    async def _pages(self, listed: Listed, rows: Rows) -> tuple[list[Record], bool]:
        """All records of a list, or as many as are wanted of a log, and whether there may be more."""
        found: list[Record] = []
        pages: AsyncIterator[Sequence[Record]] | None = None

        def next_page(client: "Client") -> Awaitable[Sequence[Record] | None]:
            nonlocal pages
            pages = pages or READ[listed.name](client, listed.tenant_id, listed.subject)
            return anext(pages, None)

        cut = False
        while not cut and (page := await self._ask(next_page)) is not None:
            found += page
            cut = 0 < rows.most <= len(found)
            rows.total = page.total if isinstance(page, First) else 0
            # The first read shows rows as they come, but never fewer than before.
            if not rows.known and len(found) > len(rows.records):
                self._take(listed, rows, list(found))
        return found, cut

    def _take_away(self, listed: Listed, error: FrostError) -> None:
        """What one may not see any more is not kept: a list, or all of a tenant one may not enter. hostile B08"""
        for other, rows in list(self._lists.items()):
            if other == listed or (error.code == NOT_ENTITLED and other.tenant_id == listed.tenant_id):
                rows.records, rows.known = (), False
                if other != listed and rows.state != "reading":
                    rows.state, rows.error = "failed", error
                    self._changed(other.name)

    def _take(self, listed: Listed, rows: Rows, found: list[Record]) -> None:
        if rows.records != found:
            rows.records = found
        self._changed(listed.name)

    def _touch(self, name: str, tenant_id: str) -> Rows:
        """The rows of a list that are about to be changed here; a read that runs is done once more."""
        rows = self.rows(name, tenant_id)
        rows.changes += 1
        for reading in self._current():
            if reading.rows is rows:
                reading.flight.request(urgent=True)
        return rows

    def put(self, name: str, tenant_id: str, record: Record, key: str = "id") -> None:
        """Show the record that a change returned, before the list is read again."""
        rows = self._touch(name, tenant_id)
        others = [old if old[key] != record[key] else record for old in rows.records]
        rows.records = others if record in others else [*others, record]
        self._changed(name)

    def remove(self, name: str, tenant_id: str, gone: str, key: str = "id") -> None:
        """Remove a record that was deleted."""
        rows = self._touch(name, tenant_id)
        rows.records = [old for old in rows.records if old[key] != gone]
        self._changed(name)


def _listed(name: str, tenant_id: str, subject: str) -> Listed:
    return Listed(name, "" if name in OF_THE_PLATFORM else tenant_id, subject)


def _unexpected(error: Exception) -> str:
    """What a person reads about an answer that could not be used."""
    return f"the answer could not be used: {type(error).__name__}: {safe(str(error), 120)}"
