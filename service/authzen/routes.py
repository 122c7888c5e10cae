"""Routes of the AuthZEN Authorization API 1.0, and its searches: pages of allowed candidates.

Errors are plain text, with status 400 for every invalid request; denials have status 200. A request with many decisions
is charged as several to the key's rate limit.

A search examines candidates by id, within `SearchLimits` (policies may have to be compiled). A page with a `next_token`
may thus have fewer results than the limit, even none.
"""

import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from service import errors
from service.api.authorization import BEFORE_REVISIONS, count_request, wait_and_count_request
from service.api.dependencies import DEFAULT_LIMIT, MAX_LIMIT, ContextDep, PageParams, PlatformDep, page_of
from service.api.protected_route import ProtectedRoute, QuickAnswer, protected_router
from service.api.request_body import require_json
from service.authz.context import AuthorizationContext
from service.authz.entitlements import NotLoaded
from service.authz.grant_caches import Authority
from service.authz.route_policies import RoutePolicy
from service.authzen import decision_requests, queries
from service.authzen.decision_requests import CREATE, TENANCY_TYPES
from service.authzen.evaluation import (
    EVALUATIONS_PER_REQUEST,
    MAX_SHORT_EVALUATIONS,
    REQUESTS_PER_SEARCH,
    EvaluationContext,
    decide_evaluations,
    is_allowed,
    is_cached,
    keep_stored_state,
    requests_for_evaluations,
)
from service.authzen.request_bodies import (
    ActionSearch,
    Evaluation,
    Evaluations,
    EvaluationsRequest,
    Paging,
    Resource,
    ResourceSearch,
    Search,
    SubjectSearch,
    count_evaluations,
    json_body,
    parse_evaluation,
    parse_evaluations,
    read_json,
    read_short_json,
)
from service.catalogue.resource_types import kinds
from service.context import Platform
from service.db.prepared import NotPreparedError
from service.errors import ApiError, validation_error
from service.http_server.client import CONTENT
from service.json_bodies import JSONResponse, NotPlain
from service.principal import Principal

Candidate = tuple[str, dict[str, str] | None]
"""The key of a candidate, and its result; None if denied."""
ENDPOINTS = {
    "access_evaluation_endpoint": "/access/v1/evaluation",
    "access_evaluations_endpoint": "/access/v1/evaluations",
    "search_subject_endpoint": "/access/v1/search/subject",
    "search_resource_endpoint": "/access/v1/search/resource",
    "search_action_endpoint": "/access/v1/search/action",
}

MAX_QUICK_BYTES = 4 * 1024
"""Enough for ten evaluations."""
Parse = Callable[[Any], EvaluationsRequest]


def search_page(platform: Platform, tenant_id: str, body: Search, examine: Callable[[str], Iterator[Candidate]]) -> Any:
    """Return a page of results. `examine` yields candidates after a key, in order and within the limit.

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
    limits = platform.search_limits
    deadline = time.monotonic() + limits.seconds
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
    more = more or examined == limits.candidates
    token = position.cursor(limit, after) if more else ""
    return {"page": {"next_token": token, "count": len(results)}, "results": results}


def allowed_subjects(context: EvaluationContext, body: SubjectSearch, after: str) -> Iterator[Candidate]:
    """Decide for each subject of a type, once for equal grants."""
    request_context = context.request_context(body.subject.type, body.context, body.action.properties)
    resource = body.resource
    request = context.resolve_request(
        body.action.name, resource.type, resource.id, resource.properties, request_context
    )
    if request is None or not queries.is_subject_type(body.subject.type):
        return
    decisions: dict[object, bool] = {}
    most = context.platform.search_limits.candidates
    for grants in queries.next_grants(
        context.connection, context.tenant_id, body.subject.type, after, most, context.now
    ):
        key = (grants.role, grants.scopes, grants.policies)
        if key not in decisions:
            decisions[key] = is_allowed(context.compile(grants), request)
        yield grants.id, {"type": grants.kind, "id": grants.id} if decisions[key] else None


def allowed_resources(context: EvaluationContext, body: ResourceSearch, after: str) -> Iterator[Candidate]:
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
    most = context.platform.search_limits.candidates
    for row in queries.next_resources(context.connection, tenant_id, resource_type, after, most):
        allowed = is_allowed(grants, decision_requests.request_on_resource(operation, row, tenant_id, request_context))
        yield row.id, {"type": resource_type, "id": row.id} if allowed else None


def allowed_actions(context: EvaluationContext, body: ActionSearch, after: str) -> Iterator[Candidate]:
    """Decide for each action on a resource, without request tags."""
    grants = context.load_subject(body.subject.type, body.subject.id)
    request_context = context.request_context(body.subject.type, body.context)
    resource = body.resource
    for name in sorted(decision_requests.list_actions(resource.type, context.catalogue)):
        if name > after:
            request = context.resolve_request(name, resource.type, resource.id, resource.properties, request_context)
            allowed = grants is not None and request is not None and is_allowed(grants, request)
            yield name, {"name": name} if allowed else None


class DecisionRoute(ProtectedRoute):
    """A route with plain-text errors."""

    def quick_answer(self, method: str) -> QuickAnswer | None:
        parse = _PARSERS.get(self.endpoint)
        return parse and partial(_evaluate_short, parse)

    async def admit(
        self, rule: RoutePolicy, platform: Platform, request: Request
    ) -> tuple[AuthorizationContext, Response | None]:
        parse = _PARSERS.get(self.endpoint)
        # On SQLite, all statements on the event loop read one snapshot.
        if parse is not None and CONTENT in request.scope and platform.database.kind == "postgresql":
            request.scope[BEFORE_REVISIONS] = partial(_read_ahead, parse, platform, request)
        return await super().admit(rule, platform, request)

    async def respond(self, request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        try:
            return await super().respond(request, answer)
        except RequestValidationError as error:
            api_error = validation_error(error)
        except ApiError as error:
            api_error = error
        # The HTTP binding of AuthZEN has no 415.
        return api_error.plain(400 if api_error.status_code == 415 else None)


discovery = protected_router("decision point")
decisions = APIRouter(route_class=DecisionRoute, tags=["decision point"])


@discovery.get("/.well-known/authzen-configuration", operation_id="describeDecisionPoint")
def describe_decision_point(request: Request, platform: PlatformDep) -> JSONResponse:
    """Return the endpoints of the decision point under the platform's public address (`--public-url`).

    By default, it is the local address of the connection (`http://localhost` for the unix socket). The `Host` header is
    not used, because clients can forge it.
    """
    base = platform.settings.public_url or f"{request.scope['scheme']}://{listening_address(request)}"
    return JSONResponse({"policy_decision_point": base} | {name: base + path for name, path in ENDPOINTS.items()})


def listening_address(request: Request) -> str:
    """Return the local address of the connection: host and port, or `localhost` for the unix socket."""
    host, port = request.scope.get("server") or ("localhost", None)
    if port is None:
        return "localhost"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@decisions.post("/access/v1/evaluation", operation_id="evaluate", openapi_extra=json_body(Evaluation))
async def evaluate(request: Request) -> JSONResponse:
    """Decide whether a subject may perform an action on a resource."""
    return await _evaluate(request, parse_evaluation)


@decisions.post("/access/v1/evaluations", operation_id="evaluateMany", openapi_extra=json_body(Evaluations))
async def evaluate_many(request: Request) -> JSONResponse:
    """Decide several evaluations in their order. Ten are charged as a single request."""
    return await _evaluate(request, parse_evaluations)


def _read_ahead(
    parse: Parse, platform: Platform, request: Request, connection: Connection, authority: Authority
) -> None:
    """Read what the decisions need together with the revisions of the caller, before it is authorized."""
    with suppress(ApiError, RequestValidationError):
        evaluations = _parse_short(parse, request)
        if evaluations is not None:
            tenant_id = str(authority.principal.tenant_id)
            keep_stored_state(platform, connection, tenant_id, evaluations, authority.revisions)


def _evaluate_short(parse: Parse, request: Request) -> JSONResponse | None:
    """Decide evaluations in the snapshot of the authorization; return None for those that may take longer."""
    platform: Platform = request.app.state.platform
    tenant_id = str(request.scope["frost.access"].principal.tenant_id)
    evaluations = _parse_short(parse, request)
    if evaluations is None or not is_cached(platform, tenant_id, evaluations):
        return None
    with platform.database.read() as connection:
        return JSONResponse(decide_evaluations(platform, connection, tenant_id, evaluations, load=False))


def _parse_short(parse: Parse, request: Request) -> EvaluationsRequest | None:
    """Return the evaluations of a short body; None for others.

    Those that are charged as several requests are left to `_evaluate`, so that none is charged twice.
    """
    scope = request.scope
    if "frost.evaluations" in scope:
        parsed: EvaluationsRequest = scope["frost.evaluations"]
        return parsed
    content: bytes | None = scope.get(CONTENT)
    if content is None or len(content) > MAX_QUICK_BYTES:
        return None
    require_json(request)
    try:
        body = read_short_json(content)
    except NotPlain:
        return None
    if count_evaluations(body) > EVALUATIONS_PER_REQUEST:
        return None
    evaluations = scope["frost.evaluations"] = parse(body)
    return evaluations


_PARSERS: dict[Callable[..., Any], Parse] = {evaluate: parse_evaluation, evaluate_many: parse_evaluations}


async def _evaluate(request: Request, parse: Parse) -> JSONResponse:
    """Decide evaluations, on the event loop if that takes less than a millisecond, otherwise in a worker thread."""
    platform: Platform = request.app.state.platform
    principal: Principal = request.scope["frost.access"].principal
    body, is_short = await read_json(request)
    is_short = is_short and count_evaluations(body) <= MAX_SHORT_EVALUATIONS
    evaluations = parse(body) if is_short else await run_in_threadpool(parse, body)
    further = requests_for_evaluations(len(evaluations.evaluations)) - 1
    if further and not count_request(platform, principal, platform.clock.now(), further):
        await run_in_threadpool(wait_and_count_request, platform, principal, further)
    tenant_id = str(principal.tenant_id)

    def decide(load: bool) -> JSONResponse:
        with platform.database.read() as connection:
            return JSONResponse(decide_evaluations(platform, connection, tenant_id, evaluations, load=load))

    if is_short and is_cached(platform, tenant_id, evaluations):
        with suppress(NotLoaded, NotPreparedError):
            return await platform.database.loop_reads.run(partial(decide, load=False))
    return await run_in_threadpool(decide, load=True)


@decisions.post("/access/v1/search/subject", operation_id="searchSubjects")
def search_subjects(context: ContextDep, platform: PlatformDep, body: SubjectSearch) -> JSONResponse:
    """List the subjects that may perform an action on a resource. Charged as five requests."""
    return _search(context, platform, body, lambda context, after: allowed_subjects(context, body, after))


@decisions.post("/access/v1/search/resource", operation_id="searchResources")
def search_resources(context: ContextDep, platform: PlatformDep, body: ResourceSearch) -> JSONResponse:
    """List the resources of a type on which a subject may perform an action. Charged as five requests."""
    return _search(context, platform, body, lambda context, after: allowed_resources(context, body, after))


@decisions.post("/access/v1/search/action", operation_id="searchActions")
def search_actions(context: ContextDep, platform: PlatformDep, body: ActionSearch) -> JSONResponse:
    """List the actions that a subject may perform on a resource. Charged as five requests."""
    return _search(context, platform, body, lambda context, after: allowed_actions(context, body, after))


def _search(
    context: AuthorizationContext,
    platform: Platform,
    body: Search,
    examine: Callable[[EvaluationContext, str], Iterator[Candidate]],
) -> JSONResponse:
    # The first was counted on arrival.
    wait_and_count_request(platform, context.principal, REQUESTS_PER_SEARCH - 1)
    tenant_id = str(context.principal.tenant_id)
    resources = [(body.resource.type, body.resource.id)] if isinstance(body.resource, Resource) else []
    with platform.database.read() as connection:
        evaluation_context = EvaluationContext(platform, connection, tenant_id, resources)
        page = search_page(platform, tenant_id, body, lambda after: examine(evaluation_context, after))
        return JSONResponse(page)


router = APIRouter()


router.routes.extend([*discovery.routes, *decisions.routes])
