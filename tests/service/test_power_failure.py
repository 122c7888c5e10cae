"""A power failure on SQLite loses no answered change."""

import random
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.people import OWNER
from tests.service import unsynced
from tests.service.account import Key
from tests.service.running import Running

THREADS = 8
KEYS = 24
needs_symbols = pytest.mark.skipif(unsynced.library() is None, reason="this interpreter hides the functions of SQLite")


class Unsynced(Running):
    """A platform whose databases are copied whenever SQLite syncs them."""

    forked = False

    def __init__(self, synchronous: str = "unchanged") -> None:
        super().__init__()
        self.synchronous = synchronous

    @property
    def synced(self) -> Path:
        return self.folder.parent / "synced"

    def program(self) -> list[str]:
        return ["-m", "tests.service.unsynced", str(self.synced), self.synchronous]

    def cut_power(self) -> None:
        """Kill the process, and replace its databases by what was synced."""
        self.kill()
        for path in self.folder.glob("*.db*"):
            path.unlink()
        for path in self.synced.iterdir():
            shutil.copy(path, self.folder)

    def revoked(self) -> set[str]:
        """The ids of the revoked keys in the synced database. Reads a copy: SQLite writes to what it recovers."""
        with tempfile.TemporaryDirectory() as copy, suppress(sqlite3.OperationalError):
            shutil.copytree(self.synced, copy, dirs_exist_ok=True)
            with closing(sqlite3.connect(Path(copy) / "platform.db")) as connection:
                return {key for (key,) in connection.execute("SELECT id FROM api_keys WHERE revoked_at IS NOT NULL")}
        return set()


@pytest.fixture
def unsynced_platform(request: pytest.FixtureRequest) -> Iterator[Unsynced]:
    with Unsynced(getattr(request, "param", "unchanged")) as running:
        yield running


def revoke_until_power_failure(platform: Unsynced, keys: list[Key], answers: int) -> list[Key]:
    """Revoke keys at the same time; cut the power after some answers. Return the keys whose revocation was answered."""
    answered: list[Key] = []
    enough = threading.Event()

    def revoke(key: Key) -> None:
        if enough.is_set():
            return
        with suppress(OSError):
            if key.revoke().status == 200:
                answered.append(key)
        if len(answered) >= answers:
            enough.set()

    platform.token(OWNER)
    with ThreadPoolExecutor(THREADS) as threads:
        for key in keys:
            threads.submit(revoke, key)
        assert enough.wait(60)
        platform.cut_power()
    return answered


@needs_symbols
@pytest.mark.slow
def test_no_answered_revocation_is_lost(unsynced_platform: Unsynced) -> None:
    chance = random.Random()
    for _ in range(10):
        keys = [Key(unsynced_platform, "compute:read") for _ in range(KEYS)]
        answered = revoke_until_power_failure(unsynced_platform, keys, chance.randint(1, KEYS - THREADS))
        assert {key.id for key in answered} <= unsynced_platform.revoked()
        unsynced_platform.start()
        assert {key.use().status for key in answered} == {401}
        # Their creation was answered.
        assert {key.manage("GET").status for key in keys} == {200}
        verification = unsynced_platform.get("/api/v1/platform/audit/verify").json()
        assert verification["ok"], verification


@needs_symbols
@pytest.mark.parametrize("unsynced_platform", ["NORMAL"], indirect=True)
def test_a_power_failure_loses_unsynced_commits(unsynced_platform: Unsynced) -> None:
    """The test above can fail: with `synchronous=NORMAL`, a commit does not sync the log."""
    keys = [Key(unsynced_platform, "compute:read") for _ in range(KEYS)]
    answered = revoke_until_power_failure(unsynced_platform, keys, 5)
    assert not {key.id for key in answered} <= unsynced_platform.revoked()
