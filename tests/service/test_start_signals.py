"""Stop signals while the platform starts, also as process 1 of a container."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from service.db.engine import APPLICATION
from tests.api import Api
from tests.service.postgres import Cluster
from tests.waiting import until

pytestmark = pytest.mark.slow

SECONDS = 60.0
"""For a busy machine. Without the signal, nothing here ends in this time."""
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def can_be_process_1() -> bool:
    return bool(shutil.which("unshare")) and subprocess.run([*CONTAINER, "true"], capture_output=True).returncode == 0


HOLD = """
import sys, threading
class Hold:
    def find_spec(name, path=None, target=None):
        if name == "service.server":
            threading.Event().wait()
sys.meta_path.insert(0, Hold)
"""
"""A `sitecustomize` module with which the import of the server never ends."""


class Start(Api):
    """A platform that starts, with its data in a folder of its own.

    Args:
        serve: Start it with `frost platform serve`.
        hold: Stop before the server is imported, after the socket exists.
    """

    def __init__(self, *flags: str, is_process_1: bool = False, serve: bool = False, hold: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="frost-")) / "platform"
        program = ["-m", "tui", "platform", "serve"] if serve else ["-m", "service"]
        words = [sys.executable, *program, "--data-dir", str(self.folder), "--world", "empty", *flags]
        self.is_process_1 = is_process_1
        environment = {**os.environ, "HOME": str(self.folder.parent)}
        if hold:
            (self.folder.parent / "sitecustomize.py").write_text(HOLD)
            environment["PYTHONPATH"] = str(self.folder.parent)
        with (self.folder.parent / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [*CONTAINER, *words] if is_process_1 else words, env=environment, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        if not self.is_process_1:
            return self.process.pid
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        until(lambda: bool(children.read_text()))
        return int(children.read_text())

    @property
    def log(self) -> str:
        return (self.folder.parent / "log").read_text()

    @property
    def socket(self) -> Path:
        return self.folder / "api.sock"

    def command(self) -> bytes:
        return Path(f"/proc/{self.pid}/cmdline").read_bytes()

    def end(self, number: signal.Signals) -> int:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
        return self.process.wait(SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            with suppress(ProcessLookupError, ValueError):
                os.kill(self.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder.parent, ignore_errors=True)


@pytest.fixture(params=[False, True], ids=["process", "process 1"])
def is_process_1(request: pytest.FixtureRequest) -> bool:
    if request.param and not can_be_process_1():
        pytest.skip("no right to create a PID namespace (unshare --pid)")
    return bool(request.param)


@pytest.fixture
def start(is_process_1: bool) -> Iterator[Callable[..., Start]]:
    started: list[Start] = []

    def begin(*flags: str, serve: bool = False, hold: bool = False) -> Start:
        started.append(Start(*flags, is_process_1=is_process_1, serve=serve, hold=hold))
        return started[-1]

    yield begin
    for one in started:
        one.close()


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
def test_a_signal_while_the_modules_load_ends_the_start(start: Callable[..., Start], number: signal.Signals) -> None:
    starting = start(hold=True)
    until(starting.socket.exists)
    assert starting.end(number) == 128 + number
    assert f"stopped by {number.name} while starting" in starting.log
    assert "Traceback" not in starting.log
    assert not starting.socket.exists()


def test_no_signal_is_lost_while_the_command_becomes_the_platform(start: Callable[..., Start]) -> None:
    """The interpreter starts again in the same process, without a handler at first."""
    for _ in range(5):
        starting = start(serve=True, hold=True)
        until(lambda: b"\0service\0" in starting.command(), pause=0.0)  # noqa: B023
        assert starting.end(signal.SIGTERM) == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
def test_a_platform_that_serves_ends_with_status_0(start: Callable[..., Start], number: signal.Signals) -> None:
    serving = start()
    until(serving.socket.exists)
    assert serving.request("GET", "/healthz").status == 200
    assert serving.end(number) == 0
    assert not serving.socket.exists()


ENDLESS = """
CREATE VIEW alembic_version AS
WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted)
SELECT n AS version_num FROM counted WHERE n < 0
"""


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
def test_a_statement_of_sqlite_that_never_ends_does_not_delay_the_end(
    start: Callable[..., Start], number: signal.Signals, tmp_path: Path
) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as other:
        other.execute(ENDLESS)
    starting = start("--database", f"sqlite:///{file}")
    files = Path(f"/proc/{starting.pid}/fd")
    until(lambda: any(os.path.realpath(one) == str(file) for one in files.iterdir()))
    assert starting.end(number) == 128 + number
    with closing(sqlite3.connect(file)) as other:
        assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("alembic_version",)]


SLOW = """
CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); END';
CREATE EVENT TRIGGER slow ON ddl_command_start EXECUTE FUNCTION slow()
"""
OPEN = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND datname = %s"
WORKING = f"{OPEN} AND state = 'active' AND wait_event = 'PgSleep'"


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
def test_a_long_statement_of_a_migration_ends_at_the_server_too(
    start: Callable[..., Start], number: signal.Signals, cluster: Cluster, is_process_1: bool
) -> None:
    name = f"slow_{number.name.lower()}_{int(is_process_1)}"
    cluster.create(name)
    with psycopg.connect(cluster.url(name), autocommit=True) as other:

        def count(statement: str) -> int:
            """In a transaction of its own: an older one keeps the activity that it saw first."""
            row = other.execute(statement.encode(), (APPLICATION, name)).fetchone()
            assert row is not None
            return int(row[0])

        for statement in SLOW.split(";\n"):
            other.execute(statement.encode())
        starting = start("--database", cluster.url(name))
        until(lambda: count(WORKING) == 1)
        assert starting.end(number) == 128 + number
        until(lambda: count(OPEN) == 0)
        assert "Traceback" not in starting.log
        assert "cannot be used" not in starting.log
        other.execute("DROP EVENT TRIGGER slow")
        tables = other.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        assert tables == (0,)
