"""A world is loaded once, as a whole, and its secrets are private."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, func, insert, select

from service.authn import secret_format
from service.catalogue import operations
from service.catalogue.operations import roles
from service.catalogue.resource_types import default_limits, kinds, quota_types
from service.clock import FixedClock
from service.db import tables
from service.db.engine import Database
from service.db.platform_state import failing_listings, get_value
from service.quotas import limits as quotas
from service.seed import large, loader

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
CLOCK = FixedClock(NOW)
SECRET = b"k" * 32
WEB_SHOP = "4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5"
SANDBOX = "41b0ad7f-6e0c-4f17-b5cb-7ebdd582fa8c"


def count(database: Database, table: Table) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0


def rows(database: Database, table: Table, *conditions: Any) -> list[dict[str, Any]]:
    with database.read() as connection:
        return [dict(row) for row in connection.execute(select(table).where(*conditions)).mappings()]


def run_together(start: Callable[[], None], number: int) -> None:
    threads = [threading.Thread(target=start) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.fixture(scope="module", params=("sqlite", "postgresql"))
def demo(
    request: pytest.FixtureRequest,
    new_database_url: Callable[[str, bool], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Database, Path]]:
    """A database with the demo world, loaded at NOW, and the folder its keys were written to. Only read."""
    folder = tmp_path_factory.mktemp("data")
    database = Database(new_database_url(request.param, True))
    assert loader.load(database, CLOCK, "demo", SECRET, folder)
    yield database, folder
    database.close()


def test_a_world_is_loaded_once_and_recorded(database: Database, tmp_path: Path) -> None:
    assert loader.load(database, CLOCK, "demo", SECRET, tmp_path)
    before = {table.name: count(database, table) for table in tables.metadata.sorted_tables}
    kept = (tmp_path / loader.KEY_FILE).read_bytes()
    assert not loader.load(database, CLOCK, "demo", SECRET, tmp_path)
    assert not loader.load(database, CLOCK, "empty", SECRET, tmp_path)
    assert {table.name: count(database, table) for table in tables.metadata.sorted_tables} == before
    assert (tmp_path / loader.KEY_FILE).read_bytes() == kept
    with database.read() as connection:
        assert get_value(connection, "world") == "demo"
        assert get_value(connection, "first_person") == "owner@aurora.example"
        assert get_value(connection, "loaded_at") == "2026-11-21T09:30:00Z"
        assert get_value(connection, "nothing of the kind") is None
        assert failing_listings(connection) == {(WEB_SHOP, "container_registry")}


def test_an_unknown_world_is_refused_and_changes_nothing(database: Database, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="demo, empty, large"):
        loader.load(database, CLOCK, "atlantis", SECRET, tmp_path)
    assert count(database, tables.platform_state) == 0


@pytest.mark.slow
def test_a_failure_on_the_way_leaves_nothing_and_the_next_start_loads(database: Database, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        loader.load(database, CLOCK, "demo", SECRET, tmp_path / "missing")
    # The audit log's chain begins before anything is in it.
    assert {table.name for table in tables.metadata.sorted_tables if count(database, table)} == {"audit_head"}
    assert loader.load(database, CLOCK, "demo", SECRET, tmp_path)
    assert count(database, tables.resources) == 3_000


def test_of_two_platforms_starting_at_once_one_loads(database_url: str, tmp_path: Path) -> None:
    outcomes: list[bool] = []
    barrier = threading.Barrier(3)

    def start() -> None:
        database = Database(database_url)
        barrier.wait()
        outcomes.append(loader.load(database, CLOCK, "demo", SECRET, tmp_path))
        database.close()

    run_together(start, 3)
    assert sorted(outcomes) == [False, False, True]
    database = Database(database_url)
    assert count(database, tables.resources) == 3_000
    assert count(database, tables.catalogue_operations) == len(operations.operations())
    # The secrets on disk are those of the world that won.
    written = json.loads((tmp_path / loader.KEY_FILE).read_text())
    stored = {row["id"]: row["key_prefix"] for row in rows(database, tables.api_keys)}
    assert {key["id"]: secret_format.lookup_prefix(key["secret"]) for key in written.values()} == stored
    database.close()


def test_the_database_has_digests_of_secrets_only(database: Database, database_url: str, tmp_path: Path) -> None:
    loader.load(database, CLOCK, "demo", SECRET, tmp_path)
    file = tmp_path / loader.KEY_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if "world-keys" in path.name] == [loader.KEY_FILE]
    written = json.loads(file.read_text())
    stored = {row["id"]: row for row in rows(database, tables.api_keys)}
    assert {key["id"] for key in written.values()} == set(stored)
    everything = repr([rows(database, table) for table in tables.metadata.sorted_tables]).encode()
    if database.kind == "sqlite":
        path = Path(database_url.removeprefix("sqlite:///"))
        everything += b"".join(part.read_bytes() for part in path.parent.glob(path.name + "*"))
    for name, key in written.items():
        row = stored[key["id"]]
        assert row["name"] == name
        assert secret_format.is_well_formed(key["secret"])
        assert row["key_prefix"] == secret_format.lookup_prefix(key["secret"])
        assert row["key_hash"] == secret_format.digest(SECRET, key["secret"])
        assert key["secret"].encode() not in everything
        assert key["secret"][len(row["key_prefix"]) :].encode() not in everything


def test_the_secrets_of_two_worlds_differ(new_database_url: Callable[[str, bool], str], tmp_path: Path) -> None:
    seen: set[str] = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        database = Database(new_database_url("sqlite", True))
        loader.load(database, CLOCK, "demo", SECRET, tmp_path / name)
        database.close()
        seen |= {key["secret"] for key in json.loads((tmp_path / name / loader.KEY_FILE).read_text()).values()}
    assert len(seen) == 60


def test_new_operations_are_appended_to_a_loaded_world(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = operations.operations()
    monkeypatch.setattr(operations, "operations", lambda: every[:500])
    loader.load(database, CLOCK, "demo", SECRET, tmp_path)
    before = rows(database, tables.catalogue_operations)
    assert len(before) == 500
    monkeypatch.undo()
    assert not loader.load(database, CLOCK, "demo", SECRET, tmp_path)
    after = rows(database, tables.catalogue_operations)
    assert after[:500] == before
    assert [(row["position"], row["name"]) for row in after] == [(o.position, o.name) for o in every]
    assert loader.append_catalogue(database) == 0


def test_an_operation_of_a_newer_version_stays_and_keeps_its_place(database: Database, tmp_path: Path) -> None:
    loader.load(database, CLOCK, "empty", SECRET, tmp_path)
    last = len(operations.operations()) + 1
    newer = {"position": last, "name": "space:stations:dock", "access_level": "write", "description": "Dock"}
    with database.write() as connection:
        connection.execute(insert(tables.catalogue_operations), [newer])
    assert loader.append_catalogue(database) == 0
    assert rows(database, tables.catalogue_operations)[-1] == newer


def test_two_versions_appending_at_once_give_every_operation_one_place(database_url: str, tmp_path: Path) -> None:
    first = Database(database_url)
    every = operations.operations()
    with first.write() as connection:
        connection.execute(insert(tables.platform_state), [{"name": "world", "value": "empty"}])
    added: list[int] = []
    barrier = threading.Barrier(2)

    def start() -> None:
        database = Database(database_url)
        barrier.wait()
        added.append(loader.append_catalogue(database))
        database.close()

    run_together(start, 2)
    assert sorted(added) == [0, len(every)]
    stored = [operations.Operation(**row) for row in rows(first, tables.catalogue_operations)]
    assert stored == [replace(operation) for operation in every]
    first.close()


def test_people_have_the_memberships_of_the_file(demo: tuple[Database, Path]) -> None:
    people = {row["email"]: row for row in rows(demo[0], tables.users)}
    assert people["owner@aurora.example"]["default_tenant_id"] == WEB_SHOP
    assert people["outsider@example.com"]["default_tenant_id"] is None
    seats = [(row["user_id"], row["role"], row["limited"]) for row in rows(demo[0], tables.memberships)]
    assert (people["member@aurora.example"]["id"], "member", True) in seats
    assert sorted(role for _, role, _ in seats) == [
        "admin", "member", "member", "owner", "owner", "regional", "viewer",
    ]  # fmt: skip
    assert people["outsider@example.com"]["id"] not in {user for user, _, _ in seats}
    named = {row["tenant_id"] for row in rows(demo[0], tables.membership_tenants)}
    assert len(named) == 3
    assert "c169179d-57e5-43c5-bb9c-7dd71336348d" not in named, "Data Lake is not for the limited member"


def test_five_tenants_are_set_up_and_one_is_being_set_up(demo: tuple[Database, Path]) -> None:
    database = demo[0]
    status = {row["id"]: row["status"] for row in rows(database, tables.tenants)}
    assert sorted(status.values()) == ["active"] * 5 + ["provisioning"]
    assert status[SANDBOX] == "provisioning"
    for table in (tables.isolation_projects, tables.billing_accounts, tables.tenant_roles, tables.tenant_quotas):
        assert {row["tenant_id"] for row in rows(database, table)} == set(status) - {SANDBOX}, table.name
    assert count(database, tables.tenant_roles) == 5 * len(roles())
    assert count(database, tables.tenant_quotas) == 5 * len(default_limits())
    limits = {
        row["resource_type"]: row["limit"]
        for row in rows(database, tables.tenant_quotas, tables.tenant_quotas.c.tenant_id == WEB_SHOP)
    }
    assert limits["instance"] == 60
    assert limits["dns_zone"] == default_limits()["dns_zone"]


def test_each_tenant_has_its_provisioning_run_and_only_sandboxes_is_open(demo: tuple[Database, Path]) -> None:
    runs = {row["tenant_id"]: row for row in rows(demo[0], tables.operations)}
    assert len(runs) == 6
    for tenant_id, run in runs.items():
        assert run["operation_id"] == f"provision-tenant-{tenant_id}"
        assert [step["name"] for step in run["steps"]] == ["isolation", "roles", "quotas", "billing_account"]
        done = tenant_id != SANDBOX
        assert {step["status"] for step in run["steps"]} == {"completed" if done else "pending"}
        assert (run["status"], run["progress"]) == (("completed", 100) if done else ("pending", 0))
        assert (run["completed_at"] is not None) == done
    assert runs[SANDBOX]["snapshot"] == {"faults": {"billing_account": 2}}


def test_the_inventory_is_in_the_database_with_times_in_the_past(demo: tuple[Database, Path]) -> None:
    stored = rows(demo[0], tables.resources)
    assert len(stored) == 3_000
    assert {row["kind"] for row in stored} == set(kinds())
    assert all(row["created_at"] <= row["updated_at"] < NOW for row in stored)
    assert {row["tenant_id"] for row in stored}.isdisjoint({SANDBOX})
    odd = [row for row in stored if row["name"] == "[bold red]not markup[/]"]
    assert len(odd) == 1
    assert odd[0]["attributes"] == {"sizeGb": 10, "storageClass": "ssd"}


def test_times_of_a_world_follow_the_instant_of_loading(demo: tuple[Database, Path]) -> None:
    web_shop = rows(demo[0], tables.tenants, tables.tenants.c.id == WEB_SHOP)[0]
    assert web_shop["created_at"] == NOW - timedelta(days=611)
    by_name = {row["name"]: row for row in rows(demo[0], tables.api_keys)}
    assert by_name["deploy-pipeline"]["last_used_at"] == NOW - timedelta(minutes=4)
    assert by_name["deploy-pipeline"]["expires_at"] == NOW + timedelta(days=155)
    assert by_name["notebook-reader"]["expires_at"] == NOW + timedelta(days=630)
    assert by_name["contractor-2025"]["revoked_at"] == NOW - timedelta(days=88)
    assert by_name["old-deploy"]["expires_at"] < NOW
    assert by_name["status-page"]["rate_limit"] == 6
    assert by_name["compute-all"]["last_used_at"] is None


def test_sessions_are_of_the_local_issuer_and_end_after_30_days(demo: tuple[Database, Path]) -> None:
    stored = rows(demo[0], tables.sessions)
    assert {row["issuer"] for row in stored} == {"http://localhost/issuer"}
    assert {row["expires_at"] - row["started_at"] for row in stored} == {timedelta(days=30)}
    assert {row["end_reason"] for row in stored if row["ended_at"]} == {"revoked", "expired"}


def test_the_audit_log_has_the_entries_of_the_world(demo: tuple[Database, Path]) -> None:
    told = rows(demo[0], tables.audit_log)
    assert Counter(row["operation"] for row in told) == {
        "tenant.create": 6,
        "api_key.create": 30,
        "api_key.revoke": 2,
        "workload_identity.create": 6,
        "group.create": 5,
        "policy.create": 12,
        "policy.attach": 11,
    }
    assert [row["at"] for row in told] == sorted(row["at"] for row in told)


def test_the_empty_world_has_one_person_and_one_tenant(database: Database, tmp_path: Path) -> None:
    assert loader.load(database, CLOCK, "empty", SECRET, tmp_path)
    with database.read() as connection:
        person = get_value(connection, "first_person")
        assert failing_listings(connection) == frozenset()
    assert [row["email"] for row in rows(database, tables.users)] == [person]
    assert [row["name"] for row in rows(database, tables.organizations)] == ["My organization"]
    assert [row["role"] for row in rows(database, tables.memberships)] == ["owner"]
    assert [row["status"] for row in rows(database, tables.tenants)] == ["active"]
    assert count(database, tables.catalogue_operations) == len(operations.operations())
    for table in (tables.resources, tables.api_keys, tables.sessions):
        assert count(database, table) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_large_world_is_deterministic(
    kind: str, new_database_url: Callable[[str, bool], str], tmp_path: Path
) -> None:
    database = Database(new_database_url(kind, True))
    assert loader.load(database, CLOCK, "large", SECRET, tmp_path)
    sizes = {table: count(database, table) for table in (tables.tenants, tables.resources, tables.api_keys)}
    assert sizes == {tables.tenants: 2_000, tables.resources: 100_000, tables.api_keys: 10_000}
    with database.read() as connection:
        person = get_value(connection, "first_person")
        largest = connection.execute(
            select(tables.resources.c.tenant_id, func.count().label("many"))
            .group_by(tables.resources.c.tenant_id)
            .order_by(func.count().desc())
            .limit(1)
        ).one()
        used = connection.execute(select(tables.resources.c.kind, tables.resources.c.state).distinct()).all()
    assert person == "owner@aurora.example"
    assert largest.many == 60_020
    assert all(state in kinds()[kind].states for kind, state in used)
    assert count(database, tables.billing_accounts) == 2_000
    # Every organization has room for raises, and the largest tenant is within its limits.
    for organization in rows(database, tables.organizations):
        with database.read() as connection:
            allocated = quotas.allocated(connection, organization["id"])
            at_most = quotas.organization_limits(connection, organization["id"])
        assert all(limit is None or allocated[name] < limit for name, limit in at_most.items())
    with database.read() as connection:
        limits = quotas.limits_of(connection, largest.tenant_id)
        uses = quotas.uses(connection, [largest.tenant_id], list(quota_types().values()))[largest.tenant_id]
    assert {name for name, use in uses.items() if use is None or use.total > limits[name]} == set()
    # The owner reaches every tenant, so that a switcher can hold all 2,000.
    owner = next(row["id"] for row in rows(database, tables.users) if row["email"] == person)
    assert len(rows(database, tables.memberships, tables.memberships.c.user_id == owner)) == 20
    later = large.LargeSeed(NOW + timedelta(days=3))
    assert {row["id"] for row in rows(database, tables.tenants)} == {tenant for tenant, _ in later.tenants}
    assert {row["id"] for row in rows(database, tables.resources)} == {row["id"] for row in large.resources(later)}
    database.close()
