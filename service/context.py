"""The application services that all requests of a process share.

Several processes may share a PostgreSQL database, and each may end at any time. So state in memory must be safe to lose
and to differ between processes:

| in memory | safe because |
| --- | --- |
| `AuthorityCache` | each request compares the revision of an entry with that of the database |
| `SubjectCache` | each decision compares the revisions of its entries with those of the database |
| `PolicyEngineCache`, author checks | keys contain the digests of all texts, which each request reads |
| `CacheGuard` | empties these caches after a set-back, and turns them off without triggers |
| `BearerTokens`: verified tokens | each request reads the session and checks the times |
| `ExternalIssuer`: provider keys | refetched after ten minutes; valid for an hour if the provider is unavailable |
| `RequestLimits` | on PostgreSQL, leases that the database has counted |
| `CredentialUse` | only displayed; written each second |
| `LoginThrottle` | only delays; on PostgreSQL, failures after a lookup are counted in the database |
| `WorkQueues`, `LargeBodyLimiter` | per process |
| `RefusalLog` | the first of identical refusals is written at once; further ones are added up each minute |
| `ChainWatch`: the mark | written at most each second; each process has its own file |
| `Sealer` | entries are in the database; another process seals them |
| open event streams | poll the database; clients reconnect |
| `Worker`: running jobs | rows have the progress; another process continues |
| `IdleTracker`, `RequestMetrics` | per process |

Processes also share the secret (`secret_key.py`) and the signing key of the local issuer. Socket, lock, log and
`world-keys.json` belong to a single process.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from starlette.requests import Request

from service.audit.chain_watch import ChainWatch
from service.audit.entries import RefusalLog
from service.audit.sealer import Sealer
from service.authn.bearer_tokens import BearerTokens, TrustedIssuer
from service.authn.credential_use import CredentialUse
from service.authn.rate_limit import LoginThrottle
from service.authn.request_limits import RequestLimits
from service.authz.cache_guard import CacheGuard
from service.authz.decisions import PolicyEngineCache
from service.authz.grant_caches import AuthorityCache, SubjectCache
from service.clock import Clock
from service.db.batch_writer import BatchWriter
from service.db.engine import Database
from service.http_server.bodies import LargeBodyLimiter
from service.http_server.request_metrics import RequestMetrics
from service.http_server.work_queues import WorkQueues
from service.readiness_cache import ReadinessCache
from service.settings import Settings


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How many candidates a page of a search examines, and for how long, at most."""

    candidates: int = 500
    seconds: float = 2.0


@dataclass(slots=True)
class Platform:
    settings: Settings
    clock: Clock
    database: Database
    secret: bytes
    issuer: TrustedIssuer
    bearer_tokens: BearerTokens
    request_limits: RequestLimits
    credential_use: CredentialUse
    decisions: PolicyEngineCache
    authorities: AuthorityCache
    login_throttle: LoginThrottle
    started_at: datetime
    request_metrics: RequestMetrics
    refusals: RefusalLog
    sealer: Sealer
    chain_watch: ChainWatch
    writer: BatchWriter
    work: WorkQueues
    large_bodies: LargeBodyLimiter
    subjects: SubjectCache
    cache_guard: CacheGuard
    readiness: ReadinessCache = field(default_factory=ReadinessCache)
    search_limits: SearchLimits = SearchLimits()
    request_stop: Callable[[], None] = lambda: None
    check_operations: Callable[[], str] = lambda: "ok"
    """Returns the readiness of the worker."""
    check_issuer: Callable[[], str] = lambda: "ok"
    """Returns the readiness of the local issuer."""
    draining: threading.Event = field(default_factory=threading.Event)
    """Set when a stop is requested; requests are still served."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the server shuts down."""


def platform_of(request: Request) -> Platform:
    platform: Platform = request.app.state.platform
    return platform
