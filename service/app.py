"""The application: every area's routes, behind one edge and one table of rules."""

from collections.abc import Sequence

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from service import health, metrics, openapi, staff
from service.access import audit_routes as audit
from service.access import routes as sessions
from service.access.guard import GuardedRoute
from service.access.table import HOME_PATHS, RULES
from service.account import deletion_routes as deletion
from service.account import key_routes as keys
from service.account import routes as account
from service.activity import routes as audit_log
from service.admission import Admission
from service.decision_point import routes as decision_point
from service.edge import HANDLERS, Activity, Edge
from service.head import HeadAsGet
from service.iam import attachment_routes as attachments
from service.iam import binding_routes as bindings
from service.iam import cluster_routes as clusters
from service.iam import group_routes as groups
from service.iam import policy_routes as policies
from service.iam import routes as iam
from service.iam import trial_routes as trials
from service.iam import who_routes as who
from service.issuer import routes as issuer
from service.operations import routes as operations
from service.platform import open_platform
from service.quotas import request_routes as quota_requests
from service.quotas import review_routes as quota_reviews
from service.quotas import routes as quotas
from service.resources import interactive
from service.resources import routes as resources
from service.settings import Settings
from service.tenants import default_tag_routes as default_tags
from service.tenants import default_tag_run_routes as default_tag_runs
from service.tenants import routes as tenants
from service.version import VERSION

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
    staff,
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
    activity = Activity()
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
        middleware=[Middleware(Edge, activity=activity, admission=admission), Middleware(HeadAsGet)],
    )
    for area in AREAS:
        # Their paths are whole already: including a router would analyse every route a second time.
        app.router.routes.extend(area.router.routes)
    app.router.routes.extend(home_routes(app.routes))
    check_rules(app.routes)
    app.state.activity = activity
    app.state.admission = admission
    platform = app.state.platform = open_platform(settings)
    admission.refused = platform.traffic.refused
    return app


def home_routes(routes: Sequence[BaseRoute]) -> list[GuardedRoute]:
    """The routes of `HOME_PATHS`: the endpoints of their tenanted paths, under a path without a tenant."""
    by_path: dict[str, list[GuardedRoute]] = {}
    for route in routes:
        if isinstance(route, GuardedRoute):
            by_path.setdefault(route.path_format, []).append(route)
    return [
        GuardedRoute(
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
        if not isinstance(route, GuardedRoute):
            raise RuntimeError(f"{getattr(route, 'path', route)} is not a guarded route")  # noqa: TRY004
        for method in route.methods or ():
            rule = RULES.get((method, route.path_format))
            if rule is None:
                raise RuntimeError(f"{method} {route.path_format} has no rule in service/access/table.py")
            if method not in READS and rule.who != "anyone" and rule.operation is None and not rule.tries:
                raise RuntimeError(f"{method} {route.path_format} changes something without a name for the audit log")
