"""Fixtures of the client's tests: both drivers, a certificate authority, waits that take no time."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import client.transport.async_client
import client.transport.blocking_client
from client.commands.root import main
from tests.client.certificates import Authority
from tests.client.scripted import TENANT, Ended, Run, Scripted
from tests.client.wire import DRIVERS, Quick


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    """Each of the two drivers in turn."""
    name: str = request.param
    return name


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Quick:
    """Records the waits between attempts instead of waiting (a fake of the clock only)."""
    fake = Quick()
    clock = SimpleNamespace(sleep=fake.sleep, monotonic=time.monotonic)
    monkeypatch.setattr(client.transport.blocking_client, "time", clock)
    loop = SimpleNamespace(**{**vars(asyncio), "sleep": fake.sleep_async})
    monkeypatch.setattr(client.transport.async_client, "asyncio", loop)
    return fake


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority that only these tests know."""
    folder: Path = tmp_path_factory.mktemp("authority")
    return Authority(folder)


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Scripted:
    """Commands against scripted responses."""
    monkeypatch.setenv("FROST_TENANT", TENANT)
    return Scripted(tmp_path / "config.yaml", run)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process, for a user without a config file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FROST_CREDENTIAL_STORE", "file")
    for name in ("FROST_TENANT", "FROST_CONTEXT"):
        monkeypatch.delenv(name, raising=False)

    def ended(*words: str, **options: Any) -> Ended:
        code = main(words, **options)
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return ended
