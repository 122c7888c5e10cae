"""The states of the world these tests begin in: a provider that serves, and a platform that trusts it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.identity import parts
from tests.identity.canaille_person import Canaille
from tests.identity.provider import AUDIENCE, OidcProvider, Site, site_of


@pytest.fixture(scope="session")
def oidc_folder() -> Path:
    folder = parts.oidc_provider()
    if isinstance(folder, str):
        pytest.skip(folder)
    return folder


@pytest.fixture(scope="module")
def provider(oidc_folder: Path) -> Iterator[OidcProvider]:
    with closing(OidcProvider(oidc_folder)) as provider:
        yield provider


@pytest.fixture(scope="module")
def serving(provider: OidcProvider) -> Iterator[Site]:
    with site_of(provider.issuer, "--audience", AUDIENCE) as site:
        yield site


@pytest.fixture
def site(serving: Site) -> Iterator[Site]:
    """The platform, and a home without a session."""
    with serving.new_home():
        yield serving


@pytest.fixture
def second_provider(oidc_folder: Path) -> Iterator[OidcProvider]:
    with closing(OidcProvider(oidc_folder)) as provider:
        yield provider


@pytest.fixture
def own_site(second_provider: OidcProvider) -> Iterator[Site]:
    with site_of(second_provider.issuer, "--audience", AUDIENCE) as site, site.new_home():
        yield site


@pytest.fixture(scope="module")
def canaille() -> Iterator[Canaille]:
    python = parts.canaille()
    if isinstance(python, str):
        pytest.skip(python)
    with closing(Canaille(python)) as provider:
        yield provider


@pytest.fixture(scope="module")
def canaille_serving(canaille: Canaille) -> Iterator[Site]:
    """A platform that assumes the claims which canaille's tokens lack."""
    with site_of(canaille.issuer, "--audience", "frost-cli", "--assume", "email_verified,auth_time") as site:
        yield site


@pytest.fixture
def canaille_site(canaille_serving: Site) -> Iterator[Site]:
    with canaille_serving.new_home():
        yield canaille_serving
