"""Opens a platform: database, secret, seed, token issuer and worker."""

import os

from service.audit import chain
from service.authn.bearer_tokens import BearerTokens, TrustedIssuer
from service.authn.login_throttle import LoginThrottle
from service.authn.oidc_provider import ExternalIssuer
from service.authn.request_limit import RequestLimit
from service.authz.decisions import PolicyEngineCache
from service.clock import Clock, clock_from_environment
from service.context import Platform
from service.db import migrate
from service.db.engine import Database
from service.db.platform_state import is_current
from service.default_tags import apply_job
from service.jobs.worker import Worker
from service.oidc_issuer.issuer import LocalIssuer
from service.request_metrics import RequestMetrics
from service.secret_key import secret_for
from service.settings import Settings
from service.tenants import provisioning


def open_platform(settings: Settings) -> Platform:
    """Open the data folder: migrate the database, create the secret, load the seed. Nothing runs yet.

    Raises:
        ValueError: a part of the data folder is unusable.
    """
    clock = clock_from_environment(os.environ)
    database = Database(settings.database_url)
    stored_revision = migrate.stored_revision(database)
    if stored_revision is None:
        migrate.upgrade(database)
    # Before the migration, so that a process with the wrong secret, perhaps of another database, changes nothing.
    secret = secret_for(database, settings.secret_file)
    migrate.upgrade(database)
    with database.read() as connection:
        has_seed = is_current(connection)
    if not has_seed:
        from service.seed import loader

        loader.load(database, clock, settings.world, secret, settings.data_dir)
    # SQLite has a single process, so no replica of an older version can write concurrently.
    rolling = database.kind == "postgresql" and stored_revision not in (None, migrate.HEAD)
    chain.initialize_chain(database, secret, clock.now(), rolling=rolling)
    request_metrics = RequestMetrics()
    chain.install_audit_hooks(database, secret, request_metrics.record_audit_failure)
    issuer: TrustedIssuer = (
        # The signing key is stored next to the secret, so that replicas share both.
        LocalIssuer(database, clock, settings.secret_file.parent, secret)
        if settings.issuer == "local"
        else ExternalIssuer(
            settings.issuer, client_id=settings.client_id, audience=settings.audience, assumed_claims=settings.assumed
        )
    )
    request_limit = RequestLimit(database, settings.requests_per_minute)
    return Platform(
        settings=settings,
        clock=clock,
        database=database,
        secret=secret,
        issuer=issuer,
        bearer_tokens=BearerTokens(database, clock, issuer, request_limit),
        request_limit=request_limit,
        decisions=PolicyEngineCache(),
        login_throttle=LoginThrottle(shared=database),
        started_at=clock.now(),
        request_metrics=request_metrics,
    )


def open_worker(database: Database, clock: Clock, settings: Settings) -> Worker:
    """Return the worker of this process with every type of job. It runs nothing before its `start`."""
    max_attempts = settings.operation_tries
    return Worker(
        database,
        clock,
        settings,
        {
            provisioning.KIND: provisioning.ProvisioningJob(database, clock, settings.provisioning_pace, max_attempts),
            apply_job.KIND: apply_job.ApplyJob(database, clock, settings.apply_pace, max_tries=max_attempts),
        },
        provisioning.plan_again,
    )
