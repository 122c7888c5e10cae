"""The application in this process on a real socket, and requests that are held before they change anything.

A request is held in one of two places. Its body can be held back: the head has arrived, the server asked for the body
with `100 Continue`, and only the first half of the body is sent. Or the whole request is sent and held after the
guard's decision, where the route begins the transaction of its change.
"""

import json
import os
import select as readiness
import socket
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import uvicorn
from sqlalchemy import Connection, select, text

from service.api import changes
from service.app import create_app
from service.context import Platform
from service.db import tables
from service.db.engine import Database
from service.http_server import sockets
from service.http_server.protocol import HttpProtocol
from service.settings import from_arguments
from tests.api import Answer, UnixConnection
from tests.service.access import code
from tests.service.queries import fetch
from tests.service.running import Running, read_until_closed

SECONDS = 60
"""Longer than any machine takes for one request."""
ARRIVAL_SECONDS = 0.3
"""Time for a request to be admitted and to reach the row that it has to wait for."""
SIGNED_OUT = (401, "AUTHENTICATION_REQUIRED")
OF_REQUESTS = {"audit_log", "audit_head", "rate_limits", "executors"}
TIMES_OF_USE = {"last_used_at", "last_seen_at"}


@dataclass
class Barrier:
    reached: threading.Event = field(default_factory=threading.Event)
    open: threading.Event = field(default_factory=threading.Event)


class Held:
    """A request under way; `finish` lets it go on and returns its answer.

    `decided`: the guard has let it pass, so its caller is known.
    """

    def __init__(self, connection: socket.socket, rest: bytes = b"", barrier: Barrier | None = None) -> None:
        self._connection, self._rest, self._barrier = connection, rest, barrier
        self.decided = barrier is not None

    def finish(self) -> Answer:
        with self._connection:
            if self._barrier:
                self._barrier.open.set()
            if self._rest:
                self._connection.sendall(self._rest)
            received = read_until_closed(self._connection)
        head, _, body = received.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        return Answer(int(lines[0].split()[1]), headers, body)


class InThisProcess(Running):
    """A platform whose server is a thread of the test, so that its database can be reached from both sides."""

    platform: Platform

    def start(self) -> None:
        os.environ.update(self.variables)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        settings = from_arguments(["--data-dir", str(self.folder), *self.flags], self.variables)
        app = create_app(settings)
        self.platform = app.state.platform
        self._barrier: Barrier | None = None
        self._write = self.platform.database.write
        # A change that waits at the barrier must not keep others from their thread.
        self.platform.database.change_thread = None
        self.platform.database.write = self.write  # type: ignore[method-assign,assignment]
        config = uvicorn.Config(app, http=HttpProtocol, ws="none", lifespan="off", log_config=None)
        self.server = uvicorn.Server(config)
        listener = sockets.unix_socket(self.folder / "api.sock")
        self.thread = threading.Thread(target=self.server.run, args=([listener],))
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.should_exit = True
        self.thread.join()
        super().__exit__(kind, error, trace)
        self.platform.database.close()

    def write(self) -> AbstractContextManager[Connection]:
        """Begin a transaction; the next one of a change waits at the barrier, if there is one."""
        if sys._getframe(1).f_globals["__name__"] == changes.__name__ and (barrier := self._barrier):
            self._barrier = None
            barrier.reached.set()
            assert barrier.open.wait(SECONDS)
        return self._write()

    def send(self, method: str, path: str, headers: dict[str, str], content: bytes) -> socket.socket:
        connection = UnixConnection(self.socket, SECONDS)
        connection.connect()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        connection.sock.sendall("\r\n".join([*lines, "", ""]).encode() + content)
        return connection.sock

    def hold_body(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> Held:
        """Send a request without the second half of its body. A route that takes none gets an empty object."""
        content = json.dumps({} if body is None else body).encode()
        headers = headers | described(content) | {"Expect": "100-continue"}
        connection = self.send(method, path, headers, b"")
        awaited = connection.recv(4096)
        assert awaited == b"HTTP/1.1 100 Continue\r\n\r\n", awaited
        half = len(content) // 2
        connection.sendall(content[:half])
        return Held(connection, rest=content[half:])

    def hold_change(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> Held:
        """Send a whole request; it is held after the guard's decision, where its transaction begins."""
        barrier = self._barrier = Barrier()
        content = b"" if body is None else json.dumps(body).encode()
        connection = self.send(method, path, headers | (described(content) if content else {}), content)
        while not barrier.reached.wait(0.01):
            if readiness.select([connection], [], [], 0)[0]:
                self._barrier = None
                raise AssertionError(f"answered before its change: {connection.recv(65536)!r}")
        return Held(connection, barrier=barrier)

    def require_refused(self, held: Held, expected: tuple[int, str]) -> None:
        """Let a request go on after its caller lost the right to it: it is refused and changes nothing."""
        before, refusals = self.stored(), self.refusals()
        answer = held.finish()
        assert code(answer) == expected, answer
        after = self.stored()
        # By table, because a comparison of everything takes minutes to print.
        assert [name for name in after if after[name] != before[name]] == []
        # A refusal of unknown callers is not audited: they could fill the log.
        assert self.refusals() == refusals + (held.decided or expected != SIGNED_OUT)

    def stored(self) -> dict[str, Counter[Any]]:
        """The rows of every table, without the values that each request changes."""
        # As the database has them: to convert every row would take most of the time of a test.
        row = "({})::text" if self.platform.database.kind == "postgresql" else "{}"
        stored = {}
        with self.platform.database.read() as connection:
            for table in tables.metadata.sorted_tables:
                if table.name not in OF_REQUESTS:
                    columns = ", ".join(
                        f'"{column.name}"' for column in table.columns if column.name not in TIMES_OF_USE
                    )
                    rows = connection.exec_driver_sql(f'SELECT {row.format(columns)} FROM "{table.name}"')
                    stored[table.name] = Counter(map(tuple, rows))
        return stored

    def refusals(self) -> int:
        refused = select(tables.audit_log.c.id).where(tables.audit_log.c.outcome == "refused")
        return len(fetch(self.platform.database, refused))


def described(content: bytes) -> dict[str, str]:
    return {"Content-Type": "application/json", "Content-Length": str(len(content))}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@contextmanager
def changes_held(platform: Running) -> Iterator[None]:
    """Hold the audit log, so that every change waits."""
    if platform.database_url.startswith("sqlite"):
        holder = sqlite3.connect(platform.folder / "platform.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.rollback()
        holder.close()
        return
    database = Database(platform.database_url)
    with database.engine.begin() as connection:
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        connection.execute(text("LOCK TABLE audit_log IN SHARE ROW EXCLUSIVE MODE"))
        yield
    database.close()
