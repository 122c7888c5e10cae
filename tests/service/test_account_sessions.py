"""Sessions listed and ended, accounts deleted and restored."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from sqlalchemy import delete, insert, select, update

from service.authn import sessions
from service.authn.sessions import Session
from service.db.engine import Database
from service.db.tables import api_keys, audit_log, memberships, users
from service.errors import ApiError
from service.principal import Principal
from tests.homes import Answer
from tests.service.access import Iam, allow, code, details
from tests.service.account import Key
from tests.service.audited import audited, full_log
from tests.service.conftest import KINDS, DemoUrl
from tests.service.issuing import NOW
from tests.service.issuing import OWNER as SOMEBODY
from tests.service.running import ADMIN, AURORA, BOREALIS_OWNER, MEMBER, OWNER, VIEWER, WEB_SHOP, Running

RESTORE = "/api/v1/platform/accounts/restore"


@pytest.fixture(params=KINDS)
def platform(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[Running]:
    """A platform for one test alone: people leave it."""
    with Running(demo_url(request.param)) as running:
        yield running


def with_token(platform: Running, token: str, method: str = "GET", path: str = "/api/v1/me") -> Answer:
    return platform.ask(method, path, headers={"Authorization": f"Bearer {token}"})


def restore(platform: Running, email: str) -> Answer:
    return platform.ask("POST", RESTORE, body={"email": email})


def delete_account(platform: Running, email: str) -> Answer:
    return platform.ask("DELETE", f"/api/v1/me?email={email}", as_=email)


def move_deletion(database: Database, email: str, **by: float) -> None:
    """As if the account had been deleted that much earlier."""
    with database.write() as connection:
        moved = datetime.now(UTC) - timedelta(**by)
        connection.execute(update(users).where(users.c.email == email).values(deleted_at=moved))


def test_active_sessions_are_listed_and_the_current_one_is_marked(platform: Running) -> None:
    listed = platform.get("/api/v1/sessions", as_=OWNER).json()["sessions"]
    devices = {one["device"] for one in listed}
    assert {"astrid-mbp (macOS)", "thinkpad-x1 (Fedora)", "build-host-3"} < devices
    assert not devices & {"borrowed-laptop", "old-mbp (macOS)", "jonas-desktop (Ubuntu)"}
    (current,) = [one for one in listed if one["current"]]
    assert current["id"] == platform.get("/api/v1/me", as_=OWNER).json()["credential"]["id"]
    assert current["place"] == "this machine"
    assert [one["lastSeenAt"] for one in listed] == sorted((one["lastSeenAt"] for one in listed), reverse=True)


def test_all_sessions_end_at_once_and_keys_go_on(platform: Running, platform_database: Database) -> None:
    first, second = platform.sign_in(OWNER), platform.sign_in(OWNER)
    other, key = platform.sign_in(ADMIN), Key(platform, "compute:read")
    open_sessions = len(with_token(platform, first, path="/api/v1/sessions").json()["sessions"])
    ended = with_token(platform, first, "POST", "/api/v1/sessions/revoke-all")
    assert ended.json() == {"ended": open_sessions}
    assert [with_token(platform, token).status for token in (first, second)] == [401, 401]
    assert with_token(platform, other).status == 200
    assert key.use().status == 200
    with platform_database.read() as connection:
        query = select(audit_log).where(audit_log.c.operation == "session.revoke_all")
        (entry,) = connection.execute(query)
    assert entry.details == {"sessions": open_sessions}


def test_refresh_tokens_and_open_sign_ins_end_with_the_sessions(platform: Running) -> None:
    def start() -> str:
        started = platform.form("/issuer/device_authorization", client_id="frost-cli")
        platform.form("/issuer/device/approve", user_code=started["user_code"], email=OWNER)
        return str(started["device_code"])

    def post(**fields: str) -> Answer:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return platform.request("POST", "/issuer/token", headers, urlencode(fields).encode())

    grant = "urn:ietf:params:oauth:grant-type:device_code"
    signed_in = post(grant_type=grant, device_code=start(), client_id="frost-cli").json()
    waiting = start()
    assert with_token(platform, signed_in["access_token"], "POST", "/api/v1/sessions/revoke-all").status == 200
    refresh = signed_in["refresh_token"]
    assert post(grant_type="refresh_token", refresh_token=refresh, client_id="frost-cli").status == 400
    assert post(grant_type=grant, device_code=waiting, client_id="frost-cli").status == 400


@pytest.mark.parametrize(
    ("claims", "accepted"),
    [
        ({"auth_time": -60}, False),
        ({"auth_time": -60, "iat": 60}, False),
        ({"auth_time": 0}, False),
        ({"auth_time": 60}, True),
        ({"auth_time": 60, "iat": 61}, True),
    ],
)
def test_an_outside_sign_in_from_before_starts_no_session_afterwards(
    database_url: str, claims: dict[str, int], accepted: bool
) -> None:
    """The session of an outside issuer may be one that this platform sees for the first time after everything ended."""
    database = audited(database_url)
    with database.write() as connection:
        connection.execute(insert(users).values(id="u", email=SOMEBODY, name="Somebody", created_at=NOW))
        sessions.end_all(connection, "u", reason="revoked_all", at=NOW)
        told = {name: int(NOW.timestamp()) + seconds for name, seconds in claims.items()}

        def seen() -> Session | None:
            return sessions.start_session_for_new_sign_in(
                connection,
                issuer="https://idp.example",
                sign_in_key="sid s 1",
                claims={"sub": "ext", "email": SOMEBODY, "email_verified": True, **told},
                signed_in_at=told["auth_time"],
                principal=Principal(kind="anonymous", request_id="r", peer_uid=None),
                location="",
                at=NOW + timedelta(minutes=2),
            )

        if accepted:
            assert seen() is not None
        else:
            with pytest.raises(ApiError) as refused:
                seen()
            assert (refused.value.status_code, refused.value.code) == (401, "REAUTHENTICATION_REQUIRED")
            assert 'max_age="120"' in (refused.value.headers or {})["WWW-Authenticate"]
    database.close()


def test_a_deleted_account_is_out_with_the_answer(platform: Running, platform_database: Database) -> None:
    token, key = platform.sign_in(VIEWER), Key(platform, "compute:read", person=VIEWER)
    answer = delete_account(platform, VIEWER).json()
    deleted = datetime.fromisoformat(answer["deletedAt"])
    assert datetime.fromisoformat(answer["restorableUntil"]) - deleted == timedelta(days=30)
    assert (with_token(platform, token).status, key.use().status) == (401, 401)
    assert platform.get("/api/v1/me", key="viewer-dashboard").status == 401
    with platform_database.read() as connection:
        (entry,) = connection.execute(select(audit_log).where(audit_log.c.operation == "account.delete"))
    assert entry.details["apiKeys"] >= 2
    assert entry.details["sessions"] >= 2


def test_the_address_of_another_person_deletes_nothing(platform: Running) -> None:
    answer = platform.ask("DELETE", f"/api/v1/me?email={OWNER}", as_=VIEWER)
    assert code(answer) == (400, "CONFIRMATION_MISMATCH")
    assert platform.get("/api/v1/me", as_=VIEWER).status == 200


def test_a_restored_account_has_its_roles_and_no_ended_credentials(
    platform: Running, platform_database: Database
) -> None:
    token, key = platform.sign_in(MEMBER), Key(platform, "compute:read", person=MEMBER)
    iam = Iam(platform)
    policy = iam.as_(MEMBER).policy("theirs", allow("compute:*"))
    assert delete_account(platform, MEMBER).status == 200
    assert iam.get(f"/iam/policies/{policy}")["orphaned"] is True
    restored = restore(platform, MEMBER)
    assert (restored.status, restored.json()["email"]) == (200, MEMBER)
    assert (with_token(platform, token).status, key.use().status) == (401, 401)
    platform.tokens.clear()
    assert platform.get(f"/api/v1/tenants/{WEB_SHOP}", as_=MEMBER).status == 200
    assert key.manage("GET").json()["status"] == "revoked"
    assert iam.get(f"/iam/policies/{policy}")["orphaned"] is False
    platform.ask("DELETE", "/api/v1/me", as_=MEMBER)
    with platform_database.write() as connection:
        member = select(users.c.id).where(users.c.email == MEMBER).scalar_subquery()
        connection.execute(delete(memberships).where(memberships.c.user_id == member))
    restore(platform, MEMBER)
    platform.tokens.clear()
    assert code(platform.get(f"/api/v1/tenants/{WEB_SHOP}", as_=MEMBER)) == (403, "TENANT_ACCESS_DENIED")


def test_policies_and_keys_of_a_deleted_account_permit_nothing(platform: Running) -> None:
    iam = Iam(platform)
    binding = iam.binding("orphan")
    policy = iam.as_(ADMIN).policy("of the admin", allow("compute:*"))
    assert iam.attach(policy, "workload_identity", binding).status == 204
    assert iam.decision("workload_identity", binding, "compute:instances:read")
    assert delete_account(platform, ADMIN).status == 200
    assert not iam.decision("workload_identity", binding, "compute:instances:read")
    assert platform.get("/api/v1/tenants", key="terraform").status == 401


@pytest.mark.parametrize(("days", "status"), [(29.999, 200), (30.001, 409), (31, 409)])
def test_a_deletion_is_reversed_until_day_30(
    platform: Running, platform_database: Database, days: float, status: int
) -> None:
    delete_account(platform, VIEWER)
    move_deletion(platform_database, VIEWER, days=days)
    answer = restore(platform, VIEWER)
    assert answer.status == status
    if status == 409:
        assert code(answer) == (409, "RESTORE_WINDOW_PASSED")
        platform.tokens.clear()
        assert platform.get("/api/v1/me", headers={"Authorization": "Bearer x.y.z"}).status == 401


def test_only_a_deleted_account_is_restored_and_only_by_staff(platform: Running) -> None:
    assert code(restore(platform, OWNER)) == (409, "ACCOUNT_NOT_DELETED")
    assert code(restore(platform, "nobody@aurora.example")) == (404, "NOT_FOUND")


def make_owner(database: Database, email: str) -> None:
    with database.write() as connection:
        person = select(users.c.id).where(users.c.email == email).scalar_subquery()
        connection.execute(update(memberships).where(memberships.c.user_id == person).values(role="owner"))


def test_the_last_owner_with_other_members_stays(platform: Running, platform_database: Database) -> None:
    refused = delete_account(platform, OWNER)
    assert code(refused) == (409, "LAST_OWNER")
    assert [one["name"] for one in details(refused)["organizations"]] == ["Aurora Labs"]
    assert platform.get("/api/v1/me", as_=OWNER).status == 200
    make_owner(platform_database, ADMIN)
    assert delete_account(platform, OWNER).status == 200
    # Now Jonas is the last one, and Astrid, deleted, does not count.
    assert code(delete_account(platform, ADMIN)) == (409, "LAST_OWNER")


def test_the_only_member_of_an_organization_may_leave_it(platform: Running, platform_database: Database) -> None:
    with platform_database.write() as connection:
        owner = select(users.c.id).where(users.c.email == BOREALIS_OWNER).scalar_subquery()
        connection.execute(
            delete(memberships).where(memberships.c.organization_id != AURORA, memberships.c.user_id != owner)
        )
    assert delete_account(platform, BOREALIS_OWNER).status == 200


def test_of_two_owners_who_leave_at_once_one_stays(platform: Running, platform_database: Database) -> None:
    make_owner(platform_database, ADMIN)
    for person in (OWNER, ADMIN):
        platform.token(person)
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda person: delete_account(platform, person).status, (OWNER, ADMIN)))
    assert sorted(answers) == [200, 409]


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/api/v1/me"), ("POST", "/api/v1/sessions/revoke-all")])
def test_nothing_ends_when_the_audit_log_cannot_be_written(
    platform: Running, platform_database: Database, method: str, path: str
) -> None:
    token = platform.sign_in(VIEWER)
    with full_log(platform_database):
        assert with_token(platform, token, method, path).status == 500
        assert with_token(platform, token).status == 200
    with platform_database.read() as connection:
        revoked = select(api_keys.c.id).join(users).where(users.c.email == VIEWER, api_keys.c.revoked_at.is_not(None))
        assert connection.execute(revoked).all() == []
