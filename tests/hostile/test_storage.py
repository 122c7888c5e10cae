"""Storage that is full or read-only, and a clock that is set back."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from service import app
from service.clock import SystemClock
from service.operator import monitoring
from tests.people import MEMBER, OUTSIDER, OWNER, STAGING, WEB_SHOP
from tests.service.conftest import DemoUrl
from tests.service.inside import Inside
from tests.service.postgres import Cluster, unprivileged
from tests.service.running import Running
from tests.waiting import until

RENAME = f"/api/v1/tenants/{STAGING}"
needs_mount = pytest.mark.skipif(os.getuid() != 0, reason="a disk that is full needs a mount of its own: run as root")


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of so many megabytes at a folder; skips where this root may not mount one."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here (a container needs CAP_SYS_ADMIN)")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as out:
        for piece in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    out.write(b"\0" * piece)
    return filler


def rename(running: Running, name: str) -> Any:
    return running.ask("PATCH", RENAME, as_=OWNER, body={"displayName": name})


def require_reads_and_refusals(running: Running) -> None:
    """Reads go on, and no caller gets more than before."""
    tenants, shop = "/api/v1/tenants", f"/api/v1/tenants/{WEB_SHOP}"
    assert running.get(tenants, as_=OWNER).status == 200
    assert running.get(shop, key="terraform").status == 200
    # A key without the scope and dead keys, a stranger, no credential, a role without the right.
    refused = {"compute-all": 403, "contractor-2025": 401, "retired-etl": 401}
    assert {key: running.get(tenants, key=key).status for key in refused} == refused
    assert running.get(shop, as_=OUTSIDER).status == 403
    assert running.get(tenants).status == 401
    assert running.ask("PATCH", RENAME, as_=MEMBER, body={"displayName": "Mine"}).status == 403


def degraded(running: Running) -> dict[str, str]:
    until(lambda: running.get("/readyz").json()["status"] == "degraded")  # an answer may be that of the check before
    answer = running.get("/readyz")
    assert answer.status == 503
    assert running.get("/healthz").status == 200
    return {name: state for name, state in answer.json()["checks"].items() if state != "ok"}


@pytest.mark.slow
@needs_mount
def test_a_full_disk_refuses_changes_and_nothing_else() -> None:
    running = Running()
    with small_disk(running.folder.parent, 64), running:
        check_full_disk(running, running.folder.parent, {"disk": "full", "database": "full"})
    shutil.rmtree(running.folder.parent, ignore_errors=True)


def check_full_disk(running: Running, folder: Path, expected: dict[str, str]) -> None:
    for email in (OWNER, MEMBER, OUTSIDER):
        running.token(email)
    filler = fill(folder)
    until_refused(running)
    require_reads_and_refusals(running)
    until_refused(running)
    assert degraded(running).items() >= expected.items()
    filler.unlink()
    assert rename(running, "Fits again").status == 200
    assert running.get("/api/v1/platform/audit/verify").json()["ok"]


def until_refused(running: Running) -> None:
    """Make changes until one is refused and nothing of it is stored.

    The log has some room left in pages that are there, and SQLite may restart it at any moment: then some more fit.
    """
    stored = running.get(RENAME, as_=OWNER).json()["displayName"]
    for number in range(2_000):
        answer = rename(running, f"Fits {number}")
        if answer.status != 200:
            assert (answer.status, answer.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
            assert running.get(RENAME, as_=OWNER).json()["displayName"] == stored
            return
        stored = f"Fits {number}"
    raise AssertionError("nothing was ever refused")


@pytest.mark.slow
@needs_mount
def test_a_full_disk_of_postgresql_refuses_changes_and_nothing_else() -> None:
    """Its tables are on a small disk of their own (a tablespace), so that the server itself goes on."""
    folder = Path(tempfile.mkdtemp(prefix="frost-disk-"))
    with small_disk(folder, 40), Cluster() as cluster:
        space = folder / "space"
        space.mkdir()
        shutil.chown(space, unprivileged())
        cluster.execute(f"CREATE TABLESPACE small LOCATION '{space}'")
        cluster.execute("CREATE DATABASE small TABLESPACE small")
        with Running(cluster.url("small")) as running:
            check_full_disk(running, folder, {"database": "full"})
    shutil.rmtree(folder, ignore_errors=True)


def test_a_database_that_turns_read_only_refuses_changes_and_nothing_else(demo_url: DemoUrl, cluster: Cluster) -> None:
    url = str(demo_url("postgresql"))
    name = url.partition("@/")[2].partition("?")[0]
    with Running(url) as running:
        for email in (OWNER, MEMBER, OUTSIDER):
            running.token(email)
        read_only(cluster, name, on=True)
        # The connections that were open learn of it when they are broken.
        until(lambda: rename(running, "Does not fit").status == 503)
        assert rename(running, "Does not fit").json()["error"]["code"] == "SERVICE_UNAVAILABLE"
        require_reads_and_refusals(running)
        checks = degraded(running)
        assert (checks["database"], checks["audit"]) == ("read_only", "unwritable")
        read_only(cluster, name, on=False)
        until(lambda: rename(running, "Fits again").status == 200)
        assert running.get("/api/v1/platform/audit/verify").json()["ok"]


def read_only(cluster: Cluster, name: str, *, on: bool) -> None:
    cluster.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {'on' if on else 'off'}")
    cluster.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


# A clock that is set back


class Wall:
    """A fake of the machine's clock: it can be set and does not move; `passed` is the steady clock beside it."""

    def __init__(self) -> None:
        self.instant = datetime.now(UTC)
        self.passed = 0.0

    def now(self) -> datetime:
        return self.instant

    def steady(self) -> float:
        return self.passed

    def forward(self, **by: float) -> None:
        step = timedelta(**by)
        self.instant += step
        self.passed += step.total_seconds()


def test_time_continues_when_the_clock_is_set_back() -> None:
    wall = Wall()
    clock = SystemClock(wall.now, wall.steady)
    began = clock.now()
    wall.forward(minutes=10)
    wall.instant -= timedelta(hours=1)
    assert clock.now() == began + timedelta(minutes=10)
    wall.forward(minutes=5)
    assert clock.now() == began + timedelta(minutes=15)
    assert clock.lag() == timedelta(hours=1)
    # Set right, or forward: it is followed.
    wall.instant += timedelta(hours=3)
    assert clock.now() == wall.instant
    assert clock.lag() == timedelta(0)


def test_a_clock_set_back_an_hour_brings_no_key_back_to_life(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = Wall()
    monkeypatch.setattr(app, "clock_from_environment", lambda _: SystemClock(wall.now, wall.steady))
    with closing(Inside(tmp_path, database_url, "empty")) as inside:
        secret = inside.stored_key(expires_at=wall.now() + timedelta(minutes=30), rate_limit=100)

        def status() -> int:
            return inside.get("/api/v1/me", {"X-API-Key": secret}).status_code

        assert status() == 403  # the key is known, and has no rights
        wall.forward(minutes=31)
        assert (status(), monitoring.clock_check(inside.platform)) == (401, "ok")
        wall.instant -= timedelta(hours=1)
        assert (status(), monitoring.checks(inside.platform)["clock"]) == (401, "went_back")
