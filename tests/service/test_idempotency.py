"""Idempotency keys in the database: claimed and expired, without waiting for each other."""

import itertools
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, func, insert, select, update

from service.api.changes import IDEMPOTENCY_KEY_LIFETIME, claim_idempotency_key
from service.db import dialect
from service.db.engine import Database
from service.db.tables import idempotency_keys, resources
from tests.service.access import allow, document
from tests.service.running import AURORA, OWNER, WEB_SHOP, Running

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EXPIRED = timedelta(days=2)


def row(**changes: Any) -> dict[str, Any]:
    values = {"actor_id": "u", "operation": "group.create", "key": str(uuid4()), "request_hash": "h"}
    return values | {"resource_id": "r", "created_at": NOW} | changes


def count(connection: Connection) -> int:
    return connection.scalar(select(func.count()).select_from(idempotency_keys)) or 0


def test_an_expired_key_is_free_and_a_younger_one_is_not(database: Database) -> None:
    first, second = ({**row(key="k"), "request_hash": name, "resource_id": name} for name in ("first", "second"))
    del first["created_at"], second["created_at"]
    with database.write() as connection:
        assert tuple(claim_idempotency_key(connection, first, NOW)) == ("first", "first")
        assert tuple(claim_idempotency_key(connection, second, NOW + IDEMPOTENCY_KEY_LIFETIME)) == ("first", "first")
        later = NOW + IDEMPOTENCY_KEY_LIFETIME + timedelta(seconds=1)
        assert tuple(claim_idempotency_key(connection, second, later)) == ("second", "second")
        # Its day begins again.
        assert tuple(claim_idempotency_key(connection, first, later + IDEMPOTENCY_KEY_LIFETIME)) == ("second", "second")
        assert count(connection) == 1


def test_the_expired_keys_are_found_by_an_index(database: Database) -> None:
    old = select(idempotency_keys.c.key).where(idempotency_keys.c.created_at < NOW)
    query = str(old.compile(database.engine, compile_kwargs={"literal_binds": True}))
    with database.read() as connection:
        if database.kind == "postgresql":
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        word = "EXPLAIN" if database.kind == "postgresql" else "EXPLAIN QUERY PLAN"
        plan = "\n".join(str(line) for line in connection.exec_driver_sql(f"{word} {query}"))
    assert "ix_idempotency_keys_created_at" in plan


@pytest.mark.parametrize("made", ["group", "policy", "API key", "tenant", "quota request"])
def test_no_request_waits_for_or_deletes_expired_keys(
    platform: Running, platform_database: Database, made: str
) -> None:
    def is_kept() -> bool:
        expired = row(created_at=NOW - timedelta(days=900))
        key = idempotency_keys.c.key == expired["key"]
        with platform_database.write() as connection:
            connection.execute(insert(idempotency_keys), [expired])
        with platform_database.write() if platform_database.kind == "postgresql" else nullcontext() as holding:
            if holding is not None:
                holding.execute(select(idempotency_keys).where(key).with_for_update())
            assert create(platform, made, str(uuid4()))[0] == 201
        with platform_database.read() as connection:
            return connection.scalar(select(idempotency_keys.c.key).where(key)) is not None

    # The platform itself deletes them when it has just started, and in an hour again.
    assert is_kept() or is_kept()
    if made == "quota request":  # A type has one pending request.
        return
    # A key can be used again after a day.
    key = str(uuid4())
    status, first = create(platform, made, key, "one")
    assert (status, create(platform, made, key, "other")[0]) == (201, 409)
    yesterday = update(idempotency_keys).values(created_at=datetime.now(UTC) - EXPIRED)
    with platform_database.write() as connection:
        connection.execute(yesterday.where(idempotency_keys.c.key == key))
    status, second = create(platform, made, key, "other")
    assert (status, second != first) == (201, True)


QUOTA_TYPES = itertools.cycle(("vcpu", "instance", "volume", "snapshot", "bucket", "vpc"))


def create(platform: Running, made: str, key: str, name: str = "") -> tuple[int, str | None]:
    """Create something under an idempotency key: the status and the id."""
    name, tenant, organization = f"{name} {uuid4()}", f"tenants/{WEB_SHOP}", f"organizations/{AURORA}"
    quota = {"resourceType": next(QUOTA_TYPES), "limit": 100_000, "reason": name}
    path, body = {
        "group": (f"{tenant}/iam/groups", {"name": name}),
        "policy": (f"{tenant}/iam/policies", {"name": name, "document": document(allow("compute:*"))}),
        "API key": (f"{tenant}/api-keys", {"name": name, "scopes": ["compute:read"]}),
        "tenant": (f"{organization}/tenants", {"displayName": name}),
        "quota request": (f"{organization}/quota-requests", quota),
    }[made]
    answer = platform.ask("POST", f"/api/v1/{path}", as_=OWNER, body=body, headers={"Idempotency-Key": key})
    created = answer.json()
    return answer.status, (created.get("apiKey") or created.get("request") or created).get("id")


def test_a_migration_and_the_recovery_do_not_exclude_each_other(pair: tuple[Database, Database]) -> None:
    one, other = pair
    assert len({dialect.MIGRATION_LOCK, dialect.RECOVERY_LOCK}) == 2
    with one.write() as migrating, other.write() as connection:
        migrating.exec_driver_sql(f"SELECT pg_advisory_xact_lock({dialect.MIGRATION_LOCK})")
        assert dialect.try_recovery_lock(connection)
    with one.write() as recovering:
        assert dialect.try_recovery_lock(recovering)
        with other.write() as connection:
            assert not dialect.try_recovery_lock(connection)


def test_after_a_bulk_load_the_planner_knows_the_inventory(platform: Running, platform_database: Database) -> None:
    if platform_database.kind == "sqlite":
        pytest.skip("SQLite plans without statistics")
    with platform_database.read() as connection:
        known = connection.exec_driver_sql("SELECT reltuples FROM pg_class WHERE relname = 'resources'").scalar_one()
        there = connection.scalar(select(func.count()).select_from(resources))
    assert known == there > 0
