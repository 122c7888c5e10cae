"""The people of the acceptance tests, each with a shell on a platform of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.account import Account
from tests.acceptance.iam import Desk
from tests.acceptance.tagging import Tags
from tests.conftest import signed_in


@pytest.fixture(scope="module")
def desk(demo_platform: Path) -> Iterator[Desk]:
    """The owner of Aurora Labs; tests of a module share the groups and policies."""
    with signed_in(demo_platform) as home:
        yield Desk(home)


@pytest.fixture
def own_desk(demo_platform: Path) -> Iterator[Desk]:
    """The same for one test, which changes permissions."""
    with signed_in(demo_platform) as home:
        yield Desk(home)


@pytest.fixture(scope="module")
def owner(demo_platform: Path) -> Iterator[Account]:
    """The owner of Aurora Labs; tests of a module share the keys."""
    with signed_in(demo_platform) as home:
        yield Account(home)


@pytest.fixture(scope="module")
def tags(demo_platform: Path) -> Iterator[Tags]:
    """The owner of Aurora Labs in Web Shop; each test sets the default tags it needs."""
    with signed_in(demo_platform) as home:
        yield Tags(home)
