"""Calls about a tenant's default tags: history, apply and undo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from client.transport.call import Call, Model, Request, if_match, page_query, path, record, records

if TYPE_CHECKING:
    from client.models.default_tags import ApplyOperation, ApplyResult, ApplyRun, ApplyStarted, DefaultTags, TagVersion

DEFAULT_TAGS: Model[DefaultTags] = Model("default_tags.DefaultTags")
TAG_VERSION: Model[TagVersion] = Model("default_tags.TagVersion")
APPLY_OPERATION: Model[ApplyOperation] = Model("default_tags.ApplyOperation")
APPLY_RESULT: Model[ApplyResult] = Model("default_tags.ApplyResult")
APPLY_RUN: Model[ApplyRun] = Model("default_tags.ApplyRun")
APPLY_STARTED: Model[ApplyStarted] = Model("default_tags.ApplyStarted")

IN_PROGRESS = "APPLY_IN_PROGRESS"
"""Error code of a conflict with another run of the tenant; the error has its ids."""
NOTHING_TO_APPLY = "NOTHING_TO_APPLY"
_ACCEPTED = 202


def get(tenant_id: str) -> Call[DefaultTags]:
    """Get the tags. Ask with `versioned` for their version."""
    return record(Request("GET", _tags(tenant_id)), DEFAULT_TAGS, ("tags",))


def put(tenant_id: str, tags: Mapping[str, str], version: int | None = None) -> Call[DefaultTags]:
    """Replace all tags; an empty set removes them.

    Args:
        version: The version that the change is based on; the platform refuses it if there is a newer one.
    """
    request = Request("PUT", _tags(tenant_id), body={"tags": dict(tags)}, headers=if_match(version))
    return record(request, DEFAULT_TAGS, ("tags",))


def history_page(tenant_id: str, *, limit: int | None = None, cursor: str = "") -> Call[list[TagVersion]]:
    """List a page of earlier versions, newest first."""
    request = Request("GET", f"{_tags(tenant_id)}/history", page_query(limit, cursor))
    return records(request, "versions", TAG_VERSION)


def apply(tenant_id: str) -> Call[ApplyStarted]:
    """Start adding the tags, as they are at the start, to existing resources.

    Fails with IN_PROGRESS during another run. Only status 202 with an operation id is accepted.
    """
    return _start_call(Request("POST", f"{_tags(tenant_id)}/apply"))


def preview(tenant_id: str, tags: Mapping[str, str] | None = None) -> Call[ApplyResult]:
    """Return the result that an apply would have now, without changing resources.

    Args:
        tags: Tags to preview instead of the stored ones.
    """
    body = {} if tags is None else {"tags": dict(tags)}
    request = Request("POST", f"{_tags(tenant_id)}/preview", body=body)
    return record(request, APPLY_RESULT, ("summary", "byType"), reads=True)


def runs(tenant_id: str) -> Call[list[ApplyRun]]:
    """List the last ten runs, newest first."""
    return records(Request("GET", f"{_tags(tenant_id)}/runs"), "runs", APPLY_RUN)


def operation(tenant_id: str, run_id: str) -> Call[ApplyOperation]:
    """Get the operation of a run, with its progress and result."""
    route = path("/v1/tenants/{}/operations/{}", tenant_id, run_id)
    return record(Request("GET", route), APPLY_OPERATION, ("operationId", "status"))


def undo_preview(tenant_id: str, run_id: str) -> Call[ApplyResult]:
    """Return the result that an undo would have now, without changing resources: `updated` would lose tags."""
    request = _undo(tenant_id, run_id, preview=True)
    return record(request, APPLY_RESULT, ("summary", "byType"), reads=True)


def undo(tenant_id: str, run_id: str) -> Call[ApplyStarted]:
    """Start a run that removes the tags which a run added, unless they were changed since."""
    return _start_call(_undo(tenant_id, run_id, preview=False))


def _start_call(request: Request) -> Call[ApplyStarted]:
    return record(request, APPLY_STARTED, ("operationId",), status=_ACCEPTED)


def _undo(tenant_id: str, run_id: str, *, preview: bool) -> Request:
    route = path("/v1/tenants/{}/default-tags/runs/{}/undo", tenant_id, run_id)
    return Request("POST", route, body={"preview": preview})


def _tags(tenant_id: str) -> str:
    return path("/v1/tenants/{}/default-tags", tenant_id)
