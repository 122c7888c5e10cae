"""Homes for the tests: an empty one, and one whose platform runs on the demo world."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import unit_level
from tests.homes import Home

LONGEST = (
    "tests/policy/test_containment.py",
    "tests/hostile/test_description.py",
    "tests/tui/test_hostile_text.py",
    "tests/tui/test_apply_screen.py",
    "tests/tui",
    "tests/acceptance",
    "tests/hostile",
    "tests/service",
    "tests/policy",
)
"""The longest tests, in the order of their start, so that at the end all workers have short files."""


# The times of a busy machine are no errors of an example.
settings.register_profile("frost", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("frost")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(unit_level)
    # A shell starts background jobs of a script with Ctrl-C and Ctrl-\ ignored, and nohup ignores the loss of the
    # terminal. The programs under test would inherit this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def turn(item: pytest.Item) -> int:
        return next((number for number, place in enumerate(LONGEST) if item.nodeid.startswith(place)), len(LONGEST))

    items.sort(key=turn)


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Iterator[Home]:
    """A fresh machine: no config, no platform."""
    home = Home(forked=request.node.get_closest_marker("unit") is None)
    yield home
    home.remove()


@pytest.fixture(scope="session")
def demo_platform(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a platform that has loaded the demo world and was stopped: loading it once is enough."""
    home = Home(forked=True, FROST_PLATFORM_PROVISIONING_PACE="600")
    try:
        assert home.frost("whoami").code == 0
        assert home.frost("platform", "stop").code == 0
        folder = tmp_path_factory.mktemp("demo") / "platform"
        shutil.copytree(home.platform_dir, folder, ignore=shutil.ignore_patterns("*.sock", "*.lock", "*.log"))
    finally:
        home.remove()
    return folder


SLOW_PROVISIONING = {"FROST_PLATFORM_PROVISIONING_PACE": "600"}


@contextmanager
def home_of(demo_platform: Path, *, forked: bool = True, **variables: str) -> Iterator[Home]:
    """A home with a copy of the demo platform's folder."""
    home = Home(forked=forked, **variables)
    home.platform_dir.parent.mkdir(mode=0o700)
    shutil.copytree(demo_platform, home.platform_dir)
    home.platform_dir.chmod(0o700)
    yield home
    home.remove()


@contextmanager
def signed_in(demo_platform: Path, email: str | None = None, **variables: str) -> Iterator[Home]:
    """A demo world of its own with a person signed in, by default the owner; Sandbox stays provisioning."""
    with home_of(demo_platform, forked=True, **{**SLOW_PROVISIONING, **variables}) as home:
        home.sign_in(email)
        yield home


@pytest.fixture
def demo(demo_platform: Path) -> Iterator[Home]:
    """A machine with the demo world, without a session; its platform starts with the first command.

    Sandbox is provisioned within seconds.
    """
    with home_of(demo_platform) as home:
        yield home


@pytest.fixture
def demo_slow(demo_platform: Path) -> Iterator[Home]:
    """The same with provisioning so slow that Sandbox stays as it is."""
    with home_of(demo_platform, forked=True, **SLOW_PROVISIONING) as home:
        yield home


@pytest.fixture(scope="module")
def shared(demo_platform: Path) -> Iterator[Home]:
    """The demo world for a module whose tests change nothing on the platform; Sandbox stays as it is."""
    with home_of(demo_platform, forked=True, **SLOW_PROVISIONING) as home:
        yield home
