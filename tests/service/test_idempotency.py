"""Idempotency keys: a repeated creation has the first result; keys are claimed and expire without waiting."""

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, func, insert, select

from service.api.changes import IDEMPOTENCY_KEY_LIFETIME, claim_idempotency_key
from service.db import dialect
from service.db.engine import Database
from service.db.tables import idempotency_keys, resources
from tests.api import Answer
from tests.people import ADMIN, OWNER, WEB_SHOP
from tests.service.access import Iam, allow, code, details, document
from tests.service.queries import execute, fetch_scalars
from tests.service.running import Running
from tests.waiting import at_once

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GROUPS, POLICIES = f"tenants/{WEB_SHOP}/iam/groups", f"tenants/{WEB_SHOP}/iam/policies"


def row(**changes: Any) -> dict[str, Any]:
    values = {"actor_id": "u", "operation": "group.create", "key": str(uuid4()), "request_hash": "h"}
    return values | {"resource_id": "r", "created_at": NOW} | changes


def create(platform: Running, path: str, body: Any, key: str, person: str = OWNER) -> Answer:
    return platform.ask("POST", f"/api/v1/{path}", as_=person, body=body, headers={"Idempotency-Key": key})


def new(kind: str) -> tuple[str, dict[str, Any]]:
    name = f"once {uuid4()}"
    if kind == "group":
        return GROUPS, {"name": name, "description": "d"}
    return POLICIES, {"name": name, "document": document(allow("compute:*"))}


def id_of(answer: Answer) -> str:
    return str(answer.json()["id"])


def names(platform: Running, path: str) -> list[str]:
    pages = platform.pages(f"/api/v1/{path}?limit=200", as_=OWNER)
    return [one["name"] for page in pages for one in page[path.rpartition("/")[2]]]


@pytest.mark.parametrize("kind", ["group", "policy"])
def test_the_same_key_and_body_answer_with_the_first_result(platform: Running, kind: str) -> None:
    (path, body), key = new(kind), str(uuid4())
    answers = at_once([lambda: create(platform, path, body, key)] * 6)
    assert {answer.status for answer in answers} == {201}
    made = answers[0].json()
    assert [answer.json() for answer in answers] == [made] * 6
    assert names(platform, path).count(body["name"]) == 1
    for member in body:
        other = document(allow("dns:*")) if member == "document" else f"other {uuid4()}"
        answer = create(platform, path, body | {member: other}, key)
        assert (code(answer), details(answer)) == ((409, "IDEMPOTENCY_KEY_REUSED"), {"id": made["id"]})
    assert platform.get(f"/api/v1/{path}/{made['id']}", as_=OWNER).json() == made


def test_a_key_belongs_to_its_person_and_a_document_written_otherwise_is_the_same(platform: Running) -> None:
    (path, body), key = new("policy"), str(uuid4())
    rule = {"access": "allow", "operations": ["compute:*"], "targets": ["*"]}
    spelled = [body | {"document": document(one)} for one in (rule, {"name": "", **dict(reversed(rule.items()))})]
    first, again = (id_of(create(platform, path, one, key)) for one in spelled)
    assert again == first
    others = {id_of(create(platform, path, body, key, ADMIN)), id_of(create(platform, path, body, str(uuid4())))}
    assert len(others | {first}) == 3


def test_a_refusal_uses_no_key_up_and_a_deleted_result_stays_deleted(platform: Running) -> None:
    (path, body), key, iam = new("group"), str(uuid4()), Iam(platform)
    taken = iam.group(body["name"])
    assert code(create(platform, path, body, key)) == (409, "GROUP_NAME_TAKEN")
    assert iam.ask("DELETE", f"/iam/groups/{taken}").status == 204
    made = create(platform, path, body, key)
    assert made.status == 201
    assert iam.ask("DELETE", f"/iam/groups/{id_of(made)}").status == 204
    assert create(platform, path, body, key).status == 404
    assert body["name"] not in names(platform, path)


def test_no_request_waits_for_or_deletes_expired_keys(platform: Running, platform_database: Database) -> None:
    def is_kept() -> bool:
        expired = row(created_at=NOW - timedelta(days=900))
        key = select(idempotency_keys.c.key).where(idempotency_keys.c.key == expired["key"])
        execute(platform_database, insert(idempotency_keys).values(expired))
        with platform_database.write() if platform_database.kind == "postgresql" else nullcontext() as holding:
            if holding is not None:
                holding.execute(key.with_for_update())
            assert create(platform, *new("group"), str(uuid4())).status == 201
        return bool(fetch_scalars(platform_database, key))

    # The platform itself deletes them when it has just started, and in an hour again.
    assert is_kept() or is_kept()


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


def test_a_migration_and_the_recovery_do_not_exclude_each_other(pair: tuple[Database, Database]) -> None:
    one, other = pair
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
