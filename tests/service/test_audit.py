"""The audit log: one entry for each change and each refused one, in the change's own transaction."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select, text

from service.db.engine import Database
from service.db.tables import audit_log, operations, tenants
from tests.service.audited import trace
from tests.service.running import AURORA, MEMBER, NEWSROOM, NOBODY, OUTSIDER, OWNER, STAGING, WEB_SHOP, Running

CREATE = f"/api/v1/organizations/{AURORA}/tenants"


def entries(database: Database, request_id: str) -> list[Any]:
    with database.read() as connection:
        query = select(audit_log).where(audit_log.c.request_id == request_id).order_by(audit_log.c.id)
        return list(connection.execute(query))


def test_a_creation_is_one_entry_with_who_what_and_where(platform: Running, platform_database: Database) -> None:
    request_id, headers = trace()
    made = platform.ask("POST", CREATE, as_=OWNER, body={"displayName": "Audited\u00e9"}, headers=headers).json()
    me = platform.get("/api/v1/me", as_=OWNER).json()
    (entry,) = entries(platform_database, request_id)
    assert (entry.operation, entry.outcome, entry.target) == ("tenant.create", "done", f"tenant:{made['id']}")
    assert (entry.actor_kind, entry.actor_id) == ("session", me["id"])
    assert entry.credential_id == me["credential"]["id"]
    assert (entry.organization_id, entry.tenant_id) == (AURORA, made["id"])
    assert entry.details == {"displayName": "Auditedé", "slug": made["slug"]}


def test_a_rename_with_a_key_names_the_key_and_both_names(platform: Running, platform_database: Database) -> None:
    request_id, headers = trace()
    body = {"displayName": "Web Shop 2"}
    answer = platform.ask("PATCH", f"/api/v1/tenants/{WEB_SHOP}", key="terraform", body=body, headers=headers)
    assert answer.status == 200
    (entry,) = entries(platform_database, request_id)
    assert (entry.operation, entry.outcome, entry.actor_kind) == ("tenant.rename", "done", "api_key")
    assert entry.credential_id == "f08db22f-d293-456a-b170-fab23d90fbac"
    assert entry.details == {"from": "Web Shop", "to": "Web Shop 2"}


@pytest.mark.parametrize(
    ("email", "method", "path", "body", "code", "operation"),
    [
        (MEMBER, "PATCH", f"/api/v1/tenants/{STAGING}", {"displayName": "x"}, "PERMISSION_DENIED", "tenant.rename"),
        (
            OUTSIDER,
            "PATCH",
            f"/api/v1/tenants/{STAGING}",
            {"displayName": "x"},
            "TENANT_ACCESS_DENIED",
            "tenant.rename",
        ),
        (MEMBER, "PATCH", f"/api/v1/tenants/{NEWSROOM}", {"displayName": "x"}, "TENANT_ACCESS_DENIED", "tenant.rename"),
        (OWNER, "PATCH", f"/api/v1/tenants/{NOBODY}", {"displayName": "x"}, "TENANT_ACCESS_DENIED", "tenant.rename"),
        (OWNER, "PATCH", "/api/v1/tenants/no-id", {"displayName": "x"}, "INVALID_INPUT", "tenant.rename"),
        (OWNER, "PATCH", f"/api/v1/tenants/{STAGING}", {"displayName": ""}, "INVALID_INPUT", "tenant.rename"),
        (OWNER, "PATCH", f"/api/v1/tenants/{WEB_SHOP}", {"name": "x"}, "INVALID_INPUT", "tenant.rename"),
        (MEMBER, "POST", CREATE, {"displayName": "x"}, "PERMISSION_DENIED", "tenant.create"),
        (OUTSIDER, "POST", CREATE, {"displayName": "x"}, "PERMISSION_DENIED", "tenant.create"),
    ],
)
def test_a_refused_change_is_one_entry_too(
    platform: Running,
    platform_database: Database,
    email: str,
    method: str,
    path: str,
    body: Any,
    code: str,
    operation: str,
) -> None:
    request_id, headers = trace()
    answer = platform.ask(method, path, as_=email, body=body, headers=headers)
    assert answer.json()["error"]["code"] == code
    (entry,) = entries(platform_database, request_id)
    assert (entry.operation, entry.outcome, entry.target) == (operation, "refused", path)
    assert entry.details == {"status": answer.status, "code": code}
    assert entry.actor_kind == "session"


def test_a_refusal_by_scope_is_an_entry_of_the_key(platform: Running, platform_database: Database) -> None:
    request_id, headers = trace()
    platform.ask("POST", CREATE, key="compute-all", body={"displayName": "x"}, headers=headers)
    (entry,) = entries(platform_database, request_id)
    assert (entry.actor_kind, entry.outcome, entry.details["code"]) == ("api_key", "refused", "INSUFFICIENT_SCOPE")


def test_strangers_and_readers_write_nothing(platform: Running, platform_database: Database) -> None:
    request_id, headers = trace()
    platform.ask("PATCH", f"/api/v1/tenants/{STAGING}", body={"displayName": "x"}, headers=headers)
    platform.get("/api/v1/tenants", as_=OWNER, headers=headers)
    platform.get(f"/api/v1/tenants/{NEWSROOM}", as_=MEMBER, headers=headers)
    assert entries(platform_database, request_id) == []


def test_a_repeated_creation_is_one_entry(platform: Running, platform_database: Database) -> None:
    request_id, headers = trace()
    headers["Idempotency-Key"] = str(uuid4())
    for _ in range(3):
        platform.ask("POST", CREATE, as_=OWNER, body={"displayName": "Repeated"}, headers=headers)
    assert len(entries(platform_database, request_id)) == 1


def test_no_entry_holds_a_secret(platform: Running, platform_database: Database) -> None:
    token, key = platform.token(OWNER), platform.key("terraform")
    platform.ask("PATCH", f"/api/v1/tenants/{WEB_SHOP}", key="terraform", body={"displayName": "Web Shop"})
    with platform_database.read() as connection:
        everything = repr(connection.execute(select(audit_log)).all())
    assert token not in everything
    assert key not in everything
    assert key not in platform.log
    assert token not in platform.log


FAIL = {
    "sqlite": [
        "CREATE TRIGGER full BEFORE INSERT ON audit_log BEGIN SELECT RAISE(ABORT, 'the log is full'); END",
        "DROP TRIGGER full",
    ],
    "postgresql": [
        "ALTER TABLE audit_log ADD CONSTRAINT log_full CHECK (false) NOT VALID",
        "ALTER TABLE audit_log DROP CONSTRAINT log_full",
    ],
}


@pytest.fixture
def full_log(platform: Running, platform_database: Database) -> Iterator[None]:
    """An audit log that takes no entry."""
    platform.token(OWNER)
    fill, clear = FAIL[platform_database.kind]
    with platform_database.write() as connection:
        connection.execute(text(fill))
    yield
    with platform_database.write() as connection:
        connection.execute(text(clear))


@pytest.mark.usefixtures("full_log")
def test_a_change_that_cannot_be_logged_does_not_happen(platform: Running, platform_database: Database) -> None:
    def state() -> tuple[Any, set[str]]:
        with platform_database.read() as connection:
            rows = connection.execute(select(tenants.c.id, tenants.c.display_name).order_by(tenants.c.id)).all()
            return rows, set(connection.execute(select(operations.c.run_id)).scalars())

    tenants_before, runs_before = state()
    key = {"Idempotency-Key": str(uuid4())}
    created = platform.ask("POST", CREATE, as_=OWNER, body={"displayName": "Unlogged"}, headers=key)
    renamed = platform.ask("PATCH", f"/api/v1/tenants/{STAGING}", as_=OWNER, body={"displayName": "Unlogged"})
    assert (created.status, renamed.status) == (500, 500)
    tenants_after, runs_after = state()
    assert tenants_after == tenants_before
    assert runs_after <= runs_before  # the retention may remove finished ones
    assert platform.get("/api/v1/tenants", as_=OWNER).status == 200


@pytest.mark.usefixtures("full_log")
def test_a_refusal_that_cannot_be_logged_stays_a_refusal(platform: Running) -> None:
    answer = platform.ask("PATCH", f"/api/v1/tenants/{STAGING}", as_=OWNER, body={})
    assert (answer.status, answer.json()["error"]["code"]) == (400, "INVALID_INPUT")


def test_a_creation_that_could_not_be_logged_can_be_repeated_under_its_key(
    platform: Running, platform_database: Database
) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    fill, clear = FAIL[platform_database.kind]
    with platform_database.write() as connection:
        connection.execute(text(fill))
    try:
        first = platform.ask("POST", CREATE, as_=OWNER, body={"displayName": "Later"}, headers=key)
    finally:
        with platform_database.write() as connection:
            connection.execute(text(clear))
    again = platform.ask("POST", CREATE, as_=OWNER, body={"displayName": "Later"}, headers=key)
    assert (first.status, again.status) == (500, 201)
