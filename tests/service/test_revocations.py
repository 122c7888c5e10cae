"""Each kind of revocation stops a held change: of a credential, membership, role, scope, policy or account."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import ScalarSelect, delete, insert, select, update

from service.db.tables import api_keys, membership_tenants, memberships, users
from tests.people import ADMIN, AURORA, MEMBER, OWNER, WEB_SHOP
from tests.service.access import Iam, allow, deny
from tests.service.account import Key
from tests.service.clusters import Cluster, Workload
from tests.service.conftest import KINDS, DemoUrl
from tests.service.held import SIGNED_OUT, Held, InThisProcess, bearer
from tests.service.queries import execute

INSTANCES = f"/api/v1/tenants/{WEB_SHOP}/resources/instance"
Hold = Callable[[dict[str, str]], Held]
"""Holds a change that is sent with the given headers."""


@pytest.fixture(scope="module", params=KINDS)
def platform(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[InThisProcess]:
    with InThisProcess(demo_url(request.param)) as running:
        yield running


@pytest.fixture(scope="module")
def instance(platform: InThisProcess) -> str:
    answer = platform.ask("POST", INSTANCES, as_=OWNER, body={"name": "held", "region": "se-sto-1"})
    assert answer.status == 201, answer
    return f"{INSTANCES}/{answer.json()['id']}"


@pytest.fixture(params=["held body", "before the change", "before the change, without a body"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def holding(platform: InThisProcess, way: str, path: str, body: dict[str, str], action: str) -> Hold:
    if way == "held body":
        return lambda headers: platform.hold_body("PATCH", path, headers, body)
    if way == "before the change":
        return lambda headers: platform.hold_change("PATCH", path, headers, body)
    return lambda headers: platform.hold_change("POST", f"{path}/{action}", headers)


@pytest.fixture
def hold(way: str, platform: InThisProcess, instance: str) -> Hold:
    return holding(platform, way, instance, {"name": "changed"}, "restart")


@pytest.fixture
def hold_managed(way: str, platform: InThisProcess) -> Hold:
    """Hold a change of a tenant.

    The routes of an instance check policies and roles once more for the instance; these routes leave it to `change`.
    """
    return holding(platform, way, f"/api/v1/tenants/{WEB_SHOP}", {"displayName": "New"}, "default-tags/apply")


def id_of(person: str) -> ScalarSelect[str]:
    return select(users.c.id).where(users.c.email == person).scalar_subquery()


SEAT = (memberships.c.user_id == id_of(ADMIN)) & (memberships.c.organization_id == AURORA)


def credential(platform: InThisProcess, by: str, scope: str, person: str = ADMIN) -> dict[str, str]:
    if by == "key":
        return {"X-API-Key": Key(platform, scope, person=person).secret}
    return bearer(platform.token(person))


@pytest.fixture
def restored(platform: InThisProcess) -> Iterator[None]:
    """Memberships are as before after the test."""
    with platform.platform.database.read() as connection:
        rows = [row._asdict() for row in connection.execute(select(memberships))]
        limits = [row._asdict() for row in connection.execute(select(membership_tenants))]
    yield
    execute(
        platform.platform.database, delete(membership_tenants), delete(memberships), insert(memberships).values(rows)
    )
    execute(platform.platform.database, insert(membership_tenants).values(limits))


@pytest.mark.parametrize("how", ["deleted", "scope", "expired"])
def test_a_deleted_expired_or_narrowed_key(platform: InThisProcess, hold: Hold, how: str) -> None:
    key = Key(platform, "compute:*")
    held = hold({"X-API-Key": key.secret})
    if how == "deleted":
        assert key.manage("DELETE").status == 204
    elif how == "scope":
        assert key.manage("PATCH", body={"scopes": ["compute:read"]}).status == 200
    else:
        now = platform.platform.clock.now()
        execute(platform.platform.database, update(api_keys).where(api_keys.c.id == key.id).values(expires_at=now))
    platform.require_refused(held, (403, "INSUFFICIENT_SCOPE") if how == "scope" else SIGNED_OUT)


@pytest.mark.parametrize("how", ["edited", "attached"])
def test_a_policy_that_narrows_a_key(platform: InThisProcess, hold_managed: Hold, how: str) -> None:
    key, iam = Key(platform, "organizations:*"), Iam(platform)
    policy = iam.policy("narrows", allow("*" if how == "edited" else "compute:instances:read"))
    if how == "edited":
        assert iam.attach(policy, "api_key", key.id).status == 204
    held = hold_managed({"X-API-Key": key.secret})
    if how == "edited":
        assert iam.edit(policy, allow("*"), deny("organizations:*")).status == 200
    else:
        assert iam.attach(policy, "api_key", key.id).status == 204
    platform.require_refused(held, (403, "INSUFFICIENT_PERMISSIONS"))


def test_a_person_who_ends_all_sessions(platform: InThisProcess, hold: Hold) -> None:
    held = hold(bearer(platform.sign_in(ADMIN)))
    platform.tokens.pop(ADMIN, None)
    assert platform.ask("POST", "/api/v1/sessions/revoke-all", as_=ADMIN).status == 200
    platform.tokens.pop(ADMIN)
    platform.require_refused(held, SIGNED_OUT)


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("by", ["person", "key"])
def test_a_weaker_role(platform: InThisProcess, hold_managed: Hold, way: str, by: str) -> None:
    held = hold_managed(credential(platform, by, "organizations:*"))
    execute(platform.platform.database, update(memberships).where(SEAT).values(role="viewer"))
    platform.require_refused(held, (403, "FORBIDDEN" if way.endswith("without a body") else "PERMISSION_DENIED"))


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("by", ["person", "key"])
def test_a_removed_membership(platform: InThisProcess, hold: Hold, by: str) -> None:
    held = hold(credential(platform, by, "compute:*"))
    execute(platform.platform.database, delete(memberships).where(SEAT))
    platform.require_refused(held, (403, "TENANT_ACCESS_DENIED"))


@pytest.mark.usefixtures("restored")
def test_a_membership_that_lost_the_tenant(platform: InThisProcess, hold: Hold) -> None:
    held = hold(bearer(platform.token(MEMBER)))
    seats = membership_tenants.c
    execute(
        platform.platform.database,
        delete(membership_tenants).where(seats.user_id == id_of(MEMBER), seats.tenant_id == WEB_SHOP),
    )
    platform.require_refused(held, (403, "TENANT_ACCESS_DENIED"))


@pytest.mark.parametrize("by", ["person", "key"])
def test_a_deleted_account(platform: InThisProcess, hold: Hold, by: str) -> None:
    held = hold(credential(platform, by, "compute:*", MEMBER))
    assert platform.ask("DELETE", "/api/v1/me", as_=MEMBER).status == 200
    platform.tokens.pop(MEMBER)
    try:
        platform.require_refused(held, SIGNED_OUT)
    finally:
        answer = platform.ask("POST", "/api/v1/platform/accounts/restore", body={"email": MEMBER})
        assert answer.status == 200


@pytest.mark.parametrize("how", ["deleted", "scopes", "issuer"])
def test_a_workload_identity_without_its_binding_or_scope(platform: InThisProcess, hold: Hold, how: str) -> None:
    cluster, iam = Cluster(platform), Iam(platform)
    assert cluster.register().status == 200
    binding = iam.binding(f"held-{how}", ["compute:write"])
    held = hold(bearer(Workload(cluster, "tests", f"held-{how}").token))
    if how == "deleted":
        answer = iam.ask("DELETE", f"/workload-identity/bindings/{binding}")
    elif how == "scopes":
        answer = iam.ask("PUT", f"/workload-identity/bindings/{binding}", {"scopes": ["compute:read"]})
    else:
        answer = platform.ask("DELETE", cluster.path, as_=OWNER)
    assert answer.status in (200, 204), answer
    platform.require_refused(held, (403, "INSUFFICIENT_SCOPE") if how == "scopes" else SIGNED_OUT)
    iam.ask("DELETE", f"/workload-identity/bindings/{binding}")


def test_a_change_that_is_still_allowed_is_made(platform: InThisProcess, hold: Hold) -> None:
    assert hold(bearer(platform.token(OWNER))).finish().status == 200
    assert hold({"X-API-Key": Key(platform, "compute:*").secret}).finish().status == 200
