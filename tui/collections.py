"""The lists of a tenant: groups, members, policies and what belongs to them, each read when it is wanted.

A list keeps its rows while newer ones are on their way and when they could not be read. Rows belong to one tenant and
one subject (the group of a list of members): what is shown after a switch is another list, so that an answer for the
former tenant has nowhere to appear. Lists looked at lately are kept, so that coming back shows them at once.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from client.errors import FrostError
from client.records import Record
from tui.action import kind_and_id

if TYPE_CHECKING:
    from client.api.client import Client
    from tui.following import Spawn

KEPT = 60
"""Lists remembered besides those being read."""
RUNS = "apply runs"
"""The list of a tenant's last applies of default tags."""
REST_SECONDS = 0.12
"""How long the cursor rests on a record before what belongs to it is read."""


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
        self.error: FrostError | None = None
        self.settled = asyncio.Event()
        """Set once it was read to its end or could not be."""

    @property
    def words(self) -> str:
        """What is to be said about its freshness and its end; empty when it is fresh and whole."""
        if self.state == "failed":
            return "not refreshed, r tries again"
        if self.state != "fresh":
            return "refreshing"
        return f"the first of {self.total:,}" if self.total > len(self.records) else ""


class Reading:
    """One list being read."""

    def __init__(self, listed: Listed, rows: Rows) -> None:
        self.listed, self.rows = listed, rows


class First(list[Record]):
    """The first records of a list that is cut, as its only page, with how many there are in `total`."""

    def __init__(self, records: Sequence[Record], total: int) -> None:
        super().__init__(records)
        self.total = total


class Model(Protocol):
    """What the client answers a page with."""

    def wire(self) -> dict[str, Any]: ...


Read = Callable[["Client", str, str], AsyncIterator[Sequence[Record]]]
Ask = Callable[[Callable[["Client"], Awaitable[Any]]], Awaitable[Any]]


async def _paged(pages: AsyncIterator[Sequence[Model]]) -> AsyncIterator[Sequence[Record]]:
    async for page in pages:
        yield [model.wire() for model in page]


async def _keyed(pages: AsyncIterator[Sequence[Model]]) -> AsyncIterator[Sequence[Record]]:
    """Rows that are told apart by type and id together get both in one member (checklist M07)."""
    async for page in pages:
        yield [{**record, "key": ":".join(kind_and_id(record))} for record in (model.wire() for model in page)]


async def _catalogue(client: "Client", _tenant: str, _subject: str) -> AsyncIterator[Sequence[Record]]:
    yield await client.catalogue.operations()


async def _principals(client: "Client", tenant: str, _subject: str) -> AsyncIterator[Sequence[Record]]:
    """Keys and workload identities as one list: what can be a member."""
    yield [
        {
            "key": f"api_key:{key['id']}",
            "type": "api_key",
            "id": key["id"],
            "name": key.get("name", ""),
            "status": key.get("status", ""),
            "about": key.get("description") or "",
        }
        for key in await client.principals.keys(tenant)
    ]
    async for page in client.principals.identity_pages(tenant):
        yield [
            {
                "key": f"workload_identity:{binding['id']}",
                "type": "workload_identity",
                "id": binding["id"],
                "name": f"{binding.get('namespace')}/{binding.get('serviceAccount')}",
                "status": "inert" if binding.get("inert") else "active",
                "about": f"cluster {binding.get('clusterId')}",
            }
            for binding in (model.wire() for model in page)
        ]


async def _versions(client: "Client", tenant: str, policy: str) -> AsyncIterator[Sequence[Record]]:
    newest = 0
    async for page in client.policies.version_pages(tenant, policy):
        rows = [model.wire() for model in page]
        newest = newest or max((int(row["version"]) for row in rows), default=0)
        yield [{**row, "key": str(row["version"]), "newest": row["version"] == newest} for row in rows]


async def _access(client: "Client", tenant: str, subject: str) -> AsyncIterator[Sequence[Record]]:
    answer = await client.trials.access(tenant, *_pair(subject))
    yield answer["operations"]


async def _who(client: "Client", tenant: str, subject: str) -> AsyncIterator[Sequence[Record]]:
    operation, _, target = subject.partition(" ")
    answer = await client.trials.who(tenant, operation, target)
    listed = [*answer["principals"], *(answer.get("conditional") or ())]
    found = [{**principal, "key": ":".join(kind_and_id(principal))} for principal in listed]
    yield First(found, answer["total"] + (answer.get("conditionalTotal") or 0))


async def _own_keys(client: "Client", _tenant: str, _subject: str) -> AsyncIterator[Sequence[Record]]:
    yield [key.wire() for key in await client.keys.own()]


async def _grantable(client: "Client", tenant: str, _subject: str) -> AsyncIterator[Sequence[Record]]:
    yield [scope.wire() for scope in await client.keys.grantable(tenant)]


async def _sessions(client: "Client", _tenant: str, _subject: str) -> AsyncIterator[Sequence[Record]]:
    yield [session.wire() for session in await client.sessions.active()]


async def _default_tags(client: "Client", tenant: str, _subject: str) -> AsyncIterator[Sequence[Record]]:
    found = await client.default_tags.get(tenant)
    yield [{"id": tenant, "tags": found.tags, "version": found.version}]


async def _apply_preview(client: "Client", tenant: str, tags: str) -> AsyncIterator[Sequence[Record]]:
    """What an apply would do; the subject is a set that is not stored, as JSON, or nothing."""
    found = await client.default_tags.preview(tenant, json.loads(tags) if tags else None)
    yield [found.wire()]


async def _runs(client: "Client", tenant: str, _subject: str) -> AsyncIterator[Sequence[Record]]:
    yield [run.wire() for run in await client.default_tags.runs(tenant)]


async def _operation(client: "Client", tenant: str, run: str) -> AsyncIterator[Sequence[Record]]:
    yield [(await client.operations.get(tenant, run)).wire()]


async def _quotas(client: "Client", tenant: str, _subject: str) -> AsyncIterator[Sequence[Record]]:
    yield [quota.wire() for quota in await client.quotas.of_tenant(tenant)]


async def _organization_quotas(client: "Client", _tenant: str, organization: str) -> AsyncIterator[Sequence[Record]]:
    yield [quota.wire() for quota in await client.quotas.of_organization(organization)]


async def _quota_requests(client: "Client", tenant: str, organization: str) -> AsyncIterator[Sequence[Record]]:
    """A tenant's requests and, for people, all of its organization's, newest first."""
    found = {one.id: one.wire() async for page in client.quotas.requests(tenant) for one in page}
    if organization:
        found |= {
            one.id: one.wire() async for page in client.quotas.organization_requests(organization) for one in page
        }
    yield sorted(found.values(), key=lambda one: str(one.get("createdAt", "")), reverse=True)


def _pair(subject: str) -> tuple[str, str]:
    kind, _, identifier = subject.partition(":")
    return kind, identifier


READ: Mapping[str, Read] = {
    "catalogue": _catalogue,
    "principals": _principals,
    "groups": lambda client, tenant, _: _paged(client.groups.pages(tenant)),
    "groups of": lambda client, tenant, subject: _paged(client.groups.pages(tenant, member=_pair(subject))),
    "members": lambda client, tenant, group: _keyed(client.groups.member_pages(tenant, group)),
    "policies": lambda client, tenant, _: _paged(client.policies.pages(tenant)),
    "policies of": lambda client, tenant, subject: _paged(client.policies.pages(tenant, attachee=_pair(subject))),
    "attachments": lambda client, tenant, policy: _keyed(client.policies.attachment_pages(tenant, policy)),
    "versions": _versions,
    "access": _access,
    "who": _who,
    "own keys": _own_keys,
    "grantable": _grantable,
    "sessions": _sessions,
    "quotas": _quotas,
    "organization quotas": _organization_quotas,
    "quota requests": _quota_requests,
    "default tags": _default_tags,
    "tag versions": lambda client, tenant, _: _paged(client.default_tags.history(tenant)),
    "apply preview": _apply_preview,
    RUNS: _runs,
    "operation": _operation,
}
"""How each list is read, in pages: client, tenant id and subject."""

OF_THE_PLATFORM = ("catalogue", "own keys", "sessions")
"""Lists that are the same whatever the tenant."""


class Collections:
    """Every list of the context in use. `changed` is told a list's name whenever its rows or its state changed."""

    def __init__(self, ask: Ask, spawn: "Spawn", changed: Callable[[str], None]) -> None:
        self._ask, self._spawn, self._changed = ask, spawn, changed
        self._lists: dict[Listed, Rows] = {}
        self._readings: dict[str, Reading] = {}
        """By the name of the task that does it."""

    def rows(self, name: str, tenant_id: str, subject: str = "") -> Rows:
        """A list as far as it is known; nothing is asked."""
        listed = _listed(name, tenant_id, subject)
        rows = self._lists.pop(listed, None) or Rows()
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
        reading = self._readings[task] = Reading(_listed(name, tenant_id, subject), rows)
        self._spawn(task, partial(self._read, task, reading, rest))
        return rows

    def drop(self) -> None:
        """Forget everything: it belonged to another context."""
        for task in self._readings:
            self._spawn(task, None)
        self._lists.clear()
        self._readings.clear()

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

            while (page := await self._ask(next_page)) is not None:
                found += page
                rows.total = page.total if isinstance(page, First) else 0
                if not rows.known:  # a first reading shows its rows as they come
                    self._take(listed, rows, list(found))
            rows.known, rows.error, rows.state = True, None, "fresh"
            rows.settled.set()
            self._take(listed, rows, found)
        except FrostError as error:
            rows.state, rows.error = "failed", error
            rows.settled.set()
            self._changed(listed.name)
        finally:
            if self._readings.get(task) is reading:  # else another one has taken its place
                del self._readings[task]

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
