"""Calls about a tenant's default tags: history, apply and undo."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from client.transport.request import MOST, Call, Request, if_match, path, query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from client.models.default_tags import ApplyResult, ApplyRun, ApplyStarted, DefaultTags, TagVersion
    from client.transport.async_client import AsyncClient

MODEL = "default_tags.DefaultTags"
RESULT = "default_tags.ApplyResult"
STARTED = "default_tags.ApplyStarted"
IN_PROGRESS = "APPLY_IN_PROGRESS"
"""Error code of a conflict with another run of the tenant; the error has its ids."""
NOTHING_TO_APPLY = "NOTHING_TO_APPLY"
_ACCEPTED = 202


def get(tenant_id: str) -> Call:
    """Get the tags; their version is in the ETag."""
    return Call(Request("GET", _tags(tenant_id)), model=MODEL, needs=("tags",))


def put(tenant_id: str, tags: Mapping[str, str], version: int | None = None) -> Call:
    """Replace all tags; an empty set removes them.

    Args:
        version: The version that the change is based on; the platform refuses it if there is a newer one.
    """
    request = Request("PUT", _tags(tenant_id), body={"tags": dict(tags)}, headers=if_match(version))
    return Call(request, model=MODEL, needs=("tags",))


def history_page(tenant_id: str, *, limit: int | None = None, cursor: str = "") -> Call:
    """List a page of earlier versions, newest first."""
    request = Request("GET", f"{_tags(tenant_id)}/history", query(limit, cursor))
    return Call(request, "versions", "default_tags.TagVersion")


def apply(tenant_id: str) -> Call:
    """Start adding the tags, as they are at the start, to existing resources.

    Fails with IN_PROGRESS during another run. Only status 202 with an operation id is accepted.
    """
    return _started(Request("POST", f"{_tags(tenant_id)}/apply"))


def preview(tenant_id: str, tags: Mapping[str, str] | None = None) -> Call:
    """Return the result that an apply would have now, without changing resources.

    Args:
        tags: Tags to preview instead of the stored ones.
    """
    body = {} if tags is None else {"tags": dict(tags)}
    request = Request("POST", f"{_tags(tenant_id)}/preview", body=body)
    return Call(request, model=RESULT, needs=("summary", "byType"), reads=True)


def runs(tenant_id: str) -> Call:
    """List the last ten runs, newest first."""
    return Call(Request("GET", f"{_tags(tenant_id)}/runs"), "runs", "default_tags.ApplyRun")


def undo_preview(tenant_id: str, run_id: str) -> Call:
    """Return the result that an undo would have now, without changing resources: `updated` would lose tags."""
    request = _undo(tenant_id, run_id, preview=True)
    return Call(request, model=RESULT, needs=("summary", "byType"), reads=True)


def undo(tenant_id: str, run_id: str) -> Call:
    """Start a run that removes the tags which a run added, unless they were changed since."""
    return _started(_undo(tenant_id, run_id, preview=False))


def _started(request: Request) -> Call:
    return Call(request, model=STARTED, needs=("operationId",), status=_ACCEPTED)


def _undo(tenant_id: str, run_id: str, *, preview: bool) -> Request:
    route = path("/v1/tenants/{}/default-tags/runs/{}/undo", tenant_id, run_id)
    return Request("POST", route, body={"preview": preview})


def _tags(tenant_id: str) -> str:
    return path("/v1/tenants/{}/default-tags", tenant_id)


class DefaultTagsArea:
    """The calls of this module with models as results."""

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    async def get(self, tenant_id: str) -> DefaultTags:
        return _with_version(await self._http.versioned(get(tenant_id)))

    async def put(self, tenant_id: str, tags: Mapping[str, str], version: int | None = None) -> DefaultTags:
        """Return the stored tags. Raises FrostError STALE_VERSION if `version` is no longer the newest."""
        return _with_version(await self._http.versioned(put(tenant_id, tags, version)))

    def history(self, tenant_id: str) -> AsyncIterator[builtins.list[TagVersion]]:
        return self._http.pages(lambda cursor: history_page(tenant_id, limit=MOST, cursor=cursor))

    async def apply(self, tenant_id: str) -> ApplyStarted:
        """Start an apply. Raises FrostError IN_PROGRESS, with `operation_id` and `run_id` of the current run."""
        found: ApplyStarted = await self._http.record(apply(tenant_id))
        return found

    async def preview(self, tenant_id: str, tags: Mapping[str, str] | None = None) -> ApplyResult:
        found: ApplyResult = await self._http.record(preview(tenant_id, tags))
        return found

    async def runs(self, tenant_id: str) -> builtins.list[ApplyRun]:
        found: builtins.list[ApplyRun] = await self._http.records(runs(tenant_id))
        return found

    async def undo_preview(self, tenant_id: str, run_id: str) -> ApplyResult:
        found: ApplyResult = await self._http.record(undo_preview(tenant_id, run_id))
        return found

    async def undo(self, tenant_id: str, run_id: str) -> ApplyStarted:
        found: ApplyStarted = await self._http.record(undo(tenant_id, run_id))
        return found


def _with_version(found: Any) -> DefaultTags:
    tags: DefaultTags = found.record.model_copy(update={"version": found.version})
    return tags
