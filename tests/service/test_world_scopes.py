"""The scopes and the catalogue over the wire, from a real platform on a real socket."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from service.catalogue.operations import operations
from service.catalogue.scopes import scopes
from tests.homes import Home


@pytest.fixture(scope="module")
def platform() -> Iterator[Home]:
    """A platform on the demo world, started by itself: no command of the client takes part."""
    home = Home()
    home.platform_dir.mkdir(parents=True, mode=0o700)
    words = [sys.executable, "-m", "service", "--data-dir", str(home.platform_dir), "--world", "demo"]
    process = subprocess.Popen(words, env=home.environment(), stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                assert home.request("GET", "/healthz").status == 200
                break
            except OSError:
                assert process.poll() is None, "the platform ended"
                assert time.monotonic() < deadline, "the platform does not answer"
                time.sleep(0.02)
        yield home
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        home.remove()


@pytest.fixture(scope="module")
def answer(platform: Home) -> dict[str, Any]:
    reply = platform.request("GET", "/api/v1/scopes", key=platform.world_key("viewer-dashboard"))
    assert reply.status == 200
    document: dict[str, Any] = reply.json()
    return document


@pytest.mark.slow
def test_every_scope_is_listed_in_order_with_the_global_one_first(answer: dict[str, Any]) -> None:
    assert answer["scopes"] == [
        {"scope": s.scope, "description": s.description, "enforced": s.enforced} for s in scopes()
    ]
    assert answer["scopes"][0] == {"scope": "*", "description": "Full access to all resources", "enforced": False}


def test_every_operation_is_listed_with_level_and_description(answer: dict[str, Any]) -> None:
    assert answer["operations"] == [
        {"name": o.name, "accessLevel": o.access_level, "description": o.description} for o in operations()
    ]
    assert set(answer) == {"scopes", "operations"}


@pytest.mark.parametrize("name", ["tenant-reader", "quota-bot", "support-shell", "mixed-forms", "newsroom-reader"])
def test_any_key_with_an_enforced_scope_reads_the_catalogue(platform: Home, name: str, answer: dict[str, Any]) -> None:
    reply = platform.request("GET", "/api/v1/scopes", key=platform.world_key(name))
    assert (reply.status, reply.json()) == (200, answer)


@pytest.mark.parametrize(
    ("name", "status"), [("start-stop-only", 403), ("old-deploy", 401), ("contractor-2025", 401), ("retired-etl", 401)]
)
def test_a_key_that_opens_nothing_does_not_open_the_catalogue(platform: Home, name: str, status: int) -> None:
    reply = platform.request("GET", "/api/v1/scopes", key=platform.world_key(name))
    assert reply.status == status
    assert "operations" not in reply.json()


def test_a_stranger_does_not_read_it(platform: Home) -> None:
    assert platform.request("GET", "/api/v1/scopes").status == 401
