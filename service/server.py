"""The HTTP server around the application: uvicorn on sockets that are listening already."""

import asyncio
import logging
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import uvicorn
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from service import logs
from service.api.middleware import IdleTracker
from service.app import create_app
from service.context import Platform
from service.http_server.admission import Admission, FairThreads
from service.http_server.listener import Listener
from service.http_server.protocol import HttpProtocol
from service.jobs.worker import Worker
from service.logs import NAME, LogFile
from service.operator import health
from service.settings import Settings

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 75
GRACE_SECONDS = 5
SWITCH_SECONDS = 0.001
IDLE_CHECK_TICKS = 50  # of 0.1 s


class Server(uvicorn.Server):
    """A server that starts and stops the platform's durable work with itself, and stops when nobody needs it."""

    def __init__(
        self, config: uvicorn.Config, platform: Platform, worker: Worker, activity: IdleTracker, admission: Admission
    ) -> None:
        super().__init__(config)
        self.platform = platform
        self.worker = worker
        self.admission = admission
        self.activity = activity
        self.drained_at = float("inf")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn would raise the signal again afterwards; ours ends with status 0.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.handle_exit)
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Who asks twice does not want to wait.
        if self.platform.draining.is_set():
            super().handle_exit(sig, frame)
        else:
            self.end()

    def end(self) -> None:
        """Stop, after the time that balancers have to notice; until then everything is answered."""
        self.platform.draining.set()
        self.drained_at = time.monotonic() + self.platform.settings.drain_seconds
        if not self.platform.settings.drain_seconds:
            self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        FairThreads().install()
        health.start_checks(self.platform)
        await super().startup([])
        for listening in sockets or ():
            # The interface of `asyncio.Server` that uvicorn uses at the end.
            self.servers.append(Listener(listening, self.create_protocol, self.admission))  # type: ignore[arg-type]
        self.worker.start()

    def create_protocol(self) -> HttpProtocol:
        protocol = HttpProtocol(self.config, self.server_state, self.lifespan.state)
        protocol.admission = self.admission
        return protocol

    async def on_tick(self, counter: int) -> bool:
        if counter % IDLE_CHECK_TICKS == 0 and await self.idle():
            logger.info("stopping: nobody has needed the platform for a while")
            self.should_exit = True
        if time.monotonic() >= self.drained_at:
            self.should_exit = True
        return await super().on_tick(counter)

    async def idle(self) -> bool:
        """Whether the quiet has lasted long enough and no operation is open."""
        patience = self.platform.settings.idle_minutes * 60
        if not patience or self.activity.quiet_for() < patience:
            return False
        return await asyncio.to_thread(self.worker.open_count) == 0

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Event streams end first: connections are waited for.
        self.platform.stopping.set()
        parked = asyncio.create_task(asyncio.to_thread(self.worker.stop))
        await super().shutdown(sockets)
        await parked
        self.platform.database.close()


def reason(error: Exception) -> str:
    """Why the platform cannot start, in one line; of what a database says, without the statement that it said it to."""
    if isinstance(error, DBAPIError):
        return f"the database cannot be used: {' '.join(str(error.orig).split())}"
    if isinstance(error, SQLAlchemyError):
        return f"the database cannot be used: {' '.join(str(error).split())}"
    return str(error)


def serve(settings: Settings, sockets: Sequence[socket.socket]) -> int:
    """Run the platform on listening sockets until it is told to stop; the exit status of the process."""
    log_file = LogFile(settings.data_dir / NAME, int(settings.log_megabytes * 1024 * 1024))
    log_file.rotate_if_full()
    logs.configure(settings.log_level, log_file)
    try:
        app = create_app(settings)
    except (ValueError, OSError, SQLAlchemyError) as error:
        sys.stderr.write(f"frost platform: {reason(error)}\n")
        return 1
    platform: Platform = app.state.platform
    if settings.metrics:
        from service.operator import metrics

        try:
            told = metrics.listen(platform, app.state.worker.kinds, *settings.metrics)
        except OSError as error:
            sys.stderr.write(f"frost platform: cannot answer Prometheus on {settings.metrics}: {error.strerror}\n")
            return 1
        logger.info("answering Prometheus on %s:%s", *told)
    admission: Admission = app.state.admission
    admission.fit_descriptors()
    # The event loop waits for the interpreter lock as often as it turns, behind each thread that computes.
    sys.setswitchinterval(SWITCH_SECONDS)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=HttpProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # Addresses come from the connection, never from a header anybody can write (hostile D04).
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = Server(config, platform, app.state.worker, app.state.activity, admission)

    platform.request_stop = server.end
    logger.info("listening on %s", ", ".join(str(listener.getsockname()) for listener in sockets))
    server.run(list(sockets))
    return 0
