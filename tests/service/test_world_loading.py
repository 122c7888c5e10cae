"""A world is loaded once, as a whole, and its secrets are private."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Table, func, insert, select

from service.authn import secret_format
from service.catalogue import operations
from service.catalogue.operations import roles
from service.catalogue.resource_types import default_limits, kinds, quota_types
from service.clock import FixedClock
from service.db import tables
from service.db.engine import Database
from service.db.statements import failing_listings, get_value
from service.quotas import limits as quotas
from service.seed import large, loader
from tests.people import SANDBOX, WEB_SHOP
from tests.service.conftest import KINDS, NewDatabaseUrl
from tests.service.queries import execute, fetch, fetch_scalars
from tests.waiting import at_once

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
CLOCK = FixedClock(NOW)
SECRET = b"k" * 32


class World(NamedTuple):
    database: Database
    folder: Path

    def rows(self, table: Table, *conditions: Any) -> list[dict[str, Any]]:
        return [row._asdict() for row in fetch(self.database, select(table).where(*conditions))]

    def count(self, table: Table) -> int:
        return int(fetch_scalars(self.database, select(func.count()).select_from(table))[0])

    def counts(self) -> dict[str, int]:
        return {table.name: self.count(table) for table in tables.metadata.sorted_tables}

    def load(self, name: str = "demo") -> bool:
        return loader.load(self.database, CLOCK, name, SECRET, self.folder)

    def keys(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / loader.KEY_FILE).read_text()))


@pytest.fixture(scope="module", params=KINDS)
def demo(
    request: pytest.FixtureRequest, new_database_url: NewDatabaseUrl, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """The demo world, loaded at NOW. Tests only read it."""
    with closing(Database(new_database_url(request.param, True))) as database:
        world = World(database, tmp_path_factory.mktemp("data"))
        assert world.load()
        yield world


@pytest.fixture
def empty(database: Database, tmp_path: Path) -> World:
    return World(database, tmp_path)


def test_a_world_is_loaded_once_and_recorded(demo: World) -> None:
    before = demo.counts(), demo.keys()
    assert (demo.load(), demo.load("empty")) == (False, False)
    assert (demo.counts(), demo.keys()) == before
    with demo.database.read() as connection:
        assert get_value(connection, "world") == "demo"
        assert get_value(connection, "first_person") == "owner@aurora.example"
        assert get_value(connection, "loaded_at") == "2026-11-21T09:30:00Z"
        assert get_value(connection, "nothing of the kind") is None
        assert failing_listings(connection) == {(WEB_SHOP, "container_registry")}


@pytest.mark.slow
def test_a_failure_on_the_way_leaves_nothing_and_the_next_start_loads(empty: World) -> None:
    with pytest.raises(FileNotFoundError):
        empty._replace(folder=empty.folder / "missing").load()
    # The audit log's chain begins before its first entry.
    assert {name for name, number in empty.counts().items() if number} == {"audit_head"}
    assert empty.load()
    assert empty.count(tables.resources) == 3_000


def test_of_two_platforms_starting_at_once_one_loads(
    demo: World, new_database_url: NewDatabaseUrl, tmp_path: Path
) -> None:
    url = new_database_url(demo.database.kind, True)

    def start(opened: Database) -> bool:
        with closing(opened):
            return World(opened, tmp_path).load()

    assert sorted(at_once([partial(start, Database(url)) for _ in range(3)])) == [False, False, True]
    with closing(Database(url)) as database:
        world = World(database, tmp_path)
        assert world.count(tables.resources) == 3_000
        assert world.count(tables.catalogue_operations) == len(operations.operations())
        # The secrets on disk are those of the process that loaded, and of this database only.
        stored = {row["id"]: row["key_prefix"] for row in world.rows(tables.api_keys)}
        assert {key["id"]: secret_format.lookup_prefix(key["secret"]) for key in world.keys().values()} == stored
        assert len({key["secret"] for of in (demo, world) for key in of.keys().values()}) == 60


def test_the_database_has_digests_of_secrets_only(demo: World) -> None:
    file = demo.folder / loader.KEY_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in demo.folder.iterdir() if "world-keys" in path.name] == [loader.KEY_FILE]
    stored = {row["id"]: row for row in demo.rows(tables.api_keys)}
    assert {key["id"] for key in demo.keys().values()} == set(stored)
    everything = repr([demo.rows(table) for table in tables.metadata.sorted_tables]).encode()
    if demo.database.kind == "sqlite":
        path = Path(demo.database.engine.url.database or "")
        everything += b"".join(part.read_bytes() for part in path.parent.glob(path.name + "*"))
    for name, key in demo.keys().items():
        row, secret = stored[key["id"]], key["secret"]
        assert row["name"] == name
        assert secret_format.is_well_formed(secret)
        assert row["key_prefix"] == secret_format.lookup_prefix(secret)
        assert row["key_hash"] == secret_format.digest(SECRET, secret)
        assert secret.encode() not in everything
        assert secret[len(row["key_prefix"]) :].encode() not in everything


def test_new_operations_are_appended_to_a_loaded_world(empty: World, monkeypatch: pytest.MonkeyPatch) -> None:
    every = operations.operations()
    monkeypatch.setattr(operations, "operations", lambda: every[:500])
    assert empty.load("empty")
    before = empty.rows(tables.catalogue_operations)
    assert len(before) == 500
    monkeypatch.undo()
    assert not empty.load("empty")
    after = empty.rows(tables.catalogue_operations)
    assert after[:500] == before
    assert [(row["position"], row["name"]) for row in after] == [(o.position, o.name) for o in every]
    # An operation of a newer version keeps its place.
    newer = {"position": len(every) + 1, "name": "space:stations:dock", "access_level": "write", "description": "Dock"}
    execute(empty.database, insert(tables.catalogue_operations).values(newer))
    assert loader.append_catalogue(empty.database) == 0
    assert empty.rows(tables.catalogue_operations)[-1] == newer


def test_two_versions_appending_at_once_give_every_operation_one_place(database_url: str, empty: World) -> None:
    every = operations.operations()
    execute(empty.database, insert(tables.platform_state).values(name="world", value="empty"))

    def start(opened: Database) -> int:
        with closing(opened):
            return loader.append_catalogue(opened)

    assert sorted(at_once([partial(start, Database(database_url)) for _ in range(2)])) == [0, len(every)]
    assert [operations.Operation(**row) for row in empty.rows(tables.catalogue_operations)] == list(every)


def test_five_tenants_are_set_up_and_one_is_being_set_up(demo: World) -> None:
    status = {row["id"]: row["status"] for row in demo.rows(tables.tenants)}
    assert sorted(status.values()) == ["active"] * 5 + ["provisioning"]
    assert status[SANDBOX] == "provisioning"
    for table in (tables.isolation_projects, tables.billing_accounts, tables.tenant_roles, tables.tenant_quotas):
        assert {row["tenant_id"] for row in demo.rows(table)} == set(status) - {SANDBOX}, table.name
    assert demo.count(tables.tenant_roles) == 5 * len(roles())
    quotas = demo.rows(tables.tenant_quotas)
    assert len(quotas) == 5 * len(default_limits())
    limits = {row["resource_type"]: row["limit"] for row in quotas if row["tenant_id"] == WEB_SHOP}
    assert (limits["instance"], limits["dns_zone"]) == (60, default_limits()["dns_zone"])
    runs = {row["tenant_id"]: row for row in demo.rows(tables.operations)}
    assert runs.keys() == status.keys()
    for tenant_id, run in runs.items():
        state, progress = ("pending", 0) if tenant_id == SANDBOX else ("completed", 100)
        assert {run["status"], *(step["status"] for step in run["steps"])} == {state}
        assert (run["progress"], run["completed_at"] is None) == (progress, tenant_id == SANDBOX)
    assert runs[SANDBOX]["snapshot"] == {"faults": {"billing_account": 2}}


def test_resources_keys_sessions_and_audit_entries_are_relative_to_the_loading(demo: World) -> None:
    stored = demo.rows(tables.resources)
    assert len(stored) == 3_000
    assert {row["kind"] for row in stored} == set(kinds())
    assert all(row["created_at"] <= row["updated_at"] < NOW for row in stored)
    assert SANDBOX not in {row["tenant_id"] for row in stored}
    (odd,) = (row for row in stored if row["name"] == "[bold red]not markup[/]")
    assert odd["attributes"] == {"sizeGb": 10, "storageClass": "ssd"}
    (web_shop,) = demo.rows(tables.tenants, tables.tenants.c.id == WEB_SHOP)
    assert web_shop["created_at"] == NOW - timedelta(days=611)
    keys = {row["name"]: row for row in demo.rows(tables.api_keys)}
    assert keys["deploy-pipeline"]["last_used_at"] == NOW - timedelta(minutes=4)
    assert keys["deploy-pipeline"]["expires_at"] == NOW + timedelta(days=155)
    assert keys["contractor-2025"]["revoked_at"] == NOW - timedelta(days=88)
    sessions = demo.rows(tables.sessions)
    assert {row["issuer"] for row in sessions} == {"http://localhost/issuer"}
    assert {row["expires_at"] - row["started_at"] for row in sessions} == {timedelta(days=30)}
    assert {row["end_reason"] for row in sessions if row["ended_at"]} == {"revoked", "expired"}
    entries = demo.rows(tables.audit_log)
    assert Counter(row["operation"] for row in entries)["api_key.create"] == len(keys)
    assert [row["at"] for row in entries] == sorted(row["at"] for row in entries)


def test_the_empty_world_has_one_person_and_one_tenant(empty: World) -> None:
    with pytest.raises(ValueError, match="demo, empty, large"):
        empty.load("atlantis")
    assert empty.count(tables.platform_state) == 0
    assert empty.load("empty")
    with empty.database.read() as connection:
        person = get_value(connection, "first_person")
        assert failing_listings(connection) == frozenset()
    assert [row["email"] for row in empty.rows(tables.users)] == [person]
    assert [row["name"] for row in empty.rows(tables.organizations)] == ["My organization"]
    assert [row["role"] for row in empty.rows(tables.memberships)] == ["owner"]
    assert [row["status"] for row in empty.rows(tables.tenants)] == ["active"]
    assert empty.count(tables.catalogue_operations) == len(operations.operations())
    assert [empty.count(table) for table in (tables.resources, tables.api_keys, tables.sessions)] == [0, 0, 0]


@pytest.mark.slow
def test_the_large_world_is_deterministic(empty: World) -> None:
    assert empty.load("large")
    assert empty.count(tables.tenants) == empty.count(tables.billing_accounts) == 2_000
    assert (empty.count(tables.resources), empty.count(tables.api_keys)) == (100_000, 10_000)
    columns = tables.resources.c
    by_tenant = select(columns.tenant_id, func.count()).group_by(columns.tenant_id).order_by(func.count().desc())
    with empty.database.read() as connection:
        person = get_value(connection, "first_person")
        largest, number = connection.execute(by_tenant.limit(1)).one()
        states = connection.execute(select(columns.kind, columns.state).distinct()).all()
        # Every organization has room for raises, and the largest tenant is within its limits.
        for organization_id in connection.scalars(select(tables.organizations.c.id)).all():
            allocated = quotas.allocated(connection, organization_id)
            at_most = quotas.organization_limits(connection, organization_id)
            assert all(limit is None or allocated[name] < limit for name, limit in at_most.items())
        limits = quotas.limits_of(connection, largest)
        uses = quotas.uses(connection, [largest], list(quota_types().values()))[largest]
    assert person == "owner@aurora.example"
    assert number == 60_020
    assert all(state in kinds()[kind].states for kind, state in states)
    assert {name for name, use in uses.items() if use is None or use.total > limits[name]} == set()
    # The owner reaches every tenant, so that a switcher can hold all 2,000.
    (owner,) = empty.rows(tables.users, tables.users.c.email == person)
    assert len(empty.rows(tables.memberships, tables.memberships.c.user_id == owner["id"])) == 20
    later = large.LargeSeed(NOW + timedelta(days=3))
    assert {row["id"] for row in empty.rows(tables.tenants)} == {tenant for tenant, _ in later.tenants}
    assert {row["id"] for row in empty.rows(tables.resources)} == {row["id"] for row in large.resources(later)}
