"""Opens a platform: database, secret, seed, issuer and durable work."""

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
    """Open the data folder: database brought to this version, secret and world there. Nothing runs yet.

    Raises:
        ValueError: something in it cannot be used; the text says what.
    """
    clock = clock_from_environment(os.environ)
    database = Database(settings.database_url)
    found = migrate.stored_revision(database)
    if found is None:
        migrate.upgrade(database)
    # First, so that a process with another secret, perhaps meant for another database, leaves this one as it is.
    secret = secret_for(database, settings.secret_file)
    migrate.upgrade(database)
    with database.read() as connection:
        current = is_current(connection)
    if not current:
        from service.seed import loader

        loader.load(database, clock, settings.world, secret, settings.data_dir)
    # A file has one process: nobody of an older version writes beside this one.
    rolling = database.kind == "postgresql" and found not in (None, migrate.HEAD)
    chain.initialize_chain(database, secret, clock.now(), rolling=rolling)
    traffic = RequestMetrics()
    chain.install_audit_hooks(database, secret, traffic.note_audit_failure)
    issuer: TrustedIssuer = (
        # Its signing key lies beside the secret: who shares the one shares the other.
        LocalIssuer(database, clock, settings.secret_file.parent, secret)
        if settings.issuer == "local"
        else ExternalIssuer(
            settings.issuer, client_id=settings.client_id, audience=settings.audience, assumed=settings.assumed
        )
    )
    request_limit = RequestLimit(database, settings.requests_per_minute)
    return Platform(
        settings=settings,
        clock=clock,
        database=database,
        secret=secret,
        issuer=issuer,
        tokens=BearerTokens(database, clock, issuer, request_limit),
        request_limit=request_limit,
        decisions=PolicyEngineCache(),
        attempts=LoginThrottle(shared=database),
        started_at=clock.now(),
        traffic=traffic,
    )


def open_worker(database: Database, clock: Clock, settings: Settings) -> Worker:
    """Return the worker of this process with every kind of job. It runs nothing before its `start`."""
    tries = settings.operation_tries
    return Worker(
        database,
        clock,
        settings,
        {
            provisioning.KIND: provisioning.ProvisioningJob(database, clock, settings.provisioning_pace, tries),
            apply_job.KIND: apply_job.ApplyJob(database, clock, settings.apply_pace, max_tries=tries),
        },
        provisioning.plan_again,
    )
