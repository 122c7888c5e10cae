"""The platform as one value: everything a request needs that is not the request.

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
| `Operations`: what it is at | the rows say how far it is; another takes over what nobody is at |
| `Activity`, `Traffic` | its own quiet and its own counts, which is what is asked for |

What they share beside the database is the secret (`secret.py`), and for the local issuer the key beside it. The rest
of a data folder is a process's own: socket, lock, log, and `world-keys.json` where it was the one that loaded a world.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from starlette.requests import Request

from service.access import audit_chain
from service.access.attempts import Attempts
from service.access.decisions import Decisions
from service.access.outside import OutsideIssuer
from service.access.request_limit import RequestLimit
from service.access.tokens import Tokens, TrustedIssuer
from service.access.turns import LargeBodies, Turns
from service.clock import Clock, clock_from_environment
from service.db import migrate
from service.db.engine import Database
from service.issuer.local import LocalIssuer
from service.looks import Looks
from service.operations.engine import Operations
from service.secret import secret_for
from service.settings import Settings
from service.traffic import Traffic
from service.world.facts import is_current


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
    tokens: Tokens
    request_limit: RequestLimit
    operations: Operations
    decisions: Decisions
    attempts: Attempts
    started_at: datetime
    traffic: Traffic
    turns: Turns = field(default_factory=Turns)
    large_bodies: LargeBodies = field(default_factory=LargeBodies)
    looks: Looks = field(default_factory=Looks)
    request_stop: Callable[[], None] = lambda: None
    draining: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)


async def platform_of(request: Request) -> Platform:
    """The dependency that hands a route its platform."""
    platform: Platform = request.app.state.platform
    return platform


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
        from service.world import loader

        loader.load(database, clock, settings.world, secret, settings.data_dir)
    # A file has one process: nobody of an older version writes beside this one.
    rolling = database.kind == "postgresql" and found not in (None, migrate.HEAD)
    audit_chain.begin(database, secret, clock.now(), rolling=rolling)
    traffic = Traffic()
    audit_chain.keep(database, secret, traffic.note_audit_failure)
    issuer: TrustedIssuer = (
        # Its signing key lies beside the secret: who shares the one shares the other.
        LocalIssuer(database, clock, settings.secret_file.parent, secret)
        if settings.issuer == "local"
        else OutsideIssuer(
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
        tokens=Tokens(database, clock, issuer, request_limit),
        request_limit=request_limit,
        operations=Operations(database, clock, settings),
        decisions=Decisions(),
        attempts=Attempts(shared=database),
        started_at=clock.now(),
        traffic=traffic,
    )
