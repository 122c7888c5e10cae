"""Serves the application with uvicorn on listening sockets."""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from service import logs
from service.api.middleware import IdleTracker
from service.api.protected_route import start_analysis
from service.app import create_app
from service.authn.confirmation import find_refused
from service.context import Platform
from service.data_directory import WAY_BACK
from service.db.storage import is_storage_failure
from service.files import DamagedFile
from service.http_server.admission import Admission
from service.http_server.collection_pauses import CollectionPauses
from service.http_server.fair_threads import FairThreads
from service.http_server.listener import Listener
from service.http_server.protocol import HttpProtocol
from service.jobs.dbos_queue import sqlite_file
from service.jobs.worker import Worker
from service.logs import NAME, LogFile
from service.operator import monitoring
from service.readiness_cache import REPEAT_SECONDS
from service.settings import Settings
from service.start_signals import StartSignals

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 75
SHUTDOWN_SECONDS = 5
LAST_CHANGES_SECONDS = 10.0
"""How long the last changes, seals and the mark may take together."""
MIN_MARK_SECONDS = 1.0
THREAD_SWITCH_SECONDS = 0.0001
PROTECTION_CHECK_TICKS = 10
IDLE_CHECK_TICKS = 50
"""Ticks of 0.1 s."""


class Server(uvicorn.Server):
    """A server that also runs the worker, and stops when idle."""

    def __init__(
        self,
        config: uvicorn.Config,
        platform: Platform,
        worker: Worker,
        idle_tracker: IdleTracker,
        admission: Admission,
        start_signals: StartSignals,
    ) -> None:
        super().__init__(config)
        self.start_signals = start_signals
        self.platform = platform
        self.worker = worker
        self.admission = admission
        self.idle_tracker = idle_tracker
        self.drained_at = float("inf")
        self._protection_check: asyncio.Task[None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn would raise the signal again after the shutdown, instead of exit status 0.
        for number in self.start_signals.numbers:
            signal.signal(number, self.handle_exit)
        self.start_signals.hand_over()
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # A second signal skips draining.
        if self.platform.draining.is_set():
            super().handle_exit(sig, frame)
        else:
            self.drain()

    def drain(self) -> None:
        """Stop after `drain_seconds`, in which load balancers see `/readyz` fail and requests are served."""
        self.platform.draining.set()
        self.drained_at = time.monotonic() + self.platform.settings.drain_seconds
        if not self.platform.settings.drain_seconds:
            self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        FairThreads().install()
        monitoring.start_checks(self.platform)
        await super().startup([])
        for listening in sockets or ():
            self.servers.append(Listener(listening, self.create_protocol, self.admission))  # type: ignore[arg-type]
        self.platform.sealer.start()
        self.platform.chain_watch.start()
        self.worker.start()
        self.platform.writer.start()

    def create_protocol(self) -> HttpProtocol:
        protocol = HttpProtocol(self.config, self.server_state, self.lifespan.state)
        protocol.admission = self.admission
        return protocol

    async def on_tick(self, counter: int) -> bool:
        if counter % IDLE_CHECK_TICKS == 0 and await self.is_idle():
            logger.info("stopping: the platform has been idle for %s minutes", self.platform.settings.idle_minutes)
            self.should_exit = True
        if counter % PROTECTION_CHECK_TICKS == 0:
            self.check_protection()
        monitoring.repeat_checks(self.platform, is_in_use=self.idle_tracker.idle_seconds() < REPEAT_SECONDS)
        if time.monotonic() >= self.drained_at:
            self.should_exit = True
        return await super().on_tick(counter)

    def check_protection(self) -> None:
        """While connections may be replaced, end the protection of those whose credentials were revoked or expired."""
        is_running = self._protection_check is not None and not self._protection_check.done()
        if self.admission.connections.is_crowded and not is_running:
            self._protection_check = asyncio.create_task(self._check_protection())

    async def _check_protection(self) -> None:
        connections, platform = self.admission.connections, self.platform
        principals = connections.protected.principals()
        # Without the database, no connection loses its protection.
        with suppress(SQLAlchemyError):
            for credential in await asyncio.to_thread(
                find_refused, platform.database, principals, platform.clock.now()
            ):
                connections.revoke(credential)

    async def is_idle(self) -> bool:
        """Return whether no request ran for `idle_minutes`, and no job is open."""
        limit = self.platform.settings.idle_minutes * 60
        if not limit or self.idle_tracker.idle_seconds() < limit:
            return False
        return await asyncio.to_thread(self.worker.open_count) == 0

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # End the event streams, because uvicorn waits for them.
        self.platform.stopping.set()
        # Refuse the waiting requests before uvicorn cancels them.
        asyncio.get_running_loop().call_later(SHUTDOWN_SECONDS / 2, self.platform.work.close)
        worker_stop = asyncio.create_task(asyncio.to_thread(self.worker.stop))
        await super().shutdown(sockets)
        await worker_stop
        deadline = time.monotonic() + LAST_CHANGES_SECONDS
        await asyncio.to_thread(self.platform.writer.stop)
        await asyncio.to_thread(self.platform.refusals.close)
        await asyncio.to_thread(self.platform.sealer.stop)
        # A database that has kept the others waiting is not waited for again.
        await asyncio.to_thread(self.platform.chain_watch.stop, max(MIN_MARK_SECONDS, deadline - time.monotonic()))
        await self.platform.database.loop_reads.close()
        self.platform.database.close()


def start_error(error: Exception, settings: Settings) -> str:
    """Return a single line, without the SQL of database errors."""
    if isinstance(error, SQLAlchemyError):
        message = str(error.orig if isinstance(error, DBAPIError) else error)
        text = f"the database cannot be used: {' '.join(message.split())}"
        # Not of a URL that cannot be parsed.
        file = sqlite_file(settings.database_url) if is_storage_failure(error) else None
        return f"{text} ({file}); {WAY_BACK}" if file else text
    if isinstance(error, OSError) and error.filename:
        return f"{os.fsdecode(error.filename)} cannot be used: {error.strerror}"
    return str(error)


def _address_text(listener: socket.socket) -> str:
    """Return the path of a unix socket, or HOST:PORT."""
    address = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        return str(address)
    host, port = address[:2]
    return f"[{host}]:{port}" if listener.family == socket.AF_INET6 else f"{host}:{port}"


def serve(settings: Settings, sockets: Sequence[socket.socket], start_signals: StartSignals) -> int:
    """Serve the platform until it stops; return the exit status."""
    log_file = LogFile(settings.data_dir / NAME, int(settings.log_megabytes * 1024 * 1024))
    log_file.rotate_if_full()
    logs.configure(settings.log_level, log_file)
    try:
        app = create_app(settings, lambda database: start_signals.before_end(database.cancel_statements))
    except (ValueError, DamagedFile, OSError, SQLAlchemyError) as error:
        start_signals.await_end()
        sys.stderr.write(f"frost platform: {start_error(error, settings)}\n")
        return 1
    platform: Platform = app.state.platform
    if settings.metrics:
        try:
            address = monitoring.listen(platform, app.state.worker.kinds, *settings.metrics)
        except OSError as error:
            sys.stderr.write(f"frost platform: cannot answer Prometheus on {settings.metrics}: {error.strerror}\n")
            return 1
        logger.info("answering Prometheus on %s:%s", *address)
    admission: Admission = app.state.admission
    admission.fit_descriptors()
    # How long the event loop waits for the interpreter lock of a busy thread, up to six times in a read on PostgreSQL.
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    CollectionPauses().start()
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=HttpProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # `client_address.address_of` trusts only the configured proxies.
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = Server(config, platform, app.state.worker, app.state.idle_tracker, admission, start_signals)
    platform.request_stop = server.drain
    logger.info("listening on %s", ", ".join(map(_address_text, sockets)))
    start_analysis(app.routes, platform.stopping)
    server.run(list(sockets))
    return 0
