"""On PostgreSQL a revocation commits before the decision about a change or after the change."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Executable, Update, delete, insert, select, text, update

from service.account import routes as account_routes
from service.authn import sessions as stored_sessions
from service.db import tables
from service.db.engine import Database
from service.db.revisions import lock_domains
from tests.people import ADMIN, AURORA, MEMBER, OWNER, WEB_SHOP
from tests.service.access import Iam, allow, code, deny
from tests.service.account import Key
from tests.service.clusters import Cluster, Workload
from tests.service.conftest import DemoUrl
from tests.service.held import SECONDS, SIGNED_OUT, InThisProcess, bearer
from tests.service.queries import execute, fetch, fetch_scalars, listening, user_id
from tests.service.running import Running
from tests.waiting import until

users, sessions, memberships = tables.users, tables.sessions, tables.memberships
INSTANCES = f"/api/v1/tenants/{WEB_SHOP}/resources/instance"
WAITING = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
CREATED = {"name": "raced", "region": "se-sto-1"}
RENAMED = {"name": "renamed"}
DENIED = (403, "INSUFFICIENT_PERMISSIONS")
Revocation = Callable[[InThisProcess], tuple[dict[str, str], list[Any]]]
"""Return the headers of a change, and the statements that revoke its authority."""


@pytest.fixture(scope="module")
def platform(demo_url: DemoUrl) -> Iterator[InThisProcess]:
    with InThisProcess(demo_url("postgresql")) as running:
        yield running


@pytest.fixture(scope="module")
def instance(platform: InThisProcess) -> str:
    return create(platform)


def create(platform: Running, path: str = INSTANCES) -> str:
    answer = platform.ask("POST", path, as_=OWNER, body=CREATED)
    assert answer.status == 201, answer
    return f"{path}/{answer.json()['id']}"


def role(person: str, name: str) -> Update:
    membership = (memberships.c.user_id == user_id(person)) & (memberships.c.organization_id == AURORA)
    return update(memberships).where(membership).values(role=name)


def of_session(person: str, statement: Executable) -> Revocation:
    return lambda platform: (bearer(platform.sign_in(person)), [statement])


def of_key(statement: Callable[[InThisProcess, Key], Executable]) -> Revocation:
    def revocation(platform: InThisProcess) -> tuple[dict[str, str], list[Any]]:
        key = Key(platform, "compute:*")
        return {"X-API-Key": key.secret}, [statement(platform, key)]

    return revocation


def revoked(_: InThisProcess, key: Key) -> Executable:
    keys = tables.api_keys.c
    return update(tables.api_keys).where(keys.id == key.id).values(revoked_at=keys.created_at)


def unbound(platform: InThisProcess) -> tuple[dict[str, str], list[Any]]:
    cluster = Cluster(platform)
    assert cluster.register().status == 200
    binding = Iam(platform).binding("raced", ["compute:write"])
    token = Workload(cluster, "tests", "raced").token
    return bearer(token), [
        delete(tables.workload_tokens).where(tables.workload_tokens.c.identity_id == binding),
        delete(tables.workload_identities).where(tables.workload_identities.c.id == binding),
    ]


def group_joined(platform: InThisProcess, key: Key) -> Executable:
    iam = Iam(platform)
    group = iam.group(f"joined {key.id}")
    assert iam.attach(iam.policy(f"of the group {key.id}", deny("*")), "group", group).status == 204
    row = {"group_id": group, "member_type": "api_key", "member_id": key.id, "tenant_id": WEB_SHOP}
    by = {"added_by": user_id(OWNER), "added_at": platform.platform.clock.now()}
    return insert(tables.group_members).values(row | by)


ENDED = update(sessions).where(sessions.c.user_id == user_id(ADMIN)).values(ended_at=sessions.c.started_at)
# One change for each kind of revision: `test_revisions.py` has the tables that increase them.
REVOCATIONS: dict[str, tuple[Revocation, tuple[int, str]]] = {
    "session ended": (of_session(ADMIN, ENDED), SIGNED_OUT),
    "role changed": (of_session(ADMIN, role(ADMIN, "viewer")), DENIED),
    "key revoked": (of_key(revoked), SIGNED_OUT),
    "unbound": (unbound, SIGNED_OUT),
    "group joined": (of_key(group_joined), DENIED),
}


class Revoked(NamedTuple):
    """The headers of a change, the statements that revoke its authority, and the refusal of later changes."""

    headers: dict[str, str]
    statements: list[Any]
    refusal: tuple[int, str]


@pytest.fixture(params=REVOCATIONS)
def change(request: pytest.FixtureRequest, platform: InThisProcess, restored: None) -> Revoked:
    revocation, refusal = REVOCATIONS[request.param]
    return Revoked(*revocation(platform), refusal)


@pytest.fixture
def database(platform_database: Database) -> Database:
    return platform_database


@pytest.fixture
def restored(platform: InThisProcess, database: Database) -> Iterator[None]:
    yield
    platform.tokens.clear()
    execute(database, role(ADMIN, "admin"), update(users).values(deleted_at=None))


def is_waiting(database: Database) -> bool:
    with database.read_committed() as connection:
        return bool(connection.scalar(WAITING))


@contextmanager
def stopped(database: Database, statement: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Stop the first transaction before a statement; yield the events of its arrival and its release."""
    arrived, released = threading.Event(), threading.Event()

    def stop(*executed: Any) -> None:
        if executed[2].startswith(statement) and not arrived.is_set():
            arrived.set()
            assert released.wait(SECONDS)

    with listening(database, stop):
        try:
            yield arrived, released
        finally:
            released.set()


def test_a_change_waits_for_a_revocation_that_commits(
    platform: InThisProcess, database: Database, instance: str, change: Revoked
) -> None:
    headers, statements, expected = change
    # The authority is in memory then.
    assert platform.ask("PATCH", instance, body=RENAMED, headers=headers).status == 200
    with ThreadPoolExecutor(1) as thread:
        with database.write() as connection:
            for statement in statements:
                connection.execute(statement)
            # Run the triggers of the commit.
            connection.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")
            answer = thread.submit(platform.ask, "PATCH", instance, body=RENAMED, headers=headers)
            until(lambda: answer.done() or bool(connection.scalar(WAITING)))
            assert not answer.done()
        assert code(answer.result()) == expected


def test_a_revocation_waits_for_a_change_that_is_decided(
    platform: InThisProcess, database: Database, instance: str, change: Revoked
) -> None:
    headers, statements, expected = change
    update_stopped = stopped(platform.platform.database, "UPDATE resources")
    with ThreadPoolExecutor(2) as threads, update_stopped as (arrived, released):
        answer = threads.submit(platform.ask, "PATCH", instance, body=RENAMED, headers=headers)
        assert arrived.wait(SECONDS), answer.result()
        revoking = threads.submit(execute, database, *statements)
        until(lambda: is_waiting(database))
        assert not revoking.done()
        # A later change does not overtake the revocation.
        late = platform.hold_change("PATCH", instance, headers, RENAMED)
        released.set()
        assert answer.result().status == 200
        revoking.result()
        assert code(late.finish()) == expected


@pytest.mark.parametrize("kind", ["instance", "kubernetes_cluster"])
def test_only_the_deletion_of_a_cluster_waits(platform: InThisProcess, database: Database, kind: str) -> None:
    """It ends the tokens of the workloads."""
    path = create(platform, INSTANCES.replace("instance", kind))
    with ThreadPoolExecutor(1) as thread:
        with database.write() as connection:
            lock_domains(connection, [AURORA], shared=True)
            answer = thread.submit(platform.ask, "DELETE", path, as_=OWNER)
            until(lambda: answer.done() or bool(connection.scalar(WAITING)))
            assert answer.done() == (kind == "instance")
        assert answer.result().status == 204


@pytest.mark.parametrize("by", ["the issuer", "an operator"])
@pytest.mark.usefixtures("restored")
def test_other_revocations_lock_the_person_before_rows(platform: InThisProcess, database: Database, by: str) -> None:
    platform.sign_in(MEMBER)
    [person, *_] = fetch_scalars(database, select(users.c.id).where(users.c.email == MEMBER))
    [session, *_] = fetch_scalars(database, select(sessions.c.id).where(sessions.c.user_id == person))
    if by == "an operator":
        with database.write() as connection:
            account_routes.mark_deleted(connection, person, platform.platform.clock.now())

    def revoke() -> None:
        if by == "an operator":
            body = {"email": MEMBER}
            assert platform.ask("POST", "/api/v1/platform/accounts/restore", body=body).status == 200
            return
        with platform.platform.database.write() as other:
            stored_sessions.end(other, person, session, reason="reuse", at=platform.platform.clock.now())

    with ThreadPoolExecutor(1) as thread:
        with database.write() as connection:
            lock_domains(connection, [person])
            revoking = thread.submit(revoke)
            until(lambda: revoking.done() or bool(connection.scalar(WAITING)))
            assert not revoking.done()
            connection.execute(update(users).where(users.c.id == person).values(name=users.c.name))
            connection.execute(update(sessions).where(sessions.c.id == session).values(end_reason="raced"))
        revoking.result()


@pytest.mark.usefixtures("restored")
def test_of_two_owners_who_leave_at_the_same_time_one_stays(platform: InThisProcess, database: Database) -> None:
    execute(database, role(ADMIN, "owner"))
    leaving: list[str] = []

    def pause(*executed: Any) -> None:
        """Stop the first deletion until the other one waits or has come as far."""
        if executed[2].startswith("UPDATE users SET deleted_at"):
            leaving.append(executed[2])
            until(lambda: len(leaving) > 1 or is_waiting(database))

    for person in (OWNER, ADMIN):
        platform.token(person)
    with listening(platform.platform.database, pause), ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda who: platform.ask("DELETE", "/api/v1/me", as_=who), (OWNER, ADMIN)))
    assert sorted(answer.status for answer in answers) == [200, 409]
    owners = (memberships.c.organization_id == AURORA) & (memberships.c.role == "owner") & users.c.deleted_at.is_(None)
    assert len(fetch(database, select(users.c.id).join(memberships).where(owners))) == 1


def test_changes_and_revocations_at_the_same_time_never_wait_in_a_circle(platform: InThisProcess) -> None:
    iam = Iam(platform)
    keys = [Key(platform, "compute:*", "organizations:*") for _ in range(4)]
    policy = iam.policy("busy", allow("*"))
    tokens = [platform.sign_in(OWNER) for _ in range(4)]

    def work(number: int) -> list[int]:
        key, token = keys[number], bearer(tokens[number])
        attachee = {"attacheeType": "api_key", "attacheeId": key.id}
        requests = [
            ("PATCH", f"/api/v1/tenants/{WEB_SHOP}", {"displayName": f"Shop {number}"}, {"X-API-Key": key.secret}),
            ("POST", f"{iam.base}/api-keys", {"name": "more", "scopes": ["compute:read"]}, token),
            ("POST", f"{iam.base}/iam/policies/{policy}/attachments", attachee, token),
            ("POST", INSTANCES, {"name": "busy", "region": "se-sto-1"}, {"X-API-Key": key.secret}),
            ("POST", f"/api/v1/organizations/{AURORA}/tenants", {"displayName": "New"}, token),
            ("POST", f"{iam.base}/quota-requests", {"resourceType": "vcpu", "limit": 1, "reason": "x"}, token),
            ("POST", f"{key.path}/revoke", None, token),
            ("POST", "/api/v1/sessions/revoke-all" if number == 3 else "/api/v1/sessions/current/end", None, token),
        ]
        answers = [platform.ask(method, path, body=body, headers=headers) for method, path, body, headers in requests]
        return [answer.status for answer in answers]

    with ThreadPoolExecutor(4) as threads:
        statuses = [status for some in threads.map(work, range(4)) for status in some]
    assert max(statuses) < 500, statuses
