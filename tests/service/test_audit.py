"""The audit log: one entry for each change and each refused one, in the change's own transaction."""

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select

from service.db.engine import Database
from service.db.tables import audit_log, operations, tenants
from tests.service.audited import full_log, trace
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
    ("email", "method", "path", "body", "code"),
    [
        (MEMBER, "PATCH", f"/api/v1/tenants/{STAGING}", {"displayName": "x"}, "PERMISSION_DENIED"),
        (OUTSIDER, "PATCH", f"/api/v1/tenants/{STAGING}", {"displayName": "x"}, "TENANT_ACCESS_DENIED"),
        (MEMBER, "PATCH", f"/api/v1/tenants/{NEWSROOM}", {"displayName": "x"}, "TENANT_ACCESS_DENIED"),
        (OWNER, "PATCH", f"/api/v1/tenants/{NOBODY}", {"displayName": "x"}, "TENANT_ACCESS_DENIED"),
        (OWNER, "PATCH", "/api/v1/tenants/no-id", {"displayName": "x"}, "INVALID_INPUT"),
        (OWNER, "PATCH", f"/api/v1/tenants/{STAGING}", {"displayName": ""}, "INVALID_INPUT"),
        (OWNER, "PATCH", f"/api/v1/tenants/{WEB_SHOP}", {"name": "x"}, "INVALID_INPUT"),
        (MEMBER, "POST", CREATE, {"displayName": "x"}, "PERMISSION_DENIED"),
        (OUTSIDER, "POST", CREATE, {"displayName": "x"}, "PERMISSION_DENIED"),
    ],
)
def test_a_refused_change_is_one_entry_too(
    platform: Running, platform_database: Database, email: str, method: str, path: str, body: Any, code: str
) -> None:
    request_id, headers = trace()
    answer = platform.ask(method, path, as_=email, body=body, headers=headers)
    assert answer.json()["error"]["code"] == code
    (entry,) = entries(platform_database, request_id)
    operation = "tenant.create" if method == "POST" else "tenant.rename"
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


def test_a_change_that_cannot_be_logged_does_not_happen(platform: Running, platform_database: Database) -> None:
    def state() -> tuple[Any, ...]:
        with platform_database.read() as connection:
            rows = connection.execute(select(tenants.c.id, tenants.c.display_name).order_by(tenants.c.id)).all()
            return rows, connection.execute(select(operations.c.run_id).order_by(operations.c.run_id)).all()

    before = state()
    key = {"Idempotency-Key": str(uuid4())}
    platform.token(OWNER)
    with full_log(platform_database):
        created = platform.ask("POST", CREATE, as_=OWNER, body={"displayName": "Unlogged"}, headers=key)
        renamed = platform.ask("PATCH", f"/api/v1/tenants/{STAGING}", as_=OWNER, body={"displayName": "Unlogged"})
        assert (created.status, renamed.status) == (500, 500)
        assert state() == before
        assert platform.get("/api/v1/tenants", as_=OWNER).status == 200
    # The key of the failed creation can be used again.
    assert platform.ask("POST", CREATE, as_=OWNER, body={"displayName": "Unlogged"}, headers=key).status == 201


def test_a_refusal_that_cannot_be_logged_stays_a_refusal(platform: Running, platform_database: Database) -> None:
    platform.token(OWNER)
    with full_log(platform_database):
        answer = platform.ask("PATCH", f"/api/v1/tenants/{STAGING}", as_=OWNER, body={})
    assert (answer.status, answer.json()["error"]["code"]) == (400, "INVALID_INPUT")
