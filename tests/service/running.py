"""The real `python -m service` process, with raw requests over its socket."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from service.seed.loader import KEY_FILE
from tests import forking
from tests.api import Answer, Api, device_sign_in, world_key
from tests.leaks import formless_in, leaks_of_database, leaks_of_files
from tests.service import demo_world

START_SECONDS = 60
STOP_SECONDS = 60

# The keys of the demo world, readable to their owner only.
SECRET_FILES = (KEY_FILE,)


class Running(Api):
    """A platform process with a folder of its own; running while the context is open."""

    forked = True
    """It begins with its modules (tests/forking.py) and the demo world loaded; tests of the start itself execute it."""

    def __init__(self, database_url: str | None = None, world: str = "demo", *flags: str, **variables: str) -> None:
        # A short path: pytest's own folders are too long for a socket.
        self.folder = Path(tempfile.mkdtemp(prefix="frost-")) / "platform"
        self.flags = ["--world", world, *flags, *(["--database", database_url] if database_url else [])]
        self.database_url = database_url or f"sqlite:///{self.folder / 'platform.db'}"
        if self.forked and world == "demo" and "--secret-file" not in flags:
            demo_world.copy_into(self.folder, database_url)
        self.variables = {
            "FROST_PLATFORM_PROVISIONING_PACE": "600",
            # Only tests of the limit depend on the rate of requests.
            "FROST_PLATFORM_REQUESTS_PER_MINUTE": "1000000",
            **variables,
        }
        self.process: subprocess.Popen[bytes] | forking.Forked | None = None
        self.tokens: dict[str, str] = {}
        self.seen: set[str] = set()
        """Secrets without a recognizable form, requested or given."""

    @property
    def socket(self) -> Path:
        return self.folder / "api.sock"

    @property
    def log(self) -> str:
        return (self.folder.parent / "log").read_text()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # Killed, it leaves its write-ahead log, which is searched too.
            if self.process and self.process.poll() is None:
                self.kill()
            leaks = self.leaks()
        finally:
            shutil.rmtree(self.folder.parent, ignore_errors=True)
        assert error or not leaks, leaks

    def leaks(self) -> list[str]:
        """The places where a secret can be read by others than its owner."""
        leaks = leaks_of_files(self.folder.parent, SECRET_FILES, self.seen)
        if self.flags[-2:-1] == ["--database"]:
            leaks += leaks_of_database(self.database_url, self.seen)
        return leaks

    def start(self) -> None:
        """Start the process and wait for its first answer."""
        self.process = self.launch()
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                assert self.get("/healthz").status == 200
                return
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise RuntimeError(self.log) from None
                time.sleep(0.01)

    def launch(self) -> "subprocess.Popen[bytes] | forking.Forked":
        """A process of this platform, whether or not one is running."""
        environment = {**os.environ, **self.variables}
        words = ["--data-dir", str(self.folder), *self.flags]
        with (self.folder.parent / "log").open("ab") as log, Path(os.devnull).open() as nothing:
            if self.forked and forking.can_fork(environment):
                files = (nothing.fileno(), log.fileno(), log.fileno())
                return forking.Forked(forking.nursery(), "service", words, environment, str(Path.cwd()), files)
            return subprocess.Popen(
                [sys.executable, *self.program(), *words], env=environment, stdin=nothing, stdout=log, stderr=log
            )

    def program(self) -> list[str]:
        return ["-m", "service"]

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        assert self.process
        self.process.terminate()
        return self.process.wait(STOP_SECONDS)

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()

    # Requests

    def ask(self, method: str, path: str, *, as_: str | None = None, key: str | None = None, **options: Any) -> Answer:
        """Send a request as a person (by e-mail) or with one of the world's keys (by name)."""
        if as_ is not None:
            options["token"] = self.token(as_)
        if key is not None:
            options["key"] = self.key(key)
        return self.request(method, path, **options)

    def get(self, path: str, **options: Any) -> Answer:
        return self.ask("GET", path, **options)

    def pages(self, path: str, **options: Any) -> Iterator[Any]:
        """Return the pages of a list, whose path has a query, up to the one without a cursor."""
        cursor = None
        while cursor != "":
            answer = self.get(path + (f"&cursor={cursor}" if cursor else ""), **options)
            assert answer.status == 200, answer
            page = answer.json()
            yield page
            cursor = page["nextCursor"]

    def raw(self, request: bytes, seconds: float = 5) -> bytes:
        """Send bytes as they are; return the response, up to its end or a pause."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect(str(self.socket))
            connection.sendall(request)
            return read_until_closed(connection)

    # Credentials

    def token(self, email: str) -> str:
        if email not in self.tokens:
            self.tokens[email] = self.sign_in(email)
        return self.tokens[email]

    def sign_in(self, email: str) -> str:
        return str(self.start_session(email)["access_token"])

    def start_session(self, email: str) -> Any:
        """The tokens of a new session, from the real device flow."""
        return device_sign_in(self.form, email)

    def form(self, path: str, **fields: str) -> Any:
        answer = self.post_form(path, **fields)
        assert answer.status == 200, answer
        self.seen |= {*formless_in(fields), *formless_in(answer.json())}
        return answer.json()

    def key(self, name: str) -> str:
        """The secret of one of the world's API keys."""
        return world_key(self.folder, name)


class Executed(Running):
    """A platform whose process starts without loaded modules, as that of a user."""

    forked = False


def ask_on(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    headers: Iterable[tuple[str, str]],
    content: bytes | None = None,
) -> Answer:
    """One request on an open connection, which stays open; of an event stream only the head."""
    connection.putrequest(method, path)
    for name, value in (*headers, ("Content-Length", str(len(content or b"")))):
        connection.putheader(name, value)
    connection.endheaders(content)
    answer = connection.getresponse()
    received = {name.lower(): value for name, value in answer.getheaders()}
    if received.get("content-type", "").startswith("text/event-stream"):
        connection.close()
        return Answer(answer.status, received, b"")
    return Answer(answer.status, received, answer.read())


def read_until_closed(connection: socket.socket) -> bytes:
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except TimeoutError:
        pass
    return received


def tcp_address(running: Running) -> tuple[str, int]:
    """Where it listens, from its log: port 0 takes a free one."""
    (line,) = [json.loads(line) for line in running.log.splitlines() if "listening on" in line]
    host, _, port = line["message"].rpartition(", ")[2].rpartition(":")
    return host, int(port)
