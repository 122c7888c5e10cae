"""Routes of the platform, which apply the route policy of a request and write refused changes to the audit log.

Requests without a valid credential are not audited, because they could fill the database. FastAPI analyses a route on
its first use, because analysing all of them takes a sixth of the start.
"""

import gc
import inspect
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from enum import Enum
from functools import cached_property, partial
from typing import Any

from fastapi import APIRouter, params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import PARAM_REGEX, BaseRoute, compile_path, get_name
from starlette.types import Receive, Scope, Send

from service import errors
from service.api.authorization import authenticate_and_authorize, authorize_from_memory
from service.api.direct_call import BODY, DirectCall, UnsupportedParameterError
from service.api.request_body import read_body
from service.api.responses import error_response
from service.audit import entries
from service.audit.entries import AuditEvent, Refusal
from service.authn import secret_format
from service.authn.rate_limit import RateLimited
from service.authz.context import AuthorizationContext
from service.authz.entitlements import NotLoaded
from service.authz.route_policies import ROUTE_POLICIES, RoutePolicy
from service.context import Platform
from service.db.prepared import NotPreparedError
from service.errors import ApiError, Overloaded, validation_error
from service.http_server.client import peer_uid
from service.http_server.work_queues import Work, run_in_slot
from service.principal import Principal
from service.validation import canonical_id

logger = logging.getLogger(__name__)

ANALYSIS_DELAY_SECONDS = 0.5
ANALYSIS_PAUSE_SECONDS = 0.002
_analysis_lock = threading.RLock()


class LazyRoute(APIRoute):
    """A route with its arguments as attributes. The first use of another attribute analyses the endpoint."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self._options = options
        self._is_analysed = False
        self.path = path
        self.path_format = PARAM_REGEX.sub(r"{\1}", path)
        self.endpoint = endpoint
        self.name = options.get("name") or get_name(endpoint)
        self.methods = {method.upper() for method in options.get("methods") or ("GET",)}
        self.status_code: int | None = options.get("status_code")
        self.tags: list[str | Enum] = options.get("tags") or []
        self.dependencies: list[params.Depends] = list(options.get("dependencies") or ())
        self.responses: dict[int | str, dict[str, Any]] = options.get("responses") or {}
        self.openapi_extra: dict[str, Any] | None = options.get("openapi_extra")
        self.operation_id: str | None = options.get("operation_id")

    def __getattr__(self, name: str) -> Any:
        """Set a missing attribute and return it. Python calls this only for attributes that are not set."""
        if name in ("path_regex", "param_convertors"):
            # A request compares its path with many routes that it does not use.
            self.path_regex, _, self.param_convertors = compile_path(self.path)
        elif name.startswith("__") or name in ("_options", "_is_analysed"):
            raise AttributeError(name=name, obj=self)
        else:
            self.analyse()
        return self.__getattribute__(name)

    def analyse(self) -> None:
        """Analyse the parameters and dependencies of the endpoint, unless this is done.

        Raises:
            FastAPIError: FastAPI does not support a parameter.
        """
        # Two threads may use the route first; analysing takes about a millisecond.
        with _analysis_lock:
            if not self._is_analysed:
                # First, because FastAPI may look for attributes that no route has.
                self._is_analysed = True
                try:
                    super().__init__(self.path, self.endpoint, **self._options)
                except BaseException:
                    self._is_analysed = False
                    raise


def start_analysis(routes: Iterable[BaseRoute], stopping: threading.Event) -> threading.Thread:
    """Start a thread that analyses all routes, so that few requests wait for it."""
    thread = threading.Thread(target=analyse_routes, args=(tuple(routes), stopping), name="routes", daemon=True)
    thread.start()
    return thread


def analyse_routes(
    routes: Iterable[BaseRoute],
    stopping: threading.Event,
    delay: float = ANALYSIS_DELAY_SECONDS,
    pause: float = ANALYSIS_PAUSE_SECONDS,
) -> None:
    """Analyse routes after a delay, with pauses in which requests run."""
    if stopping.wait(delay):
        return
    for route in routes:
        if isinstance(route, LazyRoute):
            try:
                _ = route.path_regex
                route.analyse()
            except Exception:
                logger.exception("%s cannot be analysed", route.path)
            if stopping.wait(pause):
                return
    # As after the imports: these objects stay until the end, so collections need not visit them.
    gc.freeze()


# FastAPI imports `pydantic.v1` to recognize its types, which are not used here. Blocking the import saves 20 ms.
sys.modules.setdefault("pydantic.v1", None)  # type: ignore[arg-type]


MAX_RULES_ON_EVENT_LOOP = 100
QuickAnswer = Callable[[Request], Response | None]


class ProtectedRoute(LazyRoute):
    """A route that applies its entry of `ROUTE_POLICIES`."""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of this route's path and method without FastAPI, which only calls the endpoint."""
        request, call = Request(scope, receive, send), self.direct_call
        try:
            if call is None:
                response = await self.respond(request, self.endpoint)
            else:
                response = await self.respond(request, partial(self._call, call))
        except (HTTPException, RequestValidationError) as error:
            response = await error_response(request, error)
        await response(scope, receive, send)

    async def _call(self, call: DirectCall, request: Request) -> Response:
        thread = request.app.state.platform.database.change_thread
        rule = ROUTE_POLICIES[request.method, self.path_format]
        if rule.quick and rule.work is Work.WRITE and thread is not None:
            response: Response = await thread.run(call, request)
            return response
        return await run_in_slot(call, request)

    def quick_answer(self, method: str) -> QuickAnswer | None:
        """Return the function that answers on the event loop in the snapshot of the authorization, if there is one.

        It returns None if the request takes longer.
        """
        rule = ROUTE_POLICIES[method, self.path_format]
        return self.direct_call if rule.quick and rule.work is Work.READ else None

    @cached_property
    def is_direct(self) -> bool:
        """Whether the route needs nothing of FastAPI."""
        return self.direct_call is not None or self.takes_request_only

    @cached_property
    def takes_request_only(self) -> bool:
        """Whether the endpoint is a coroutine function of the request that returns a response."""
        signature = inspect.signature(self.endpoint)
        returned = signature.return_annotation
        return (
            inspect.iscoroutinefunction(self.endpoint)
            and not self.dependencies
            and [parameter.annotation for parameter in signature.parameters.values()] == [Request]
            and isinstance(returned, type)
            and issubclass(returned, Response)
        )

    @cached_property
    def direct_call(self) -> DirectCall | None:
        """The endpoint without FastAPI; None if only FastAPI can call it."""
        try:
            if self.dependencies:
                return None
            return DirectCall(self.endpoint, {name for name, _ in PARAM_REGEX.findall(self.path)})
        except UnsupportedParameterError:
            return None

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return partial(self.respond, answer=super().get_route_handler())

    async def respond(self, request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        """Apply the route policy, then answer."""
        rule = ROUTE_POLICIES[request.method, self.path_format]
        platform: Platform = request.app.state.platform
        try:
            context, response = await self.admit(rule, platform, request)
            if response is not None:
                return response
            # Read the body first, so that waiting for it occupies no slot.
            if self.body_field is not None:
                request.scope[BODY] = await read_body(request, self.body_field)
            elif rule.work is Work.CPU_INTENSIVE:
                await request.body()
            async with platform.work.slot(rule, context.principal):
                return await answer(request)
        except (Overloaded, RateLimited):
            # Not audited, because nothing was decided. Beyond its limit, a credential must not cause writes.
            raise
        except (ApiError, RequestValidationError) as error:
            if rule.audit_event and (principal := request.scope.get("frost.caller")):
                await run_in_threadpool(record_refusal, platform, rule.audit_event, principal, request, error)
            raise

    async def admit(
        self, rule: RoutePolicy, platform: Platform, request: Request
    ) -> tuple[AuthorizationContext, Response | None]:
        """Authorize a request, and answer it on the event loop if possible."""
        scope, quick = request.scope, self.quick_answer(request.method)
        require_transport(rule, request)
        if rule.who == "anyone":
            context = scope["frost.access"] = AuthorizationContext(anonymous_principal(request))
            return context, None
        try:
            return await platform.database.loop_reads.run(partial(admit_from_memory, rule, platform, request, quick))
        except (NotLoaded, NotPreparedError):
            if "frost.access" not in scope:
                scope["frost.access"] = await run_in_threadpool(authenticate_and_authorize, rule, platform, request)
            return scope["frost.access"], None


def admit_from_memory(
    rule: RoutePolicy, platform: Platform, request: Request, quick: QuickAnswer | None
) -> tuple[AuthorizationContext, Response | None]:
    """Authorize a request from the cache. If `quick` is set and the decision is short, answer in the same snapshot."""
    context = request.scope["frost.access"] = authorize_from_memory(rule, platform, request)
    return context, quick(request) if quick is not None and is_light(context) else None


def is_light(context: AuthorizationContext) -> bool:
    """Return whether a decision about a target is short enough for the event loop: each rule may be compared."""
    policies = context.grants.policies if context.grants else None
    return policies is None or len(policies.rules) <= MAX_RULES_ON_EVENT_LOOP


def require_transport(rule: RoutePolicy, request: Request) -> None:
    """Raise 404 for a route of the unix socket over TCP."""
    if rule.local and peer_uid(request.scope) is None:
        raise errors.not_routed(request.scope["path"])


def protected_router(tag: str) -> APIRouter:
    """Return a router for routes with complete paths (`/api/v1/…`)."""
    return APIRouter(route_class=ProtectedRoute, tags=[tag])


def anonymous_principal(request: Request) -> Principal:
    return Principal(kind="anonymous", request_id=request.scope["frost.request_id"], peer_uid=peer_uid(request.scope))


def path_id_or_none(request: Request, name: str) -> str | None:
    try:
        return canonical_id(request.path_params[f"{name}_id"], name)
    except (KeyError, ApiError):
        return None


def record_refusal(
    platform: Platform,
    event: AuditEvent,
    principal: Principal,
    request: Request,
    error: ApiError | RequestValidationError,
) -> None:
    """Write or count the audit entry of a refused change.

    The entry has the tenant or organization only if the principal belongs to it, so that others cannot fill its log.
    """
    refusal = validation_error(error) if isinstance(error, RequestValidationError) else error
    context: AuthorizationContext | None = request.scope.get("frost.access")
    platform.refusals.record(
        principal,
        Refusal(
            event,
            secret_format.mask_secrets(request.scope["path"])[: entries.MAX_TARGET_LENGTH],
            refusal.status_code,
            refusal.code,
            context.organization_id if context else path_id_or_none(request, "organization"),
            context.tenant_id if context else path_id_or_none(request, "tenant"),
        ),
    )
