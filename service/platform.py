"""The platform as one value: everything a request needs that is not the request."""

import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from starlette.requests import Request

from service.access.attempts import Attempts
from service.access.decisions import Decisions
from service.access.outside import OutsideIssuer
from service.access.tokens import Tokens, TrustedIssuer
from service.clock import Clock, clock_from_environment
from service.db import migrate
from service.db.engine import Database
from service.issuer.local import LocalIssuer
from service.operations.engine import Operations
from service.settings import Settings
from service.world.facts import is_current

SECRET_BYTES = 32


@dataclass(slots=True)
class Platform:
    """A running installation. `request_stop` asks the process to end; `stopping` is set once it does."""

    settings: Settings
    clock: Clock
    database: Database
    secret: bytes
    issuer: TrustedIssuer
    tokens: Tokens
    operations: Operations
    decisions: Decisions
    attempts: Attempts
    started_at: datetime
    request_stop: Callable[[], None] = lambda: None
    stopping: threading.Event = field(default_factory=threading.Event)


async def platform_of(request: Request) -> Platform:
    """The dependency that hands a route its platform."""
    platform: Platform = request.app.state.platform
    return platform


def secret_of(data_dir: Path) -> bytes:
    """The key of everything stored as a digest: 32 random bytes in `secret.key` (0600), made at the first start.

    Raises:
        ValueError: the file is there and is not such a key; making another would lock out every API key.
    """
    path = data_dir / "secret.key"
    try:
        secret = path.read_bytes()
    except FileNotFoundError:
        secret = secrets.token_bytes(SECRET_BYTES)
        scratch = data_dir / ".secret.key.tmp"
        scratch.unlink(missing_ok=True)
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(secret)
            out.flush()
            os.fsync(out.fileno())
        scratch.rename(path)
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"{path} is damaged: it must hold {SECRET_BYTES} bytes; restore it, or reset the platform")
    return secret


def open_platform(settings: Settings) -> Platform:
    """Open the data folder: database brought to this version, world loaded, keys there. Nothing runs yet.

    Raises:
        ValueError: something in it cannot be used; the text says what.
    """
    clock = clock_from_environment(os.environ)
    secret = secret_of(settings.data_dir)
    database = Database(settings.database_url)
    migrate.upgrade(database)
    with database.read() as connection:
        current = is_current(connection)
    if not current:
        from service.world import loader

        loader.load(database, clock, settings.world, secret, settings.data_dir)
    issuer: TrustedIssuer = (
        LocalIssuer(database, clock, settings.data_dir, secret)
        if settings.issuer == "local"
        else OutsideIssuer(settings.issuer)
    )
    return Platform(
        settings=settings,
        clock=clock,
        database=database,
        secret=secret,
        issuer=issuer,
        tokens=Tokens(database, clock, issuer),
        operations=Operations(database, clock, settings),
        decisions=Decisions(),
        attempts=Attempts(),
        started_at=clock.now(),
    )
