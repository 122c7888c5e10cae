"""The application services that all requests of a process share.

Several processes may share a database, and any of them may end at any time. So a process keeps nothing in memory that
another one would miss:

| in memory | why that is safe |
| --- | --- |
| `PolicyEngineCache`, author checks | the keys contain all that a result depends on; each request reads it |
| `BearerTokens`: verified tokens | each request reads the row of the session and checks the times |
| `ExternalIssuer`: keys of a provider | ten minutes old at most; an unknown key is fetched, at most every half minute |
| `RequestLimit` | counted in the database on PostgreSQL, the only database of several processes |
| `LoginThrottle` | it only delays; failures of credentials that were looked up are counted in the database |
| `ConcurrencyLimiter`, `LargeBodyLimiter` | they protect one process |
| open event streams | each process polls the database; a client of a lost process reconnects |
| `Worker`: jobs being run | their rows hold the progress; another process takes over |
| `IdleTracker`, `RequestMetrics` | they describe one process |

Besides the database, processes share the secret (`secret_key.py`) and, with the local issuer, its signing key. The rest
of a data folder belongs to one process: socket, lock, log, and the API keys of the seed in `world-keys.json`.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from starlette.requests import Request

from service.authn.bearer_tokens import BearerTokens, TrustedIssuer
from service.authn.login_throttle import LoginThrottle
from service.authn.request_limit import RequestLimit
from service.authz.decisions import PolicyEngineCache
from service.clock import Clock
from service.concurrency_limit import ConcurrencyLimiter, LargeBodyLimiter
from service.db.engine import Database
from service.readiness_cache import ReadinessCache
from service.request_metrics import RequestMetrics
from service.settings import Settings


@dataclass(slots=True)
class Platform:
    """A running installation."""

    settings: Settings
    clock: Clock
    database: Database
    secret: bytes
    issuer: TrustedIssuer
    bearer_tokens: BearerTokens
    request_limit: RequestLimit
    decisions: PolicyEngineCache
    login_throttle: LoginThrottle
    started_at: datetime
    request_metrics: RequestMetrics
    concurrency: ConcurrencyLimiter = field(default_factory=ConcurrencyLimiter)
    large_bodies: LargeBodyLimiter = field(default_factory=LargeBodyLimiter)
    readiness: ReadinessCache = field(default_factory=ReadinessCache)
    request_stop: Callable[[], None] = lambda: None
    """Ask the process to stop."""
    draining: threading.Event = field(default_factory=threading.Event)
    """Set from the request to stop on, while requests are still served."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the server shuts down."""


async def platform_of(request: Request) -> Platform:
    """FastAPI dependency: the platform that serves the request."""
    platform: Platform = request.app.state.platform
    return platform
