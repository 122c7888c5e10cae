"""On PostgreSQL a revocation happens before the decision about a change or after the change, never in between."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Update, delete, event, select, text, update

from service.db.engine import Database
from service.db.tables import (
    api_keys,
    membership_tenants,
    memberships,
    sessions,
    users,
    workload_identities,
    workload_tokens,
)
from tests.homes import Answer
from tests.service.access import Iam, code
from tests.service.account import Key
from tests.service.clusters import Cluster, Workload
from tests.service.held import InThisProcess
from tests.service.planned import until
from tests.service.running import ADMIN, AURORA, MEMBER, OWNER, WEB_SHOP

INSTANCES = f"/api/v1/tenants/{WEB_SHOP}/resources/instance"
WAITING = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
SIGNED_OUT = (401, "AUTHENTICATION_REQUIRED")


@pytest.fixture(scope="module")
def platform(new_database_url: Callable[[str, bool], str]) -> Iterator[InThisProcess]:
    with InThisProcess(new_database_url("postgresql", True)) as running:
        yield running


@pytest.fixture
def database(platform: InThisProcess) -> Iterator[Database]:
    opened = Database(platform.database_url)
    yield opened
    opened.close()


def user(email: str) -> Any:
    return select(users.c.id).where(users.c.email == email).scalar_subquery()


def ended(platform: InThisProcess) -> tuple[dict[str, str], list[Any]]:
    token = platform.sign_in(ADMIN)
    at = platform.platform.clock.now()
    return {"Authorization": f"Bearer {token}"}, [
        update(sessions).where(sessions.c.user_id == user(ADMIN)).values(ended_at=at)
    ]


def revoked(platform: InThisProcess) -> tuple[dict[str, str], list[Any]]:
    key, at = Key(platform, "compute:*"), platform.platform.clock.now()
    return {"X-API-Key": key.secret}, [update(api_keys).where(api_keys.c.id == key.id).values(revoked_at=at)]


def without_scope(platform: InThisProcess) -> tuple[dict[str, str], list[Any]]:
    key = Key(platform, "compute:*")
    return {"X-API-Key": key.secret}, [update(api_keys).where(api_keys.c.id == key.id).values(scopes=["dns:read"])]


def role_changed(platform: InThisProcess) -> tuple[dict[str, str], list[Any]]:
    return {"Authorization": f"Bearer {platform.sign_in(ADMIN)}"}, [role(ADMIN, "viewer")]


def key_of_changed_role(platform: InThisProcess) -> tuple[dict[str, str], list[Any]]:
    return {"X-API-Key": Key(platform, "compute:*", person=ADMIN).secret}, [role(ADMIN, "viewer")]


def tenant_taken(platform: InThisProcess) -> tuple[dict[str, str], list[Any]]:
    here = (membership_tenants.c.user_id == user(MEMBER)) & (membership_tenants.c.tenant_id == WEB_SHOP)
    return {"Authorization": f"Bearer {platform.sign_in(MEMBER)}"}, [delete(membership_tenants).where(here)]


def unbound(platform: InThisProcess) -> tuple[dict[str, str], list[Any]]:
    cluster = Cluster(platform)
    assert cluster.register().status == 200
    binding = Iam(platform).binding("raced", ["compute:write"])
    token = Workload(cluster, "tests", "raced").token
    return {"Authorization": f"Bearer {token}"}, [
        delete(workload_tokens).where(workload_tokens.c.identity_id == binding),
        delete(workload_identities).where(workload_identities.c.id == binding),
    ]


def account_deleted(platform: InThisProcess) -> tuple[dict[str, str], list[Any]]:
    at = platform.platform.clock.now()
    return {"Authorization": f"Bearer {platform.sign_in(ADMIN)}"}, [
        update(users).where(users.c.email == ADMIN).values(deleted_at=at)
    ]


def role(person: str, name: str) -> Update:
    seat = (memberships.c.user_id == user(person)) & (memberships.c.organization_id == AURORA)
    return update(memberships).where(seat).values(role=name)


@pytest.fixture
def restored(platform: InThisProcess, database: Database) -> Iterator[None]:
    yield
    platform.tokens.clear()
    with database.write() as connection:
        connection.execute(role(ADMIN, "admin"))
        connection.execute(update(users).values(deleted_at=None))
        limits = select(membership_tenants.c.user_id).where(membership_tenants.c.tenant_id == WEB_SHOP)
        if not connection.scalar(limits):
            member = connection.scalar(select(users.c.id).where(users.c.email == MEMBER))
            connection.execute(membership_tenants.insert().values(user_id=member, tenant_id=WEB_SHOP))


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("revocation", "expected"),
    [
        (ended, SIGNED_OUT),
        (revoked, SIGNED_OUT),
        (without_scope, (403, "INSUFFICIENT_SCOPE")),
        (role_changed, (403, "INSUFFICIENT_PERMISSIONS")),
        (key_of_changed_role, (403, "INSUFFICIENT_PERMISSIONS")),
        (tenant_taken, (403, "TENANT_ACCESS_DENIED")),
        (unbound, SIGNED_OUT),
        (account_deleted, SIGNED_OUT),
    ],
)
def test_a_change_waits_for_a_revocation_under_way_and_is_refused(
    platform: InThisProcess, database: Database, revocation: Callable[..., Any], expected: tuple[int, str]
) -> None:
    headers, statements = revocation(platform)
    body = {"name": "raced", "region": "se-sto-1"}
    with ThreadPoolExecutor(1) as thread:
        with database.write() as connection:
            for statement in statements:
                connection.execute(statement)
            answer = thread.submit(platform.ask, "POST", INSTANCES, body=body, headers=headers)
            until(lambda: answer.done() or bool(connection.scalar(WAITING)))
        assert code(answer.result()) == expected


@pytest.mark.usefixtures("restored")
def test_of_two_owners_who_leave_at_the_same_time_one_stays(platform: InThisProcess, database: Database) -> None:
    with database.write() as connection:
        connection.execute(role(ADMIN, "owner"))
    leaving: list[str] = []

    def pause(*executed: Any) -> None:
        """Stop the first one when it has found another owner, until the other one waits or has come as far."""
        if executed[2].startswith("UPDATE users SET deleted_at"):
            leaving.append(executed[2])
            with database.read_committed() as connection:
                until(lambda: len(leaving) > 1 or bool(connection.scalar(WAITING)))

    tokens = [platform.token(person) for person in (OWNER, ADMIN)]

    def leave(token: str) -> Answer:
        return platform.ask("DELETE", "/api/v1/me", headers={"Authorization": f"Bearer {token}"})

    engine = platform.platform.database.engine
    event.listen(engine, "before_cursor_execute", pause)
    try:
        with ThreadPoolExecutor(2) as threads:
            answers = list(threads.map(leave, tokens))
    finally:
        event.remove(engine, "before_cursor_execute", pause)
    assert sorted(answer.status for answer in answers) == [200, 409]
    with database.read() as connection:
        owners = (
            select(users.c.id)
            .join(memberships)
            .where(memberships.c.organization_id == AURORA, memberships.c.role == "owner", users.c.deleted_at.is_(None))
        )
        assert len(connection.execute(owners).all()) == 1


def test_changes_and_revocations_at_the_same_time_never_wait_in_a_circle(platform: InThisProcess) -> None:
    iam = Iam(platform)
    keys = [Key(platform, "compute:*", "organizations:*") for _ in range(4)]
    policy = iam.policy("busy", allow_all())
    tokens = [platform.sign_in(OWNER) for _ in range(4)]

    def work(number: int) -> list[int]:
        key, token = keys[number], {"Authorization": f"Bearer {tokens[number]}"}
        asked = [
            ("PATCH", f"/api/v1/tenants/{WEB_SHOP}", {"displayName": f"Shop {number}"}, {"X-API-Key": key.secret}),
            ("POST", f"{iam.base}/api-keys", {"name": "more", "scopes": ["compute:read"]}, token),
            ("POST", f"{iam.base}/iam/policies/{policy}/attachments", attached(key), token),
            ("POST", INSTANCES, {"name": "busy", "region": "se-sto-1"}, {"X-API-Key": key.secret}),
            ("POST", f"/api/v1/organizations/{AURORA}/tenants", {"displayName": "New"}, token),
            ("POST", f"{iam.base}/quota-requests", {"resourceType": "vcpu", "limit": 1, "reason": "x"}, token),
            ("POST", f"{key.path}/revoke", None, token),
            ("POST", "/api/v1/sessions/revoke-all" if number == 3 else "/api/v1/sessions/current/end", None, token),
        ]
        return [platform.ask(method, path, body=body, headers=headers).status for method, path, body, headers in asked]

    with ThreadPoolExecutor(4) as threads:
        statuses = [status for some in threads.map(work, range(4)) for status in some]
    assert max(statuses) < 500, statuses


def allow_all() -> dict[str, Any]:
    return {"name": "", "access": "allow", "operations": ["*"], "targets": ["*"]}


def attached(key: Key) -> dict[str, str]:
    return {"attacheeType": "api_key", "attacheeId": key.id}
