"""The audit log: one entry for each change and each refused one, in the change's own transaction."""

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import delete, insert, select, update

from service.db.engine import Database
from service.db.tables import audit_head, audit_log, operations, tenants
from tests.people import AURORA, MEMBER, NEWSROOM, OUTSIDER, OWNER, STAGING, UNKNOWN_ID, WEB_SHOP
from tests.service.access import KEYS, code
from tests.service.audited import full_log, trace
from tests.service.queries import execute, fetch, fetch_row
from tests.service.running import Running
from tests.waiting import until

CREATE = f"/api/v1/organizations/{AURORA}/tenants"
X = {"displayName": "x"}


def entries(database: Database, request_id: str) -> list[Any]:
    return fetch(database, select(audit_log).where(audit_log.c.request_id == request_id).order_by(audit_log.c.id))


def test_a_change_is_one_entry_with_its_principal(platform: Running, platform_database: Database) -> None:
    me = platform.get("/api/v1/me", as_=OWNER).json()
    request_id, headers = trace()
    headers["Idempotency-Key"] = str(uuid4())
    for _ in range(3):
        tenant = platform.ask("POST", CREATE, as_=OWNER, body={"displayName": "Audited\u00e9"}, headers=headers).json()
    (entry,) = entries(platform_database, request_id)
    assert (entry.operation, entry.outcome, entry.target) == ("tenant.create", "done", f"tenant:{tenant['id']}")
    assert (entry.actor_kind, entry.actor_id) == ("session", me["id"])
    assert entry.credential_id == me["credential"]["id"]
    assert (entry.organization_id, entry.tenant_id) == (AURORA, tenant["id"])
    assert entry.details == {"displayName": "Auditedé", "slug": tenant["slug"]}
    path = f"/api/v1/tenants/{WEB_SHOP}"
    for old, new in (("Web Shop", "Web Shop 2"), ("Web Shop 2", "Web Shop")):
        request_id, headers = trace()
        answer = platform.ask("PATCH", path, key="terraform", body={"displayName": new}, headers=headers)
        assert answer.status == 200
        (entry,) = entries(platform_database, request_id)
        assert (entry.operation, entry.outcome, entry.actor_kind) == ("tenant.rename", "done", "api_key")
        assert entry.credential_id == KEYS["terraform"]
        assert entry.details == {"from": old, "to": new}


REFUSALS: list[tuple[str, str, str, Any, str]] = [
    (MEMBER, "PATCH", f"/api/v1/tenants/{STAGING}", X, "PERMISSION_DENIED"),
    (OUTSIDER, "PATCH", f"/api/v1/tenants/{STAGING}", X, "TENANT_ACCESS_DENIED"),
    (MEMBER, "PATCH", f"/api/v1/tenants/{NEWSROOM}", X, "TENANT_ACCESS_DENIED"),
    (OWNER, "PATCH", f"/api/v1/tenants/{UNKNOWN_ID}", X, "TENANT_ACCESS_DENIED"),
    (OWNER, "PATCH", "/api/v1/tenants/no-id", X, "INVALID_INPUT"),
    (OWNER, "PATCH", f"/api/v1/tenants/{WEB_SHOP}", {"name": "x"}, "INVALID_INPUT"),
    (OUTSIDER, "POST", CREATE, X, "PERMISSION_DENIED"),
    ("compute-all", "POST", CREATE, X, "INSUFFICIENT_SCOPE"),
]


def test_a_refused_change_is_one_entry_too(platform: Running, platform_database: Database) -> None:
    for caller, method, path, body, error in REFUSALS:
        request_id, headers = trace()
        credential = {"as_": caller} if "@" in caller else {"key": caller}
        answer = platform.ask(method, path, body=body, headers=headers, **credential)
        assert code(answer)[1] == error
        (entry,) = entries(platform_database, request_id)
        operation = "tenant.create" if method == "POST" else "tenant.rename"
        assert (entry.operation, entry.outcome, entry.target) == (operation, "refused", path)
        assert entry.details == {"status": answer.status, "code": error}
        assert entry.actor_kind == ("session" if "@" in caller else "api_key")
    # Unknown callers and readers write nothing.
    request_id, headers = trace()
    platform.ask("PATCH", f"/api/v1/tenants/{STAGING}", body=X, headers=headers)
    platform.get("/api/v1/tenants", as_=OWNER, headers=headers)
    platform.get(f"/api/v1/tenants/{NEWSROOM}", as_=MEMBER, headers=headers)
    assert entries(platform_database, request_id) == []


def test_a_change_that_cannot_be_logged_does_not_happen(platform: Running, platform_database: Database) -> None:
    def state() -> set[Any]:
        names = fetch(platform_database, select(tenants.c.id, tenants.c.display_name))
        # A platform that has just started deletes old operations.
        return {*names, *fetch(platform_database, select(operations.c.run_id))}

    before = state()
    body, key = {"displayName": "Unlogged"}, {"Idempotency-Key": str(uuid4())}
    platform.token(OWNER)
    with full_log(platform_database):
        assert platform.ask("POST", CREATE, as_=OWNER, body=body, headers=key).status == 500
        path = f"/api/v1/tenants/{STAGING}"
        assert platform.ask("PATCH", path, as_=OWNER, body=body).status == 500
        assert platform.ask("POST", "/api/v1/sessions/current/end", as_=OWNER).status == 500
        assert state() <= before
        assert platform.get("/api/v1/tenants", as_=OWNER).status == 200
        # A refusal stays a refusal.
        assert code(platform.ask("PATCH", path, as_=OWNER, body={})) == (400, "INVALID_INPUT")
    # The key of the failed creation can be used again.
    assert platform.ask("POST", CREATE, as_=OWNER, body=body, headers=key).status == 201


FORGED_HEADS: dict[str, dict[str, Any] | None] = {
    "seal": {"seal": "0" * 64},
    "seal of other letters": {"seal": "é" * 64},
    "entries": {"entries": 1},
    "gone": None,
}


@pytest.mark.parametrize("name", FORGED_HEADS)
def test_a_change_on_a_chain_that_cannot_be_continued_is_unavailable(
    platform: Running, platform_database: Database, name: str
) -> None:
    """Without a head, and with one that the platform did not write: no internal error, and nothing is stored."""
    path = f"/api/v1/tenants/{WEB_SHOP}"
    before = platform.get(path, as_=OWNER).json()
    head, forged = fetch_row(platform_database, select(audit_head)), FORGED_HEADS[name]
    execute(platform_database, delete(audit_head) if forged is None else update(audit_head).values(forged))
    try:
        refused = platform.ask("PATCH", path, as_=OWNER, body=X)
        assert code(refused) == (503, "SERVICE_UNAVAILABLE")
        assert "audit verify" in refused.json()["error"]["hint"]
    finally:
        execute(platform_database, delete(audit_head))
        execute(platform_database, insert(audit_head).values(head))
    assert platform.get(path, as_=OWNER).json() == before
    until(lambda: platform.ask("PATCH", path, as_=OWNER, body={"displayName": before["displayName"]}).status == 200)
