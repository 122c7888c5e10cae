"""The lists of a tenant: groups, members, policies and what belongs to them, each read when it is wanted.

A list keeps its rows while newer ones are on their way and when they could not be read. Rows belong to one tenant and
one subject (the group of a list of members): what is shown after a switch is another list, so that an answer for the
former tenant has nowhere to appear. Lists looked at lately are kept, so that coming back shows them at once.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from client.errors import Exit, FrostError
from client.records import Record
from tui.readers import READ, First

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

    def __init__(self, listed: Listed, rows: Rows) -> None:
        self.listed, self.rows = listed, rows


class Collections:
    """Every list of the context in use. `changed` is told a list's name whenever its rows or its state changed."""

    def __init__(self, ask: "Ask", spawn: "Spawn", changed: Callable[[str], None]) -> None:
        self._ask, self._spawn, self._changed = ask, spawn, changed
        self._lists: dict[Listed, Rows] = {}
        self._readings: dict[str, Reading] = {}
        """By the name of the task that does it."""

    def rows(self, name: str, tenant_id: str, subject: str = "") -> Rows:
        """A list as far as it is known; nothing is asked."""
        listed = _listed(name, tenant_id, subject)
        rows = self._lists.pop(listed, None)
        if rows is None:
            rows = Rows()
            rows.most = NEWEST if name in LOGS else 0
        self._lists[listed] = rows  # the one looked at last stands last
        reading = {one.listed for one in self._readings.values()}
        for old in [key for key in self._lists if key not in reading][: max(0, len(self._lists) - KEPT)]:
            del self._lists[old]
        return rows

    def read(self, name: str, tenant_id: str, subject: str = "", *, quiet: bool = False, rest: float = 0.0) -> Rows:
        """Read a list anew in the background; what is known of it stays until then.

        Args:
            quiet: A list that is fresh counts as fresh while it is read again.
            rest: Seconds to wait before asking; another call for a list of that name takes this one's place.
        """
        rows = self.rows(name, tenant_id, subject)
        if not quiet or rows.state != "fresh":
            rows.state = "reading"
        task = f"read {name} {subject}" if not rest else f"beside {name}"
        left = self._readings.get(task)
        if left is not None and left.rows is not rows:
            left.rows.state = "unread"  # it is read when it is looked at again
            left.rows.settled.set()
        reading = self._readings[task] = Reading(_listed(name, tenant_id, subject), rows)
        self._spawn(task, partial(self._read, task, reading, rest))
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
        for task in self._readings:
            self._spawn(task, None)
        for rows in self._lists.values():
            rows.state = "unread"
            rows.settled.set()  # who waits for one goes on, without it
        self._lists.clear()
        self._readings.clear()

    def outdate(self, error: FrostError) -> None:
        """Nothing counts as fresh any more: there is nobody to read it again for."""
        for listed, rows in list(self._lists.items()):
            if rows.state == "fresh":
                rows.state, rows.error = "failed", error
                self._changed(listed.name)

    async def _read(self, task: str, reading: Reading, rest: float) -> None:
        listed, rows = reading.listed, reading.rows
        try:
            if rest:
                await asyncio.sleep(rest)
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
                # A first reading shows its rows as they come; begun again on the way, it takes none of them away.
                if not rows.known and len(found) > len(rows.records):
                    self._take(listed, rows, list(found))
            rows.known, rows.error, rows.state, rows.cut = True, None, "fresh", cut
            rows.settled.set()
            self._take(listed, rows, found)
        except FrostError as error:
            rows.state, rows.error = "failed", error
            rows.settled.set()
            if error.exit_code is Exit.NOT_ALLOWED:
                self._take_away(listed, error)
            self._changed(listed.name)
        finally:
            if self._readings.get(task) is reading:  # else another one has taken its place
                del self._readings[task]

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

    def put(self, name: str, tenant_id: str, record: Record, key: str = "id") -> None:
        """Take what a change answered, before the list is read again: it is shown at once."""
        rows = self.rows(name, tenant_id)
        others = [old if old[key] != record[key] else record for old in rows.records]
        rows.records = others if record in others else [*others, record]
        self._changed(name)

    def remove(self, name: str, tenant_id: str, gone: str, key: str = "id") -> None:
        """Take a record away that was deleted."""
        rows = self.rows(name, tenant_id)
        rows.records = [old for old in rows.records if old[key] != gone]
        self._changed(name)


def _listed(name: str, tenant_id: str, subject: str) -> Listed:
    return Listed(name, "" if name in OF_THE_PLATFORM else tenant_id, subject)
