"""The FastAPI application, and its platform: database, secret, seed, token issuer and worker."""

import os
from collections.abc import Callable, Sequence

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from service import data_directory
from service.account import api_keys
from service.account import routes as account
from service.activity import routes as activity
from service.api import openapi
from service.api.middleware import HeadMiddleware, IdleTracker, RequestMiddleware
from service.api.protected_route import ProtectedRoute
from service.api.responses import HANDLERS
from service.api.route_index import RouteIndex
from service.audit import chain
from service.audit.chain_watch import ChainWatch
from service.audit.continuity import ChainStart
from service.audit.entries import FLUSH_SECONDS, RefusalLog
from service.audit.mark import MarkFile
from service.audit.sealer import Sealer
from service.authn.bearer_tokens import BearerTokens, TrustedIssuer
from service.authn.credential_use import CredentialUse
from service.authn.oidc_provider import ExternalIssuer
from service.authn.rate_limit import LoginThrottle
from service.authn.request_limits import LeasedLimits, LocalLimits, leases_of
from service.authz.cache_guard import CHECK_SECONDS, CONFIRM_SECONDS, CacheGuard
from service.authz.context import belongs_to
from service.authz.decisions import PolicyEngineCache
from service.authz.grant_caches import AuthorityCache, SubjectCache
from service.authz.route_policies import HOME_PATHS, READS, ROUTE_POLICIES
from service.authzen import routes as authzen
from service.clock import Clock, clock_from_environment
from service.context import Platform
from service.db import migrate, postgresql_needs
from service.db.batch_writer import BatchWriter
from service.db.engine import Database
from service.db.statements import get_value, is_current
from service.default_tags import apply_job
from service.default_tags import routes as default_tags
from service.http_server.admission import Admission
from service.http_server.bodies import LargeBodyLimiter
from service.http_server.request_metrics import RequestMetrics
from service.http_server.work_queues import WorkQueues
from service.iam import access_review, attachments, groups, policies, simulate
from service.jobs import routes as jobs
from service.jobs.dbos_queue import SCHEMA
from service.jobs.queue_file import QueueFile
from service.jobs.worker import Worker
from service.oidc_issuer import routes as oidc_issuer
from service.oidc_issuer.issuer import LocalIssuer
from service.operator import monitoring
from service.operator import routes as operator_routes
from service.quotas import requests as quota_requests
from service.quotas import routes as quotas
from service.resources import interactive
from service.resources import routes as resources
from service.retention import RetentionSweep
from service.secret_key import secret_for
from service.settings import VERSION, Settings
from service.tenants import provisioning
from service.tenants import routes as tenants
from service.workloads import cluster_issuers, identities, token_exchange

# In the order of the API description.
AREAS = (
    monitoring,
    openapi,
    account,
    api_keys,
    tenants,
    default_tags,
    jobs,
    access_review,
    groups,
    policies,
    attachments,
    simulate,
    identities,
    cluster_issuers,
    token_exchange,
    resources,
    interactive,
    authzen,
    quotas,
    quota_requests,
    oidc_issuer,
    activity,
    operator_routes,
)
# Environment variables must not enable the telemetry of FastAPI.
NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def open_platform(
    settings: Settings, opened: Callable[[Database], object] = lambda _: None, queue_file: QueueFile | None = None
) -> Platform:
    """Migrate the database, create the secret and load the seed. The sealer is not started.

    Args:
        opened: called with the database before the first statement.
        queue_file: as for `check_files`.

    Raises:
        ValueError: the data folder or the database is unusable.
        DamagedFile: the key of the local issuer is unusable.
    """
    data_directory.check_files(settings, queue_file)
    clock = clock_from_environment(os.environ)
    database = Database(settings.database_url)
    opened(database)
    stored_revision = migrate.stored_revision(database)
    data_directory.require_data(
        settings,
        has_schema=stored_revision is not None,
        has_world=stored_revision is not None and migrate.has_seed(database),
    )
    needs_migration = migrate.is_behind(stored_revision)
    postgresql_needs.check(database, SCHEMA, needs_migration=needs_migration)
    if stored_revision is None:
        migrate.upgrade(database)
    # Check the secret before the migration changes a database that belongs to another secret.
    secret = secret_for(database, settings.secret_file)
    migrate.upgrade(database)
    mark_file = MarkFile(settings.data_dir, secret)
    # Before a seed is loaded into a database that was emptied.
    chain_start = ChainStart(database, secret, mark_file, settings.accept_new_chain)
    with database.read() as connection:
        has_seed, is_new = is_current(connection), get_value(connection, "world") is None
    if not has_seed:
        from service.seed import loader

        loader.load(database, clock, settings.world, secret, settings.data_dir)
    # SQLite has a single process, so no replica of an older version.
    is_upgrade = stored_revision not in (None, migrate.HEAD)
    rolling = database.kind == "postgresql" and is_upgrade
    request_metrics, chain_watch = RequestMetrics(), ChainWatch(database, secret, mark_file, clock)
    chain.install_audit_hooks(database, secret, request_metrics.record_audit_failure, chain_watch.admit_entries)
    chain_watch.mark = chain_start.finish(clock.now(), rolling=rolling, is_new=is_new, is_upgrade=is_upgrade)
    issuer: TrustedIssuer = (
        # Replicas share the secret and the signing key.
        LocalIssuer(database, clock, settings.secret_file.parent, secret)
        if settings.issuer == "local"
        else ExternalIssuer(
            settings.issuer, client_id=settings.client_id, audience=settings.audience, assumed_claims=settings.assumed
        )
    )
    if isinstance(issuer, LocalIssuer):
        issuer.check_key()
    data_directory.mark_complete(settings)
    request_limits = LocalLimits(database) if database.kind == "sqlite" else LeasedLimits(leases_of(database))
    credential_use, refusals = CredentialUse(), RefusalLog(database, clock, belongs_to)
    decisions, authorities, subjects = PolicyEngineCache(), AuthorityCache(), SubjectCache()
    cache_guard = CacheGuard(database, authorities, subjects, decisions)
    cache_guard.check()
    return Platform(
        settings=settings,
        clock=clock,
        database=database,
        secret=secret,
        issuer=issuer,
        bearer_tokens=BearerTokens(database, clock, issuer),
        request_limits=request_limits,
        credential_use=credential_use,
        decisions=decisions,
        authorities=authorities,
        subjects=subjects,
        cache_guard=cache_guard,
        login_throttle=LoginThrottle(shared=database),
        started_at=clock.now(),
        request_metrics=request_metrics,
        refusals=refusals,
        sealer=Sealer(database, secret),
        chain_watch=chain_watch,
        writer=BatchWriter(
            database,
            (request_limits, credential_use),
            [
                (refusals.flush, FLUSH_SECONDS),
                (cache_guard.confirm, CONFIRM_SECONDS),
                (cache_guard.check, CHECK_SECONDS),
            ],
        ),
        work=WorkQueues(settings.limits, request_metrics.rejections),
        large_bodies=LargeBodyLimiter(request_metrics.rejections),
    )


def open_worker(
    database: Database, clock: Clock, settings: Settings, queue_file: QueueFile | None = None, **intervals: float
) -> Worker:
    """Return the worker with all types of jobs, not started. The arguments are those of `Worker`."""
    max_tries = settings.operation_tries
    return Worker(
        database,
        clock,
        settings,
        {
            provisioning.KIND: provisioning.ProvisioningJob(database, clock, settings.provisioning_pace, max_tries),
            apply_job.KIND: apply_job.ApplyJob(database, clock, settings.apply_pace, max_tries=max_tries),
        },
        provisioning.plan_again,
        RetentionSweep(database, clock, settings.retention).remove_batch,
        queue_file,
        **intervals,
    )


class Application(FastAPI):
    """FastAPI inside the middleware of the platform. Requests of direct routes do not pass through FastAPI."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            title="frost",
            version=VERSION,
            openapi_url=None,
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            telemetry=NO_TELEMETRY,
            exception_handlers=HANDLERS,
        )
        self.state.idle_tracker = IdleTracker()
        self.state.admission = Admission(settings.limits, settings.proxies)
        for area in AREAS:
            # `include_router` would analyse every route again.
            self.router.routes.extend(area.router.routes)
        self.router.routes.extend(home_routes(self.routes))
        check_policies(self.routes)
        index = RouteIndex(self.router, super().__call__)
        self.router.middleware_stack = index.serve_in_framework
        self._entry = RequestMiddleware(HeadMiddleware(index), self.state.idle_tracker, self.state.admission)

    def build_middleware_stack(self) -> ASGIApp:
        # Unexpected errors are for `RequestMiddleware`.
        stack = super().build_middleware_stack()
        assert isinstance(stack, ServerErrorMiddleware)
        return stack.app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["app"] = self
            await self._entry(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(settings: Settings, opened: Callable[[Database], object] = lambda _: None) -> Application:
    """Create the application and open its platform (`app.state.platform`), without starting the worker.

    Args:
        opened: see `open_platform`.

    Raises:
        ValueError: the data folder or the database is unusable.
        RuntimeError: a route has no policy.
    """
    app = Application(settings)
    # Shared, so that a start checks the file once.
    queue_file = QueueFile(settings.data_dir / data_directory.WORKFLOWS)
    platform = app.state.platform = open_platform(settings, opened, queue_file)
    app.state.worker = open_worker(platform.database, platform.clock, settings, queue_file)
    platform.check_operations = app.state.worker.check
    if isinstance(platform.issuer, LocalIssuer):
        platform.check_issuer = platform.issuer.check
    app.state.admission.rejections = platform.request_metrics.rejections
    app.state.admission.throttle = platform.login_throttle
    return app


def home_routes(routes: Sequence[BaseRoute]) -> list[ProtectedRoute]:
    """Return the routes of `HOME_PATHS`, with the endpoints of the tenant paths."""
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
            operation_id=f"{route.operation_id}{openapi.OWN_TENANT_SUFFIX}",
        )
        for home, path in HOME_PATHS.items()
        for route in by_path[path]
    ]


def check_policies(routes: Sequence[BaseRoute]) -> None:
    """Check the policies of all routes.

    Raises:
        RuntimeError: a route is not a `ProtectedRoute`, has no policy, or changes data without an audit event.
    """
    for route in routes:
        if not isinstance(route, ProtectedRoute):
            raise RuntimeError(f"{getattr(route, 'path', route)} is not a protected route")  # noqa: TRY004
        for method in route.methods or ():
            policy = ROUTE_POLICIES.get((method, route.path_format))
            if policy is None:
                raise RuntimeError(f"{method} {route.path_format} has no policy in service/authz/route_policies.py")
            changes = method not in READS and policy.who != "anyone" and not policy.dry_run
            if changes and policy.audit_event is None:
                raise RuntimeError(f"{method} {route.path_format} changes something without an audit event")
