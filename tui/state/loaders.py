"""Loaders of the lists, which read them from the platform in pages."""

import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from client.tables.columns import Record, kind_and_id

if TYPE_CHECKING:
    from client.api.activity import Which
    from client.api.client import Client

RUNS = "apply runs"
"""The list of a tenant's recent applies of default tags."""


class First(list[Record]):
    """The first records of a truncated list, as its only page; `total` is the number of all records."""

    def __init__(self, records: Sequence[Record], total: int) -> None:
        super().__init__(records)
        self.total = total


class Model(Protocol):
    """A model of the client."""

    def wire(self) -> dict[str, Any]: ...


Read = Callable[["Client", str, str], AsyncIterator[Sequence[Record]]]


async def _paged(pages: AsyncIterator[Sequence[Model]]) -> AsyncIterator[Sequence[Record]]:
    async for page in pages:
        yield [model.wire() for model in page]


async def _keyed(pages: AsyncIterator[Sequence[Model]]) -> AsyncIterator[Sequence[Record]]:
    """Add `key`, which combines type and id, to rows that only both identify."""
    async for page in pages:
        yield [{**record, "key": ":".join(kind_and_id(record))} for record in (model.wire() for model in page)]


async def _catalogue(client: "Client", _tenant: str, _subject: str) -> AsyncIterator[Sequence[Record]]:
    yield await client.catalogue.operations()


async def _principals(client: "Client", tenant: str, _subject: str) -> AsyncIterator[Sequence[Record]]:
    """Yield API keys and workload identities, the possible members of a group."""
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
    """Yield the preview of an apply. The subject is an unsaved set as JSON, or ""."""
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
    """Yield the requests of a tenant and, if `organization` is set, those of its organization, newest first."""
    found = {one.id: one.wire() async for page in client.quotas.requests(tenant) for one in page}
    if organization:
        found |= {
            one.id: one.wire() async for page in client.quotas.organization_requests(organization) for one in page
        }
    yield sorted(found.values(), key=lambda one: str(one.get("createdAt", "")), reverse=True)


def _which(target: str) -> "Which":
    from client.api.activity import Which

    return Which(target=target)


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
    "activity": lambda client, tenant, _: _paged(client.activity.of_tenant(tenant)),
    "activity of": lambda client, tenant, target: _paged(client.activity.of_tenant(tenant, _which(target))),
    "organization activity": lambda client, _, organization: _paged(client.activity.of_organization(organization)),
}
"""Loaders by list. Arguments: client, tenant id and subject."""
_AUDITED = ("activity", "activity of", "organization activity")
_ACCESS = ("access", "who", *_AUDITED)
_PRINCIPALS = ("principals", "groups of", "policies of", "members", "attachments", *_ACCESS)
LISTS_OF: Mapping[str, frozenset[str]] = {
    "policy": frozenset(("policies", "policies of", "attachments", "versions", *_ACCESS)),
    "group": frozenset(("groups", "groups of", "members", "policies of", "attachments", *_ACCESS)),
    "api_key": frozenset(("own keys", *_PRINCIPALS)),
    "workload_identity": frozenset(_PRINCIPALS),
    "default_tags": frozenset(("default tags", "tag versions", *_AUDITED)),
    "quota_request": frozenset(("quotas", "organization quotas", "quota requests", *_AUDITED)),
}
"""Lists to read after a signal for a resource type. Other types affect all lists."""


def lists_of(types: Collection[str]) -> frozenset[str] | None:
    """Return the lists that signals affect; None for all."""
    if not all(one in LISTS_OF for one in types):
        return None
    return frozenset[str]().union(*(LISTS_OF[one] for one in types))
