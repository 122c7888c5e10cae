"""The application: every area's routes, behind one edge and one table of rules."""

from collections.abc import Sequence

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from service.account import api_keys as keys
from service.account import deletion, sessions
from service.account import routes as account
from service.activity import routes as audit_log
from service.api import openapi
from service.api.middleware import HANDLERS, HeadMiddleware, IdleTracker, RequestMiddleware
from service.api.protected_route import ProtectedRoute
from service.authz.route_policies import HOME_PATHS, ROUTE_POLICIES
from service.authzen import routes as decision_point
from service.bootstrap import open_platform, open_worker
from service.default_tags import apply_routes as default_tag_runs
from service.default_tags import routes as default_tags
from service.http_server.admission import Admission
from service.iam import access_review as who
from service.iam import attachments, groups, policies
from service.iam import catalogue as iam
from service.iam import simulate as trials
from service.jobs import routes as operations
from service.oidc_issuer import routes as issuer
from service.operator import audit, health, metrics
from service.operator import routes as operator_routes
from service.quotas import requests as quota_requests
from service.quotas import review as quota_reviews
from service.quotas import routes as quotas
from service.resources import interactive
from service.resources import routes as resources
from service.settings import VERSION, Settings
from service.tenants import routes as tenants
from service.workloads import cluster_issuers as clusters
from service.workloads import identities as bindings

AREAS = (
    health,
    metrics,
    openapi,
    account,
    deletion,
    keys,
    tenants,
    default_tags,
    default_tag_runs,
    operations,
    iam,
    groups,
    policies,
    attachments,
    trials,
    who,
    bindings,
    clusters,
    resources,
    interactive,
    decision_point,
    quotas,
    quota_requests,
    quota_reviews,
    issuer,
    sessions,
    audit_log,
    operator_routes,
    audit,
)
# The framework's own hooks: who watches this platform is its operator's choice, not an environment variable's.
SILENT: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
READS = frozenset({"GET"})


def create_app(settings: Settings) -> FastAPI:
    """The application on an opened platform (`app.state.platform`); nothing runs until a server starts it.

    Raises:
        ValueError: the data folder or the database cannot be used.
        RuntimeError: a route has no rule.
    """
    activity = IdleTracker()
    admission = Admission(settings.limits, settings.proxies)
    app = FastAPI(
        title="frost",
        version=VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=SILENT,
        exception_handlers=HANDLERS,
        middleware=[Middleware(RequestMiddleware, activity=activity, admission=admission), Middleware(HeadMiddleware)],
    )
    for area in AREAS:
        # Their paths are whole already: including a router would analyse every route a second time.
        app.router.routes.extend(area.router.routes)
    app.router.routes.extend(home_routes(app.routes))
    check_rules(app.routes)
    app.state.activity = activity
    app.state.admission = admission
    platform = app.state.platform = open_platform(settings)
    app.state.worker = open_worker(platform.database, platform.clock, settings)
    admission.refused = platform.traffic.refused
    return app


def home_routes(routes: Sequence[BaseRoute]) -> list[ProtectedRoute]:
    """The routes of `HOME_PATHS`: the endpoints of their tenanted paths, under a path without a tenant."""
    by_path: dict[str, list[ProtectedRoute]] = {}
    for route in routes:
        if isinstance(route, ProtectedRoute):
            by_path.setdefault(route.path_format, []).append(route)
    return [
        ProtectedRoute(
            home,
            route.endpoint,
            methods=route.methods,
            status_code=route.status_code,
            tags=route.tags,
            dependencies=route.dependencies,
            responses=route.responses,
            openapi_extra=route.openapi_extra,
            name=route.name,
        )
        for home, path in HOME_PATHS.items()
        for route in by_path[path]
    ]


def check_rules(routes: Sequence[BaseRoute]) -> None:
    """Refuse to start when a route would be reachable without a decision.

    Raises:
        RuntimeError: a route is not guarded, has no rule, or changes something under no name for the audit log.
    """
    for route in routes:
        if not isinstance(route, ProtectedRoute):
            raise RuntimeError(f"{getattr(route, 'path', route)} is not a guarded route")  # noqa: TRY004
        for method in route.methods or ():
            rule = ROUTE_POLICIES.get((method, route.path_format))
            if rule is None:
                raise RuntimeError(f"{method} {route.path_format} has no rule in service/authz/route_policies.py")
            if method not in READS and rule.who != "anyone" and rule.operation is None and not rule.dry_run:
                raise RuntimeError(f"{method} {route.path_format} changes something without a name for the audit log")
