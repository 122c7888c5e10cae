"""Servers pinned to one core; the database server runs on the core of the load."""

import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import wrk
from tests.benchmarks.processors import LOAD, SERVER, cpu_seconds, cpu_seconds_with_children, on_cores
from tests.benchmarks.settings import POSTGRESQL, SQLITE, settings
from tests.service.postgres import Cluster
from tests.service.running import Executed, Running
from tests.waiting import until

MAX_KEY_RATE = 60_000
"""Requests a minute of an API key."""
BARE = """
import json, sys
from fastapi import FastAPI
import uvicorn

app = FastAPI(openapi_url=None)
answer = json.loads(sys.argv[2])

@app.get("/read")
def read():
    return answer

@app.patch("/write")
def write(body: dict):
    return {**answer, **body}

uvicorn.run(app, port=int(sys.argv[1]), log_level="error", loop="uvloop", http="httptools")
"""


@dataclass(frozen=True)
class Server:
    port: int
    pid: int
    postgres: int | None = None
    """The main process of its database server."""

    def cpu(self) -> tuple[float, float]:
        """Return the seconds of processor time of the server and of its database server."""
        return cpu_seconds(self.pid), cpu_seconds_with_children(self.postgres) if self.postgres else 0.0


class Platform(Executed):
    """The platform on a TCP port, with all its threads on one core."""

    def __init__(self, store: "Store", *flags: str, cores: frozenset[int] = SERVER, **variables: str) -> None:
        self.port, self.cores, self.store = free_port(), cores, store
        super().__init__(store.url, "demo", "--listen", f"127.0.0.1:{self.port}", *flags, **variables)

    def launch(self) -> "subprocess.Popen[bytes]":
        with on_cores(self.cores):
            return super().launch()  # type: ignore[return-value]

    @property
    def server(self) -> Server:
        assert self.process
        return Server(self.port, self.process.pid, self.store.postgres)


@dataclass
class Store:
    """A new database: its URL, or None for SQLite in the platform's folder."""

    name: str
    url: str | None = None
    postgres: int | None = None
    """The main process of the database server."""


@contextmanager
def store(name: str) -> Iterator[Store]:
    """Provide a new database of a kind; PostgreSQL's server ends with the context."""
    if name != POSTGRESQL:
        yield Store(name)
        return
    with ExitStack() as stack:
        with on_cores(LOAD):
            cluster = stack.enter_context(Cluster(durable=True))
        cluster.create("bench")
        yield Store(name, cluster.url("bench"), cluster.server.pid)


def platforms() -> Iterator[tuple[str, Platform]]:
    """Yield the name of each kind of database of the settings, and a platform on a new one; nothing without wrk."""
    for name in settings.databases if wrk.is_installed() else ():
        with store(name) as one, Platform(one) as platform:
            yield name, platform


def databases(name: str) -> Iterator[tuple[str, str | None]]:
    """Yield SQLite, which needs no URL, and a new database of PostgreSQL, each with its name."""
    yield SQLITE, None
    with Cluster() as cluster:
        cluster.create(name)
        yield POSTGRESQL, cluster.url(name)


def share_secret(one: Running, other: Running) -> None:
    """Let a platform that has not started yet use the secret of another one on the same database."""
    other.folder.mkdir(mode=0o700)
    shutil.copy(one.folder / "secret.key", other.folder / "secret.key")


@contextmanager
def bare(answer: object) -> Iterator[Server]:
    """Run a FastAPI application with one read and one write, on the same HTTP server as the platform."""
    with tempfile.TemporaryDirectory(prefix="frost-") as folder:
        program, port = Path(folder) / "bare.py", free_port()
        program.write_text(BARE)
        with running([sys.executable, str(program), str(port), json.dumps(answer)], port) as server:
            yield server


@contextmanager
def running(command: Sequence[str], port: int, cores: Iterable[int] = SERVER) -> Iterator[Server]:
    """Run a program on some cores, wait until it accepts connections, and end it with the context."""
    with on_cores(cores):
        # Without its standard error: at the end of a run wrk cuts off requests, and Cerbos reports each.
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: process.poll() is not None or is_listening(port))
        assert process.poll() is None, f"{command[0]} has ended"
        yield Server(port, process.pid)
    finally:
        process.terminate()
        process.wait()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
