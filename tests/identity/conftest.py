"""The states of the world these tests begin in: a provider that serves, and a platform that trusts it."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.identity import parts
from tests.identity.canaille_person import Canaille
from tests.identity.provider import AUDIENCE, OidcProvider, Site


@pytest.fixture(scope="session")
def oidc_folder() -> Path:
    folder = parts.oidc_provider()
    if isinstance(folder, str):
        pytest.skip(folder)
    return folder


@pytest.fixture(scope="module")
def serving(oidc_folder: Path, demo_platform: Path) -> Iterator[tuple[OidcProvider, Site]]:
    with ExitStack() as stack:
        provider = stack.enter_context(closing(OidcProvider(oidc_folder)))
        yield provider, stack.enter_context(closing(Site(demo_platform, provider.issuer, "--audience", AUDIENCE)))


@pytest.fixture
def provider(serving: tuple[OidcProvider, Site]) -> OidcProvider:
    return serving[0]


@pytest.fixture
def site(serving: tuple[OidcProvider, Site], provider: OidcProvider) -> Iterator[Site]:
    """The platform, and a home without a session."""
    with serving[1].new_home():
        yield serving[1]


@pytest.fixture
def second_provider(oidc_folder: Path) -> Iterator[OidcProvider]:
    with closing(OidcProvider(oidc_folder)) as provider:
        yield provider


@pytest.fixture
def own_site(second_provider: OidcProvider, demo_platform: Path) -> Iterator[Site]:
    with closing(Site(demo_platform, second_provider.issuer, "--audience", AUDIENCE)) as site, site.new_home():
        yield site


@pytest.fixture
def elsewhere(provider: OidcProvider, demo_platform: Path) -> Iterator[Site]:
    """A platform whose audience is not one that the provider has tokens for."""
    with (
        closing(Site(demo_platform, provider.issuer, "--audience", "https://unknown.example")) as site,
        site.new_home(),
    ):
        yield site


@pytest.fixture(scope="module")
def canaille() -> Iterator[Canaille]:
    python = parts.canaille()
    if isinstance(python, str):
        pytest.skip(python)
    with closing(Canaille(python)) as provider:
        yield provider


@pytest.fixture(scope="module")
def canaille_serving(canaille: Canaille, demo_platform: Path) -> Iterator[Site]:
    """A platform that assumes the claims which canaille's tokens lack."""
    words = ("--audience", "frost-cli", "--assume", "email_verified,auth_time")
    with closing(Site(demo_platform, canaille.issuer, *words)) as site:
        yield site


@pytest.fixture
def canaille_site(canaille_serving: Site) -> Iterator[Site]:
    with canaille_serving.new_home():
        yield canaille_serving
