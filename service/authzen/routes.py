"""HTTP routes of the AuthZEN Authorization API 1.0: evaluation, evaluations, searches, metadata.

Errors are plain text, and every invalid request is a 400. Denials have status 200. The only write is that of the key's
rate limit; a request with many decisions counts as several.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from service import errors
from service.api.dependencies import ContextDep, PlatformDep
from service.api.protected_route import ProtectedRoute, protected_router
from service.authz.context import AuthorizationContext
from service.authzen import evaluation, search
from service.authzen.evaluation import (
    REQUESTS_PER_SEARCH,
    EvaluationContext,
    charge_rate_limit,
    requests_for_evaluations,
)
from service.authzen.schemas import (
    ActionSearch,
    Evaluation,
    Evaluations,
    Options,
    ResourceSearch,
    Search,
    SubjectSearch,
    merge_evaluation,
)
from service.authzen.search import Candidate
from service.context import Platform
from service.errors import ApiError, validation_error

ENDPOINTS = {
    "access_evaluation_endpoint": "/access/v1/evaluation",
    "access_evaluations_endpoint": "/access/v1/evaluations",
    "search_subject_endpoint": "/access/v1/search/subject",
    "search_resource_endpoint": "/access/v1/search/resource",
    "search_action_endpoint": "/access/v1/search/action",
}

MAX_EVALUATIONS = 200


class DecisionRoute(ProtectedRoute):
    """A protected route with plain-text errors."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def plain_text(request: Request) -> Response:
            try:
                return await handler(request)
            except RequestValidationError as error:
                api_error = validation_error(error)
            except ApiError as error:
                api_error = error
            # The HTTP binding of AuthZEN has no 415: other content types are a bad request.
            return api_error.plain(400 if api_error.status_code == 415 else None)

        return plain_text


discovery = protected_router("decision point")
decisions = APIRouter(route_class=DecisionRoute, tags=["decision point"])


@discovery.get("/.well-known/authzen-configuration", operation_id="describeDecisionPoint")
def describe_decision_point(request: Request, platform: PlatformDep) -> JSONResponse:
    """Return the endpoints of the decision point under the platform's public address (`--public-url`).

    Without one, use the address that the connection arrived at (`http://localhost` for the unix socket). The `Host`
    header is not used: any client can forge it.
    """
    base = platform.settings.public_url or f"{request.scope['scheme']}://{listening_address(request)}"
    return JSONResponse({"policy_decision_point": base} | {name: base + path for name, path in ENDPOINTS.items()})


def listening_address(request: Request) -> str:
    """Return host and port of the accepting socket; `localhost` for the unix socket."""
    host, port = request.scope.get("server") or ("localhost", None)
    if port is None:
        return "localhost"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@decisions.post("/access/v1/evaluation", operation_id="evaluate")
def evaluate(context: ContextDep, platform: PlatformDep, body: Evaluation) -> JSONResponse:
    """Decide whether a subject may perform an action on a resource."""
    with platform.database.read() as connection:
        return JSONResponse(
            evaluation.decision_wire(get_evaluation_context(platform, connection, context).decide(body))
        )


@decisions.post("/access/v1/evaluations", operation_id="evaluateMany")
def evaluate_many(context: ContextDep, platform: PlatformDep, body: Evaluations) -> JSONResponse:
    """Decide several evaluations, in their order. Every ten count as one request of the key."""
    if not body.evaluations:
        return evaluate(context, platform, merge_evaluation(body.defaults()))
    if len(body.evaluations) > MAX_EVALUATIONS:
        raise errors.invalid_input(f"evaluations: at most {MAX_EVALUATIONS} in one request")
    charge_rate_limit(platform, context.principal, requests_for_evaluations(len(body.evaluations)))
    semantic = (body.options or Options()).evaluations_semantic
    defaults = body.defaults()
    evaluations = [_merge(defaults, members) for members in body.evaluations]
    with platform.database.read() as connection:
        evaluation_context = get_evaluation_context(platform, connection, context)
        evaluation_context.load_resources(each.resource for each in evaluations if isinstance(each, Evaluation))
        results = (evaluation_context.decide(each) if isinstance(each, Evaluation) else each for each in evaluations)
        return JSONResponse({"evaluations": evaluation.apply_semantic(results, semantic)})


def _merge(defaults: Mapping[str, Any], members: Any) -> Evaluation | str:
    """Return an evaluation, or its error."""
    try:
        return merge_evaluation(defaults, members)
    except RequestValidationError as error:
        return validation_error(error).message


@decisions.post("/access/v1/search/subject", operation_id="searchSubjects")
def search_subjects(context: ContextDep, platform: PlatformDep, body: SubjectSearch) -> JSONResponse:
    """List the subjects that may perform an action on a resource. Counts as five requests of the key."""
    return _search(context, platform, body, lambda context, after: search.search_subjects(context, body, after))


@decisions.post("/access/v1/search/resource", operation_id="searchResources")
def search_resources(context: ContextDep, platform: PlatformDep, body: ResourceSearch) -> JSONResponse:
    """List the resources of a type that a subject may perform an action on. Counts as five requests of the key."""
    return _search(context, platform, body, lambda context, after: search.search_resources(context, body, after))


@decisions.post("/access/v1/search/action", operation_id="searchActions")
def search_actions(context: ContextDep, platform: PlatformDep, body: ActionSearch) -> JSONResponse:
    """List the actions that a subject may perform on a resource. Counts as five requests of the key."""
    return _search(context, platform, body, lambda context, after: search.search_actions(context, body, after))


def _search(
    context: AuthorizationContext,
    platform: Platform,
    body: Search,
    examine: Callable[[EvaluationContext, str], Iterator[Candidate]],
) -> JSONResponse:
    charge_rate_limit(platform, context.principal, REQUESTS_PER_SEARCH)
    with platform.database.read() as connection:
        evaluation_context = get_evaluation_context(platform, connection, context)
        page = search.search_page(
            platform, evaluation_context.tenant_id, body, lambda after: examine(evaluation_context, after)
        )
        return JSONResponse(page)


def get_evaluation_context(platform: Platform, connection: Any, context: AuthorizationContext) -> EvaluationContext:
    """Return the context for decisions in the tenant of the key."""
    return EvaluationContext(platform, connection, str(context.principal.tenant_id))


router = APIRouter()
router.routes.extend([*discovery.routes, *decisions.routes])
