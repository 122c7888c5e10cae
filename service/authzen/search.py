"""The three searches: a page of those whose evaluation says yes.

A request examines at most `MOST_EXAMINED` candidates, in the order of their ids, and begins none after `MOST_SECONDS`:
their policies may have to be read and compiled first. So a page may hold fewer results than asked for, even none, while
`next_token` leads on. A token is good for the same question only.
"""

import json
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

from service import errors
from service.api.pagination import DEFAULT_LIMIT, MAX_LIMIT, PageParams, page_of
from service.authzen import decision_requests, subjects
from service.authzen.decision_requests import CREATE, TENANCY_TYPES
from service.authzen.evaluation import EvaluationContext, is_allowed
from service.authzen.schemas import ActionSearch, Paging, Resource, ResourceSearch, Search, SubjectSearch
from service.catalogue.resource_types import kinds
from service.context import Platform

MAX_CANDIDATES = 500
MAX_SECONDS = 2.0

Candidate = tuple[str, dict[str, str] | None]
"""The key of one that was examined, and the result it is; None: it is none."""


def search_page(platform: Platform, tenant_id: str, body: Search, examine: Callable[[str], Iterator[Candidate]]) -> Any:
    """A page of results. `examine` tells at most `MOST_EXAMINED` candidates behind a key, in order.

    Raises:
        Refusal: 400 for a token of another question, or a limit that is not the one it was given for.
    """
    paging = body.page or Paging()
    asked = [type(body).__name__, body.model_dump(exclude={"page"}), paging.properties]
    same = sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    place = page_of(platform, PageParams(None, paging.token), "decisions", tenant_id, same)
    given = paging.limit
    limit, after = place.after or (DEFAULT_LIMIT if given is None else min(given, MAX_LIMIT), "")
    if given is not None and min(given, MAX_LIMIT) != limit:
        raise errors.invalid_input("page.limit must be the one of the page before", member="page.limit")
    results: list[dict[str, str]] = []
    more, seen = limit == 0, 0
    until = time.monotonic() + MAX_SECONDS
    for key, result in examine(after) if limit else ():
        if len(results) == limit:
            more = True
            break
        after, seen = key, seen + 1
        if result is not None:
            results.append(result)
        if time.monotonic() > until:
            more = True
            break
    more = more or seen == MAX_CANDIDATES
    token = place.cursor(limit, after) if more else ""
    return {"page": {"next_token": token, "count": len(results)}, "results": results}


def search_subjects(sitting: EvaluationContext, body: SubjectSearch, after: str) -> Iterator[Candidate]:
    """The subjects of a type, each decided; those who stand on the same are decided once."""
    request = sitting.request(body.context, body.action)
    question = sitting.question(body.action.name, body.resource, request)
    if question is None or not subjects.is_subject_type(body.subject.type):
        return
    decided: dict[object, bool] = {}
    for standing in subjects.next_grants(
        sitting.connection, sitting.tenant_id, body.subject.type, after, MAX_CANDIDATES, sitting.now
    ):
        rests_on = (standing.role, standing.scopes, standing.policies)
        if rests_on not in decided:
            decided[rests_on] = is_allowed(sitting.compiled(standing), question)
        yield standing.id, {"type": standing.kind, "id": standing.id} if decided[rests_on] else None


def search_resources(sitting: EvaluationContext, body: ResourceSearch, after: str) -> Iterator[Candidate]:
    """The resources of a type, each decided."""
    ready = sitting.subject(body.subject)
    request = sitting.request(body.context, body.action)
    type_, tenant_id = body.resource.type, sitting.tenant_id
    operation = decision_requests.find_operation(body.action.name, type_, sitting.known)
    if ready is None or operation is None:
        return
    if type_ in TENANCY_TYPES:
        place = tenant_id if type_ == "tenant" else ready.standing.organization_id
        if place > after:
            allowed = is_allowed(ready, decision_requests.request_on_tenancy(operation, tenant_id, request))
            yield place, {"type": type_, "id": place} if allowed else None
        return
    if operation == kinds()[type_].operation(CREATE):
        return
    for row in subjects.next_resources(sitting.connection, tenant_id, type_, after, MAX_CANDIDATES):
        allowed = is_allowed(ready, decision_requests.request_on_resource(operation, row, tenant_id, request))
        yield row.id, {"type": type_, "id": row.id} if allowed else None


def search_actions(sitting: EvaluationContext, body: ActionSearch, after: str) -> Iterator[Candidate]:
    """The actions there are for a resource, each decided for a request without properties of its own."""
    ready = sitting.subject(body.subject)
    request = sitting.request(body.context)
    resource: Resource = body.resource
    for name in sorted(decision_requests.list_actions(resource.type, sitting.known)):
        if name > after:
            question = sitting.question(name, resource, request)
            allowed = ready is not None and question is not None and is_allowed(ready, question)
            yield name, {"name": name} if allowed else None
