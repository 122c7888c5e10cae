"""Sessions listed and ended, accounts deleted and restored."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import delete, select, update

from client.models.analysis import ErrorDetails
from service.db.engine import Database
from service.db.tables import audit_log, memberships, users
from tests.api import DEVICE_GRANT, Answer
from tests.people import ADMIN, AURORA, BOREALIS_OWNER, MEMBER, OWNER, VIEWER, WEB_SHOP
from tests.service.access import Iam, allow, code, details
from tests.service.account import Key
from tests.service.conftest import KINDS, DemoUrl
from tests.service.queries import execute, fetch, user_id
from tests.service.running import Running

TENANT = f"/api/v1/tenants/{WEB_SHOP}"
END_ALL = "/api/v1/sessions/revoke-all"


@pytest.fixture(params=KINDS)
def platform(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[Running]:
    """A platform for one test alone: people leave it."""
    with Running(demo_url(request.param)) as running:
        yield running


def with_token(platform: Running, token: str, method: str = "GET", path: str = "/api/v1/me") -> Answer:
    return platform.request(method, path, token=token)


def restore(platform: Running, email: str) -> Answer:
    return platform.ask("POST", "/api/v1/platform/accounts/restore", body={"email": email})


def delete_account(platform: Running, email: str) -> Answer:
    return platform.ask("DELETE", f"/api/v1/me?email={email}", as_=email)


def details_of(database: Database, operation: str) -> dict[str, int]:
    """Return the details of the only audit entry of an operation that was done."""
    done = audit_log.c.operation == operation, audit_log.c.outcome == "done"
    [entry] = fetch(database, select(audit_log.c.details).where(*done))
    return dict(entry.details)


def test_sessions_are_listed_and_end_at_once_and_keys_go_on(platform: Running, platform_database: Database) -> None:
    def start() -> str:
        started = platform.form("/issuer/device_authorization", client_id="frost-cli")
        platform.form("/issuer/device/approve", user_code=started["user_code"], email=OWNER)
        return str(started["device_code"])

    def post(grant: str, **fields: str) -> Answer:
        return platform.post_form("/issuer/token", grant_type=grant, client_id="frost-cli", **fields)

    listed = platform.get("/api/v1/sessions", as_=OWNER).json()["sessions"]
    devices = {one["device"] for one in listed}
    assert {"astrid-mbp (macOS)", "thinkpad-x1 (Fedora)", "build-host-3"} < devices
    assert not devices & {"borrowed-laptop", "old-mbp (macOS)", "jonas-desktop (Ubuntu)"}
    (current,) = [one for one in listed if one["current"]]
    assert current["id"] == platform.get("/api/v1/me", as_=OWNER).json()["credential"]["id"]
    assert current["place"] == "this machine"
    assert [one["lastSeenAt"] for one in listed] == sorted((one["lastSeenAt"] for one in listed), reverse=True)
    signed_in, waiting = post(DEVICE_GRANT, device_code=start()).json(), start()
    first, second = signed_in["access_token"], platform.sign_in(OWNER)
    other, key = platform.sign_in(ADMIN), Key(platform, "compute:read")
    ended = {"ended": len(listed) + 2}
    assert with_token(platform, first, "POST", END_ALL).json() == ended
    assert [with_token(platform, token).status for token in (first, second, other)] == [401, 401, 200]
    assert key.use().status == 200
    assert details_of(platform_database, "session.revoke_all") == {"sessions": ended["ended"]}
    # Refresh tokens and open sign-ins end with the sessions.
    assert post("refresh_token", refresh_token=signed_in["refresh_token"]).status == 400
    assert post(DEVICE_GRANT, device_code=waiting).status == 400


def test_a_deletion_ends_credentials_and_is_reversed_until_day_30(
    platform: Running, platform_database: Database
) -> None:
    assert code(restore(platform, VIEWER)) == (409, "ACCOUNT_NOT_DELETED")
    assert code(restore(platform, "nobody@aurora.example")) == (404, "NOT_FOUND")
    answer = platform.ask("DELETE", f"/api/v1/me?email={OWNER}", as_=VIEWER)
    assert code(answer) == (400, "CONFIRMATION_MISMATCH")
    token, key = platform.sign_in(VIEWER), Key(platform, "compute:read", person=VIEWER)
    assert with_token(platform, token).status == 200
    times = delete_account(platform, VIEWER).json()
    deleted, until = (datetime.fromisoformat(times[name]) for name in ("deletedAt", "restorableUntil"))
    assert until - deleted == timedelta(days=30)
    assert (with_token(platform, token).status, key.use().status) == (401, 401)
    assert platform.get("/api/v1/me", key="viewer-dashboard").status == 401
    ended = details_of(platform_database, "account.delete")
    assert ended["apiKeys"] >= 2
    assert ended["sessions"] >= 2
    viewer = update(users).where(users.c.email == VIEWER)
    for days, status in ((29.999, 200), (30.001, 409)):
        execute(platform_database, viewer.values(deleted_at=datetime.now(UTC) - timedelta(days=days)))
        answer = restore(platform, VIEWER)
        assert answer.status == status
    assert code(answer) == (409, "RESTORE_WINDOW_PASSED")


def test_a_restored_account_has_its_roles_and_no_credentials(platform: Running, platform_database: Database) -> None:
    token, key = platform.sign_in(MEMBER), Key(platform, "compute:read", person=MEMBER)
    iam = Iam(platform)
    policy = iam.as_(MEMBER).policy("theirs", allow("compute:*"))
    assert delete_account(platform, MEMBER).status == 200
    assert iam.get(f"/iam/policies/{policy}")["orphaned"] is True
    restored = restore(platform, MEMBER)
    assert (restored.status, restored.json()["email"]) == (200, MEMBER)
    assert (with_token(platform, token).status, key.use().status) == (401, 401)
    platform.tokens.clear()
    assert platform.get(TENANT, as_=MEMBER).status == 200
    assert key.manage("GET").json()["status"] == "revoked"
    assert iam.get(f"/iam/policies/{policy}")["orphaned"] is False
    platform.ask("DELETE", "/api/v1/me", as_=MEMBER)
    execute(platform_database, delete(memberships).where(memberships.c.user_id == user_id(MEMBER)))
    restore(platform, MEMBER)
    platform.tokens.clear()
    assert code(platform.get(TENANT, as_=MEMBER)) == (403, "TENANT_ACCESS_DENIED")
    # Policies and keys of a deleted account permit nothing.
    binding = iam.binding("orphan")
    policy = iam.as_(ADMIN).policy("of the admin", allow("compute:*"))
    assert iam.attach(policy, "workload_identity", binding).status == 204
    assert iam.decision("workload_identity", binding, "compute:instances:read")
    assert delete_account(platform, ADMIN).status == 200
    assert not iam.decision("workload_identity", binding, "compute:instances:read")
    assert platform.get("/api/v1/tenants", key="terraform").status == 401


def test_the_last_owner_with_other_members_stays(platform: Running, platform_database: Database) -> None:
    refused = delete_account(platform, OWNER)
    assert code(refused) == (409, "LAST_OWNER")
    assert [one.name for one in ErrorDetails.read(details(refused)).organizations] == ["Aurora Labs"]
    assert platform.get("/api/v1/me", as_=OWNER).status == 200
    execute(platform_database, update(memberships).where(memberships.c.user_id == user_id(ADMIN)).values(role="owner"))
    assert delete_account(platform, OWNER).status == 200
    # The owner who was deleted does not count.
    assert code(delete_account(platform, ADMIN)) == (409, "LAST_OWNER")
    # The only member of an organization may leave it.
    others = memberships.c.organization_id != AURORA, memberships.c.user_id != user_id(BOREALIS_OWNER)
    execute(platform_database, delete(memberships).where(*others))
    assert delete_account(platform, BOREALIS_OWNER).status == 200
