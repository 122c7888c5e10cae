"""Opens a platform: database, secret, seed, token issuer and worker."""

import os

from service.audit import chain
from service.audit.refusals import FLUSH_SECONDS, RefusalLog
from service.audit.sealer import Sealer
from service.authn.bearer_tokens import BearerTokens, TrustedIssuer
from service.authn.credential_use import CredentialUse
from service.authn.leased_limits import LeasedLimits, leases_of
from service.authn.login_throttle import LoginThrottle
from service.authn.oidc_provider import ExternalIssuer
from service.authn.request_limits import LocalLimits
from service.authz.authority_cache import AuthorityCache
from service.authz.authorize import belongs_to
from service.authz.decisions import PolicyEngineCache
from service.clock import Clock, clock_from_environment
from service.context import Platform
from service.db import migrate
from service.db.batch_writer import BatchWriter
from service.db.engine import Database
from service.db.platform_state import is_current
from service.default_tags import apply_job
from service.http_server.work_queues import WorkQueues
from service.jobs.worker import Worker
from service.large_bodies import LargeBodyLimiter
from service.oidc_issuer.issuer import LocalIssuer
from service.request_metrics import RequestMetrics
from service.retention import RetentionSweep
from service.secret_key import secret_for
from service.settings import Settings
from service.tenants import provisioning


def open_platform(settings: Settings) -> Platform:
    """Migrate the database, create the secret and load the seed. The sealer is not started.

    Raises:
        ValueError: the data folder or the database is unusable.
    """
    clock = clock_from_environment(os.environ)
    database = Database(settings.database_url)
    stored_revision = migrate.stored_revision(database)
    if stored_revision is None:
        migrate.upgrade(database)
    # Check the secret before the migration changes a database that belongs to another secret.
    secret = secret_for(database, settings.secret_file)
    migrate.upgrade(database)
    with database.read() as connection:
        has_seed = is_current(connection)
    if not has_seed:
        from service.seed import loader

        loader.load(database, clock, settings.world, secret, settings.data_dir)
    # SQLite has a single process, so no replica of an older version.
    rolling = database.kind == "postgresql" and stored_revision not in (None, migrate.HEAD)
    chain.initialize_chain(database, secret, clock.now(), rolling=rolling)
    request_metrics = RequestMetrics()
    chain.install_audit_hooks(database, secret, request_metrics.record_audit_failure)
    issuer: TrustedIssuer = (
        # Replicas share the secret and the signing key.
        LocalIssuer(database, clock, settings.secret_file.parent, secret)
        if settings.issuer == "local"
        else ExternalIssuer(
            settings.issuer, client_id=settings.client_id, audience=settings.audience, assumed_claims=settings.assumed
        )
    )
    request_limits = LocalLimits(database) if database.kind == "sqlite" else LeasedLimits(leases_of(database))
    credential_use, refusals = CredentialUse(), RefusalLog(database, clock, belongs_to)
    return Platform(
        settings=settings,
        clock=clock,
        database=database,
        secret=secret,
        issuer=issuer,
        bearer_tokens=BearerTokens(database, clock, issuer),
        request_limits=request_limits,
        credential_use=credential_use,
        decisions=PolicyEngineCache(),
        authorities=AuthorityCache(),
        login_throttle=LoginThrottle(shared=database),
        started_at=clock.now(),
        request_metrics=request_metrics,
        refusals=refusals,
        sealer=Sealer(database, secret),
        writer=BatchWriter(database, (request_limits, credential_use), [(refusals.flush, FLUSH_SECONDS)]),
        work=WorkQueues(settings.limits, request_metrics.rejections),
        large_bodies=LargeBodyLimiter(request_metrics.rejections),
    )


def open_worker(database: Database, clock: Clock, settings: Settings, **intervals: float) -> Worker:
    """Return the worker with all types of jobs, not started. `intervals` are those of `Worker`, in seconds."""
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
        **intervals,
    )
