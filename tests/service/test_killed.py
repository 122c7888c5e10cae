"""A platform, and replicas of the example, killed (-9) under load lose nothing and do nothing twice."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from service.db.engine import Database
from tests.people import AURORA, DATA_LAKE, OWNER, STAGING, WEB_SHOP
from tests.service import load
from tests.service.conftest import KINDS, DemoUrl, NewDatabaseUrl
from tests.service.load import Load, Work, require_counted, require_stored_once
from tests.service.running import Running
from tests.waiting import until

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "replicas" / "run.py"
LOAD_SECONDS = 45
# After a kill, until the balancer knows the replicas again.
NOTICED_SECONDS = 3.0


CLIENTS: list[tuple[Work, dict[str, str]]] = [
    *[(load.create_keys, {"tenant": WEB_SHOP})] * 8,
    *[(load.create_keys, {"tenant": DATA_LAKE})] * 8,
    *[(load.create_tenants, {"tenant": WEB_SHOP, "organization": AURORA})] * 2,
    (load.apply_tags, {"tenant": WEB_SHOP}),
    (load.apply_tags, {"tenant": STAGING}),
]


class Replicas:
    """The example as a user starts it; its output names the processes of its replicas."""

    def __init__(self, url: str, **variables: str) -> None:
        self.folder, self.url = Path(tempfile.mkdtemp(prefix="frost-")) / "replicas", url
        command = [sys.executable, str(EXAMPLE), "--database", url, "--replicas", "2", "--world", "demo"]
        self.process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--folder", str(self.folder)],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pids: dict[int, int] = {}
        self.port = 0
        threading.Thread(target=self._read, daemon=True).start()
        until(lambda: self.port > 0 and len(self.pids) == 2, 60)
        for number in self.pids:
            self.wait_ready(number)

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if match := re.match(r"replica (\d+): process (\d+)", line):
                self.pids[int(match[1])] = int(match[2])
            elif match := re.match(r"balancer: listening on .*:(\d+)", line):
                self.port = int(match[1])

    def __getitem__(self, number: int) -> Running:
        """Return a replica, to be asked over its own socket."""
        one = Running.__new__(Running)
        one.folder, one.tokens, one.seen = self.folder / f"replica-{number}", {}, set()
        return one

    def is_ready(self, number: int) -> bool:
        try:
            return self[number].get("/readyz").status == 200
        except OSError:
            return False

    def wait_ready(self, number: int) -> None:
        until(lambda: self.is_ready(number), 60)

    def kill(self, number: int) -> None:
        killed = self.pids[number]
        os.kill(killed, signal.SIGKILL)
        until(lambda: self.pids[number] != killed, 30)
        self.wait_ready(number)

    def log(self) -> str:
        return "".join(path.read_text() for path in self.folder.glob("replica-*/log"))

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            assert self.process.wait(30) == 0
        finally:
            shutil.rmtree(self.folder.parent, ignore_errors=True)
        for pid in self.pids.values():
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


@pytest.fixture
def replicas(new_database_url: NewDatabaseUrl) -> Iterator[Replicas]:
    """Two replicas on an empty database, which they set up together."""
    paces = {"FROST_PLATFORM_PROVISIONING_PACE": "0.5", "FROST_PLATFORM_APPLY_PACE": "0.2"}
    running = Replicas(new_database_url("postgresql", False), **paces)
    yield running
    running.end()


@pytest.mark.slow
def test_replicas_killed_under_load_lose_nothing(replicas: Replicas) -> None:
    moments = random.Random()
    loader = next(n for n in replicas.pids if (replicas.folder / f"replica-{n}/world-keys.json").exists())
    first = replicas[loader]
    broken, end = list[tuple[float, float]](), time.monotonic() + LOAD_SECONDS
    clients = Load(CLIENTS, moments.randrange(10**6), port=replicas.port, token=first.token(OWNER))
    try:
        while time.monotonic() < end or len(broken) < 2:
            time.sleep(moments.uniform(0.5, 3))
            dying = list(replicas.pids) if moments.random() < 0.2 else [moments.choice(list(replicas.pids))]
            killed = time.monotonic()
            with ThreadPoolExecutor(len(dying)) as threads:
                list(threads.map(replicas.kill, dying))
            broken.append((killed, time.monotonic() + NOTICED_SECONDS))
    finally:
        clients.stop()
    # Errors occur only while a connection breaks, and not after the retry: a client without an answer ends.
    failures = clients.failures()
    assert all(journal.results for journal in clients.journals)
    assert not [one for one in failures if not any(one[0] <= end and begin <= one[1] for begin, end in broken)]
    assert failures, "no kill met a request"
    assert '"request failed"' not in replicas.log()
    # Other replicas continue the work of killed ones.
    until(lambda: first.get("/api/v1/platform/status").json()["openOperations"] == 0, 180)
    with closing(Database(replicas.url)) as database:
        require_stored_once(database, clients)
        require_counted(database, clients)
    verified = first.get("/api/v1/platform/audit/verify").json()
    assert verified["ok"], verified


MOMENT_SECONDS = 0.3
"""A platform is killed within this time after the first change that it answered."""
KILLED_AT_START = 0.2
"""How often it is killed once more while it starts."""


@pytest.fixture(params=KINDS)
def platform(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[Running]:
    with Running(demo_url(request.param), FROST_PLATFORM_PROVISIONING_PACE="0.1") as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, 100])
def test_killed_under_load_nothing_answered_is_lost_or_done_twice(platform: Running, kills: int) -> None:
    chance = random.Random()
    place = {"socket": str(platform.socket), "token": platform.token(OWNER)}
    clients = Load(CLIENTS, chance.randrange(10**6), **place)
    try:
        for _ in range(kills):
            before = len(clients.results())
            until(lambda before=before: len(clients.results()) > before)  # type: ignore[misc]
            time.sleep(chance.uniform(0, MOMENT_SECONDS))
            platform.kill()
            if chance.random() < KILLED_AT_START:
                platform.process = platform.launch()
                time.sleep(chance.uniform(0, 2 * MOMENT_SECONDS))
                platform.kill()
            platform.start()
    finally:
        clients.stop()
    assert len(clients.failures()) >= kills, "the kills met no requests"
    # A dead executor is noticed after 20 s on PostgreSQL.
    until(lambda: platform.get("/api/v1/platform/status").json()["openOperations"] == 0, 120)
    verification = platform.get("/api/v1/platform/audit/verify").json()
    assert verification["ok"], verification
    with closing(Database(platform.database_url)) as database:
        require_stored_once(database, clients)
        require_counted(database, clients)
