"""AuthZEN searches: pages of allowed candidates.

A request examines candidates by id, up to `MAX_CANDIDATES` or `MAX_SECONDS` (policies may have to be compiled). A page
with a `next_token` may thus have fewer results than the limit, even none.
"""

import json
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

from service import errors
from service.api.dependencies import DEFAULT_LIMIT, MAX_LIMIT, PageParams, page_of
from service.authzen import decision_requests, queries
from service.authzen.decision_requests import CREATE, TENANCY_TYPES
from service.authzen.evaluation import EvaluationContext, is_allowed
from service.authzen.request_bodies import ActionSearch, Paging, ResourceSearch, Search, SubjectSearch
from service.catalogue.resource_types import kinds
from service.context import Platform

MAX_CANDIDATES = 500
MAX_SECONDS = 2.0

Candidate = tuple[str, dict[str, str] | None]
"""The key of a candidate, and its result; None if denied."""


def search_page(platform: Platform, tenant_id: str, body: Search, examine: Callable[[str], Iterator[Candidate]]) -> Any:
    """Return a page of results. `examine` yields up to `MAX_CANDIDATES` after a key, in order.

    Raises:
        ApiError: 400 for a token of another query or another limit.
    """
    paging = body.page or Paging()
    query = [type(body).__name__, body.model_dump(exclude={"page"}), paging.properties]
    digest = sha256(json.dumps(query, sort_keys=True).encode()).hexdigest()
    position = page_of(platform, PageParams(None, paging.token), "decisions", tenant_id, digest)
    requested = paging.limit
    limit, after = position.after or (DEFAULT_LIMIT if requested is None else min(requested, MAX_LIMIT), "")
    if requested is not None and min(requested, MAX_LIMIT) != limit:
        raise errors.invalid_input("page.limit must be the limit of the previous page", member="page.limit")
    results: list[dict[str, str]] = []
    more, examined = limit == 0, 0
    deadline = time.monotonic() + MAX_SECONDS
    for key, result in examine(after) if limit else ():
        if len(results) == limit:
            more = True
            break
        after, examined = key, examined + 1
        if result is not None:
            results.append(result)
        if time.monotonic() > deadline:
            more = True
            break
    more = more or examined == MAX_CANDIDATES
    token = position.cursor(limit, after) if more else ""
    return {"page": {"next_token": token, "count": len(results)}, "results": results}


def search_subjects(context: EvaluationContext, body: SubjectSearch, after: str) -> Iterator[Candidate]:
    """Decide for each subject of a type, once for equal grants."""
    request_context = context.request_context(body.subject.type, body.context, body.action.properties)
    resource = body.resource
    request = context.resolve_request(
        body.action.name, resource.type, resource.id, resource.properties, request_context
    )
    if request is None or not queries.is_subject_type(body.subject.type):
        return
    decisions: dict[object, bool] = {}
    for grants in queries.next_grants(
        context.connection, context.tenant_id, body.subject.type, after, MAX_CANDIDATES, context.now
    ):
        key = (grants.role, grants.scopes, grants.policies)
        if key not in decisions:
            decisions[key] = is_allowed(context.compile(grants), request)
        yield grants.id, {"type": grants.kind, "id": grants.id} if decisions[key] else None


def search_resources(context: EvaluationContext, body: ResourceSearch, after: str) -> Iterator[Candidate]:
    grants = context.load_subject(body.subject.type, body.subject.id)
    request_context = context.request_context(body.subject.type, body.context, body.action.properties)
    resource_type, tenant_id = body.resource.type, context.tenant_id
    operation = decision_requests.find_operation(body.action.name, resource_type, context.catalogue)
    if grants is None or operation is None:
        return
    if resource_type in TENANCY_TYPES:
        tenancy_id = tenant_id if resource_type == "tenant" else grants.principal.organization_id
        if tenancy_id > after:
            allowed = is_allowed(grants, decision_requests.request_on_tenancy(operation, tenant_id, request_context))
            yield tenancy_id, {"type": resource_type, "id": tenancy_id} if allowed else None
        return
    if operation == kinds()[resource_type].operation(CREATE):
        return
    for row in queries.next_resources(context.connection, tenant_id, resource_type, after, MAX_CANDIDATES):
        allowed = is_allowed(grants, decision_requests.request_on_resource(operation, row, tenant_id, request_context))
        yield row.id, {"type": resource_type, "id": row.id} if allowed else None


def search_actions(context: EvaluationContext, body: ActionSearch, after: str) -> Iterator[Candidate]:
    """Decide for each action on a resource, without request tags."""
    grants = context.load_subject(body.subject.type, body.subject.id)
    request_context = context.request_context(body.subject.type, body.context)
    resource = body.resource
    for name in sorted(decision_requests.list_actions(resource.type, context.catalogue)):
        if name > after:
            request = context.resolve_request(name, resource.type, resource.id, resource.properties, request_context)
            allowed = grants is not None and request is not None and is_allowed(grants, request)
            yield name, {"name": name} if allowed else None
