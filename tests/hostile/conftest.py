"""The databases and platforms of the service's tests, for the attacks on it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile.world import World
from tests.service.access import Iam
from tests.service.conftest import (  # noqa: F401 - fixtures are found by their names here
    cluster,
    cluster_pair,
    database_url,
    demo_url,
    inside,
    migrated_file,
    network,
    new_database_url,
    own,
    own_database,
    pair,
    platform,
    platform_database,
    sandbox,
)
from tests.service.running import Running


@pytest.fixture
def world(new_database_url: Callable[[str, bool], str], tmp_path: Path) -> Iterator[World]:  # noqa: F811
    """The application in this process on the demo world."""
    opened = World(tmp_path, new_database_url("sqlite", True))
    yield opened
    opened.close()


@pytest.fixture
def iam(platform: Running) -> Iam:  # noqa: F811
    return Iam(platform)
