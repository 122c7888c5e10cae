"""Loaders of the lists, which read them from the platform in pages."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from client.api import account, activity, analysis, default_tags, groups, keys, policies, quotas
from client.errors import Exit, FrostError
from client.tables.columns import Record
from tui.state.jobs import RUNS
from tui.state.tag_draft import StoredTags

if TYPE_CHECKING:
    from client.models.iam import ListedVersion, Principal
    from client.transport.call import Call
    from tui.state.context_state import Requests


class First(list[Any]):
    """The first records of a truncated list, as its only page; `total` is the number of all records."""

    def __init__(self, records: Sequence[object], total: int) -> None:
        super().__init__(records)
        self.total = total


class Model(Protocol):
    """A model of the client."""

    def wire(self) -> Record: ...


M = TypeVar("M", bound=Model)
T = TypeVar("T")
Load = Callable[["Requests", str, str], AsyncIterator[Sequence[Any]]]


async def _paged(requests: "Requests", call: "Call[list[M]]") -> AsyncIterator[Sequence[M]]:
    """Yield the pages. Their JSON objects, which the columns read, are computed page by page."""
    async for page in requests.pages(call):
        for model in page:
            model.wire()
        yield page


async def _catalogue(requests: "Requests", _tenant: str, _subject: str) -> AsyncIterator[Sequence[Model]]:
    catalogue = await requests.ask(analysis.operations())
    yield catalogue


async def _principals(requests: "Requests", tenant: str, _subject: str) -> "AsyncIterator[Sequence[Principal]]":
    """Yield API keys and workload identities, the possible members of a group."""
    from client.models.iam import Principal

    keys = await requests.ask(groups.keys(tenant))
    yield [
        Principal(type="api_key", id=key.id, name=key.name, status=key.status, about=key.description) for key in keys
    ]
    async for page in requests.pages(groups.identity_page(tenant)):
        yield [
            Principal(
                type="workload_identity",
                id=binding.id,
                name=f"{binding.namespace}/{binding.service_account}",
                status="inert" if binding.inert else "active",
                about=f"cluster {binding.cluster_id}",
            )
            for binding in page
        ]


async def _versions(requests: "Requests", tenant: str, policy: str) -> "AsyncIterator[Sequence[ListedVersion]]":
    """Yield the versions, of which the first is the newest."""
    from client.models.iam import ListedVersion

    newest = 0
    async for page in requests.pages(policies.version_page(tenant, policy)):
        newest = newest or max((version.version for version in page), default=0)
        yield [ListedVersion.model_validate({**one.wire(), "newest": one.version == newest}) for one in page]


async def _access(requests: "Requests", tenant: str, subject: str) -> AsyncIterator[Sequence[Model]]:
    answer = await requests.ask(analysis.access(tenant, *_pair(subject)))
    yield answer.operations


async def _who(requests: "Requests", tenant: str, subject: str) -> AsyncIterator[Sequence[Model]]:
    operation, _, target = subject.partition(" ")
    answer = await requests.ask(analysis.who(tenant, operation, target))
    yield First([*answer.principals, *answer.conditional], answer.total + answer.conditional_total)


async def _own_keys(requests: "Requests", _tenant: str, _subject: str) -> AsyncIterator[Sequence[Model]]:
    own_keys = await requests.ask(keys.own())
    yield own_keys


async def _grantable(requests: "Requests", tenant: str, _subject: str) -> AsyncIterator[Sequence[Model]]:
    scopes = await requests.ask(keys.grantable_scopes(tenant))
    yield scopes


async def _sessions(requests: "Requests", _tenant: str, _subject: str) -> AsyncIterator[Sequence[Model]]:
    sessions = await requests.ask(account.sessions())
    yield sessions


async def _default_tags(requests: "Requests", tenant: str, _subject: str) -> AsyncIterator[Sequence[Model]]:
    stored, version = await requests.versioned(default_tags.get(tenant))
    yield [StoredTags(tenant, stored.tags, version)]


async def _apply_preview(requests: "Requests", tenant: str, tags: str) -> AsyncIterator[Sequence[Model]]:
    """Yield the preview of an apply. The subject is an unsaved set as JSON, or ""."""
    yield [await requests.ask(default_tags.preview(tenant, json.loads(tags) if tags else None))]


async def _runs(requests: "Requests", tenant: str, _subject: str) -> AsyncIterator[Sequence[Model]]:
    runs = await requests.ask(default_tags.runs(tenant))
    yield runs


async def _operation(requests: "Requests", tenant: str, run: str) -> AsyncIterator[Sequence[Model]]:
    yield [await requests.ask(default_tags.operation(tenant, run))]


async def _quotas(requests: "Requests", tenant: str, _subject: str) -> AsyncIterator[Sequence[Model]]:
    yield await quotas.load(requests.ask, tenant)


async def _organization_quotas(requests: "Requests", _tenant: str, organization: str) -> AsyncIterator[Sequence[Model]]:
    report = await requests.ask(quotas.organization_report(organization))
    yield report


async def _quota_requests(requests: "Requests", tenant: str, organization: str) -> AsyncIterator[Sequence[Model]]:
    """Yield the requests of a tenant and, if `organization` is set, those of its organization, newest first."""
    lists = [quotas.request_page(tenant)]
    if organization:
        lists.append(quotas.organization_request_page(organization))
    rows = {row.id: row for call in lists async for page in requests.pages(call) for row in page}
    newest_first = sorted(
        rows.values(), key=lambda row: row.created_at.timestamp() if row.created_at else 0, reverse=True
    )
    yield newest_first


def _pair(subject: str) -> tuple[str, str]:
    kind, _, identifier = subject.partition(":")
    return kind, identifier


LOADERS: Mapping[str, Load] = {
    "catalogue": _catalogue,
    "principals": _principals,
    "groups": lambda requests, tenant, _: _paged(requests, groups.page(tenant)),
    "groups of": lambda requests, tenant, subject: _paged(requests, groups.page(tenant, member=_pair(subject))),
    "members": lambda requests, tenant, group: _paged(requests, groups.member_page(tenant, group)),
    "policies": lambda requests, tenant, _: _paged(requests, policies.page(tenant)),
    "policies of": lambda requests, tenant, subject: _paged(requests, policies.page(tenant, attachee=_pair(subject))),
    "attachments": lambda requests, tenant, policy: _paged(requests, policies.attachment_page(tenant, policy)),
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
    "tag versions": lambda requests, tenant, _: _paged(requests, default_tags.history_page(tenant)),
    "apply preview": _apply_preview,
    RUNS: _runs,
    "operation": _operation,
    "activity": lambda requests, tenant, _: _paged(requests, activity.page(tenant)),
    "activity of": lambda requests, tenant, target: _paged(
        requests, activity.page(tenant, activity.ActivityFilter(target=target))
    ),
    "organization activity": lambda requests, _, organization: _paged(
        requests, activity.organization_page(organization)
    ),
}
"""Loaders by list. Arguments: the requests, tenant id and subject."""


async def unless_refused(ask: Callable[[], Awaitable[T]]) -> T | FrostError:
    """Return a response, or the error if the principal may not have it. Other errors are raised."""
    try:
        return await ask()
    except FrostError as error:
        if error.exit_code is not Exit.NOT_ALLOWED:
            raise
        return error
