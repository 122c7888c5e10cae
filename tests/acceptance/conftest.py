"""A signed-in person on the demo world, for the modules whose tests make what they need and leave the rest alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.account import Account, signed_in
from tests.acceptance.iam import Desk
from tests.conftest import opened


@pytest.fixture(scope="module")
def desk(demo_platform: Path) -> Iterator[Desk]:
    """The owner of Aurora Labs at work; groups and policies of one test are not looked at by another."""
    home = opened(demo_platform, FROST_PLATFORM_PROVISIONING_PACE="600")
    home.sign_in()
    yield Desk(home)
    home.remove()


@pytest.fixture
def own_desk(demo_platform: Path) -> Iterator[Desk]:
    """The same for one test alone, which changes who may do what."""
    home = opened(demo_platform, FROST_PLATFORM_PROVISIONING_PACE="600")
    home.sign_in()
    yield Desk(home)
    home.remove()


@pytest.fixture(scope="module")
def owner(demo_platform: Path) -> Iterator[Account]:
    """The owner of Aurora Labs with an account; keys that one test makes are not looked at by another."""
    with signed_in(demo_platform) as account:
        yield account
