"""Calls about a tenant's default tags, their history, and applying them. Source: facts 2.7, 2.8; checklist D, L."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from client.core import Call, Request, made_from, path
from client.pages import MOST, query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from client.http import Http
    from client.models.default_tags import ApplyResult, ApplyRun, ApplyStarted, DefaultTags, TagVersion

MODEL = "default_tags.DefaultTags"
RESULT = "default_tags.ApplyResult"
STARTED = "default_tags.ApplyStarted"
IN_PROGRESS = "APPLY_IN_PROGRESS"
"""The code of a conflict with a run of the same tenant; the failure names that run."""
NOTHING_TO_APPLY = "NOTHING_TO_APPLY"
_ACCEPTED = 202


def get(tenant_id: str) -> Call:
    """The set; its version comes as the ETag."""
    return Call(Request("GET", _tags(tenant_id)), model=MODEL, needs=("tags",))


def put(tenant_id: str, tags: Mapping[str, str], version: int | None = None) -> Call:
    """Replaces the whole set; an empty one clears it.

    Args:
        version: The version this set was made from; the platform refuses it when there is a newer one.
    """
    request = Request("PUT", _tags(tenant_id), body={"tags": dict(tags)}, headers=made_from(version))
    return Call(request, model=MODEL, needs=("tags",))


def history_page(tenant_id: str, *, limit: int | None = None, cursor: str = "") -> Call:
    """A page of what the set was, newest first."""
    request = Request("GET", f"{_tags(tenant_id)}/history", query(limit, cursor))
    return Call(request, "versions", "default_tags.TagVersion")


def apply(tenant_id: str) -> Call:
    """Starts adding the set, as it then is, to what exists. Raises FrostError IN_PROGRESS while another run goes on.

    Nothing but an accepted run with a name is believed (facts 2.8; checklist L35).
    """
    return _started(Request("POST", f"{_tags(tenant_id)}/apply"))


def preview(tenant_id: str, tags: Mapping[str, str] | None = None) -> Call:
    """What an apply would do now, found by the code of the apply itself; it changes nothing.

    Args:
        tags: A set that is not stored; None is the stored one.
    """
    body = {} if tags is None else {"tags": dict(tags)}
    request = Request("POST", f"{_tags(tenant_id)}/preview", body=body)
    return Call(request, model=RESULT, needs=("summary", "byType"), reads=True)


def runs(tenant_id: str) -> Call:
    """The last ten runs, newest first."""
    return Call(Request("GET", f"{_tags(tenant_id)}/runs"), "runs", "default_tags.ApplyRun")


def undo_preview(tenant_id: str, run_id: str) -> Call:
    """What undoing a run would do now: `updated` would lose tags. It changes nothing."""
    request = _undo(tenant_id, run_id, preview=True)
    return Call(request, model=RESULT, needs=("summary", "byType"), reads=True)


def undo(tenant_id: str, run_id: str) -> Call:
    """Starts taking away what a run added and nobody changed since; a run of its own, as an apply is."""
    return _started(_undo(tenant_id, run_id, preview=False))


def _started(request: Request) -> Call:
    return Call(request, model=STARTED, needs=("operationId",), status=_ACCEPTED)


def _undo(tenant_id: str, run_id: str, *, preview: bool) -> Request:
    route = path("/v1/tenants/{}/default-tags/runs/{}/undo", tenant_id, run_id)
    return Request("POST", route, body={"preview": preview})


def _tags(tenant_id: str) -> str:
    return path("/v1/tenants/{}/default-tags", tenant_id)


class DefaultTagsArea:
    """The same calls for the screens and the library, answered with models."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def get(self, tenant_id: str) -> DefaultTags:
        return _with_version(await self._http.versioned(get(tenant_id)))

    async def put(self, tenant_id: str, tags: Mapping[str, str], version: int | None = None) -> DefaultTags:
        """The stored set. Raises FrostError STALE_VERSION when `version` is no longer the newest."""
        return _with_version(await self._http.versioned(put(tenant_id, tags, version)))

    def history(self, tenant_id: str) -> AsyncIterator[builtins.list[TagVersion]]:
        """What the set was, newest first, page by page."""
        return self._http.pages(lambda cursor: history_page(tenant_id, limit=MOST, cursor=cursor))

    async def apply(self, tenant_id: str) -> ApplyStarted:
        """Raises FrostError IN_PROGRESS, with `operation_id` and `run_id` of the run that goes on."""
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
