"""The platform as one value: everything that a request needs beside the request itself.

Several processes may share a database, and any of them may be gone the next moment. What one of them keeps for itself
is nothing that another would miss:

| kept in a process | why that does no harm |
| --- | --- |
| `Decisions`, what `authorship` examined | found by everything it depends on, which is read with each request |
| `Tokens`: verified tokens | the session's row and the times are looked at with each request |
| `OutsideIssuer`: a provider's keys | ten minutes old at most; an unknown key is asked for, every half minute |
| `RequestLimit` | counted in the database where there are several processes, on PostgreSQL |
| `Attempts` | a brake: wrong keys that were looked up are counted in the database |
| `Turns`, `LargeBodies` | a brake that bounds each process |
| `Signals`: open event streams | each process looks at the database; a reader whose process is gone comes again |
| `Operations` (`jobs/worker.py`): the runs it carries out | their rows hold the progress; another process takes over |
| `Activity`, `Traffic` | its own quiet and its own counts, which is what is asked for |

What they share beside the database is the secret (`secret.py`), and for the local issuer the key beside it. The rest
of a data folder is a process's own: socket, lock, log, and `world-keys.json` where it was the one that loaded a world.
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
    """A running installation.

    `request_stop` asks the process to end. `draining` is set then, while it still answers, `stopping` once it ends.
    """

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
    metrics: RequestMetrics
    concurrency: ConcurrencyLimiter = field(default_factory=ConcurrencyLimiter)
    large_bodies: LargeBodyLimiter = field(default_factory=LargeBodyLimiter)
    readiness: ReadinessCache = field(default_factory=ReadinessCache)
    request_stop: Callable[[], None] = lambda: None
    draining: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)


async def platform_of(request: Request) -> Platform:
    """The dependency that hands a route its platform."""
    platform: Platform = request.app.state.platform
    return platform
