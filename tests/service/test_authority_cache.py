"""Authorization from memory ends with the first request after a change, whichever process made the change."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, delete, insert, select, update

from service.api import authorization
from service.authz.grant_caches import AuthorityCache
from service.db import tables
from service.db.engine import Database
from tests.service.counted import KEY, TENANT, Counted
from tests.service.running import WEB_SHOP

Change = Callable[[Connection], object]
LIST = f"{TENANT}/resources/instance"


@pytest.fixture
def platform(tmp_path: Path, world_url: str | None) -> Iterator[Counted]:
    opened = Counted(tmp_path, world_url)
    opened.keep_leases()
    yield opened
    opened.close()


@pytest.fixture
def other(platform: Counted) -> Iterator[Database]:
    """The same database, opened by another process."""
    opened = Database(platform.platform.settings.database_url)
    yield opened
    opened.close()


def key_id(connection: Connection) -> str:
    return str(connection.scalar(select(tables.api_keys.c.id).where(tables.api_keys.c.name == KEY)))


def creator(connection: Connection) -> str:
    return str(connection.scalar(select(tables.api_keys.c.user_id).where(tables.api_keys.c.name == KEY)))


def set_key(**values: Any) -> Change:
    return lambda connection: connection.execute(
        update(tables.api_keys).where(tables.api_keys.c.name == KEY).values(**values)
    )


def attach_deny(connection: Connection) -> None:
    at, user_id = connection.scalar(select(tables.tenants.c.created_at).limit(1)), creator(connection)
    times = {"created_at": at, "updated_at": at}
    document = '{"schemaVersion":"1","rules":[{"access":"deny","operations":["*"],"targets":["*"]}]}'
    policy = {"id": "p", "tenant_id": WEB_SHOP, "name": "deny", "document": document, "authored_by": user_id}
    connection.execute(insert(tables.policies).values(policy | times))
    attachment = {"policy_id": "p", "attachee_type": "api_key", "attachee_id": key_id(connection)}
    by = {"tenant_id": WEB_SHOP, "attached_by": user_id, "attached_at": at}
    connection.execute(insert(tables.policy_attachments).values(attachment | by))


def remove_creator(connection: Connection) -> None:
    connection.execute(delete(tables.memberships).where(tables.memberships.c.user_id == creator(connection)))


def limit_creator(connection: Connection) -> None:
    """Limit the membership of the creator to no tenant."""
    connection.execute(
        update(tables.memberships).where(tables.memberships.c.user_id == creator(connection)).values(limited=True)
    )


def delete_creator(connection: Connection) -> None:
    at = connection.scalar(select(tables.tenants.c.created_at).limit(1))
    connection.execute(update(tables.users).where(tables.users.c.id == creator(connection)).values(deleted_at=at))


CHANGES: dict[str, tuple[Change, int]] = {
    "scopes removed": (set_key(scopes=["organizations:read"]), 403),
    "key revoked": (lambda connection: set_key(revoked_at=tables.api_keys.c.created_at)(connection), 401),
    "policy attached": (attach_deny, 403),
    "creator removed": (remove_creator, 403),
    "creator limited": (limit_creator, 403),
    "creator deleted": (delete_creator, 401),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_key_is_refused_by_the_first_request_after_a_change(platform: Counted, other: Database, name: str) -> None:
    change, status = CHANGES[name]
    for _ in range(2):
        assert platform.get(LIST, platform.key).status_code == 200
    assert platform.count("GET", LIST, platform.key) <= 2
    with other.write() as connection:
        change(connection)
    assert platform.get(LIST, platform.key).status_code == status


def test_a_session_is_refused_by_the_first_request_after_its_end(platform: Counted, other: Database) -> None:
    for _ in range(2):
        assert platform.get(LIST, platform.session).status_code == 200
    with other.write() as connection:
        connection.execute(update(tables.sessions).values(ended_at=tables.sessions.c.started_at))
    assert platform.get(LIST, platform.session).status_code == 401


def test_a_change_is_refused_after_a_demotion(platform: Counted, other: Database) -> None:
    path = f"{TENANT}/default-tags"
    body = {"tags": {"a": "b"}}
    assert platform.ask("PUT", path, platform.session, body).status_code == 200
    with other.write() as connection:
        connection.execute(update(tables.memberships).values(role="viewer"))
    assert platform.ask("PUT", path, platform.session, {"tags": {"a": "c"}}).status_code == 403


def test_a_key_is_refused_at_its_expiry(platform: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    assert platform.get(LIST, platform.key).status_code == 200
    with platform.platform.database.read() as connection:
        expires_at = connection.scalar(select(tables.api_keys.c.expires_at).where(tables.api_keys.c.name == KEY))
    monkeypatch.setattr(platform.platform.clock, "now", lambda: expires_at - timedelta(microseconds=1))
    assert platform.get(LIST, platform.key).status_code == 200
    monkeypatch.setattr(platform.platform.clock, "now", lambda: expires_at)
    assert platform.get(LIST, platform.key).status_code == 401


def test_a_key_revoked_between_its_lookup_and_the_snapshot_is_refused(
    platform: Counted, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = authorization.authenticate

    def revoked_after(*arguments: Any) -> Any:
        principal = original(*arguments)
        with other.write() as connection:
            CHANGES["key revoked"][0](connection)
        return principal

    monkeypatch.setattr(authorization, "authenticate", revoked_after)
    assert platform.get(LIST, platform.key).status_code == 401


def test_facts_of_one_organization_remain_in_memory_when_another_changes(platform: Counted, other: Database) -> None:
    assert platform.get(LIST, platform.key).status_code == 200
    with other.write() as connection:
        own = select(tables.tenants.c.organization_id).where(tables.tenants.c.id == WEB_SHOP)
        outside = select(tables.tenants.c.id).where(tables.tenants.c.organization_id.not_in(own))
        changed = connection.execute(
            update(tables.api_keys).where(tables.api_keys.c.tenant_id.in_(outside)).values(rate_limit=7)
        )
        assert changed.rowcount
    assert platform.count("GET", LIST, platform.key) <= 2


def test_decisions_do_not_depend_on_the_size_of_the_cache(platform: Counted, other: Database, tmp_path: Path) -> None:
    with other.write() as connection:
        attach_deny(connection)
    secrets = [key["secret"] for key in json.loads((tmp_path / "world-keys.json").read_text()).values()]

    def statuses() -> list[int]:
        return [platform.get(LIST, {"X-API-Key": secret}).status_code for secret in secrets]

    expected = statuses()
    bounded = platform.platform.authorities = AuthorityCache(max_rules=1)
    assert statuses() == expected
    assert sum(authority.rules for authority in bounded._entries.values()) <= 1 or len(bounded._entries) == 1


def test_a_credential_over_its_limit_writes_no_audit_entry(platform: Counted) -> None:
    """A refusal of each has a target of its own, so that none is only counted."""
    database = platform.platform.database
    with database.write() as connection:
        set_key(rate_limit=5, scopes=["compute:write", "compute:read"])(connection)
    statuses = [platform.ask("POST", f"{LIST}/{uuid4()}/start", platform.key).status_code for _ in range(15)]
    assert set(statuses) == {404, 429}
    with database.read() as connection:
        refused = connection.scalars(
            select(tables.audit_log.c.details).where(tables.audit_log.c.operation == "resource.start")
        ).all()
    assert len(refused) == statuses.count(404)
