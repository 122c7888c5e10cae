"""Each kind of revocation stops a held change: of a credential, membership, role, scope, policy or account."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import ColumnElement, delete, insert, select, update

from service.db.tables import api_keys, membership_tenants, memberships, users
from tests.service.access import Iam, allow, deny
from tests.service.account import Key
from tests.service.clusters import Cluster, Workload
from tests.service.conftest import DemoUrl
from tests.service.held import SIGNED_OUT, Held, InThisProcess, bearer
from tests.service.running import ADMIN, AURORA, MEMBER, OWNER, WEB_SHOP

INSTANCES = f"/api/v1/tenants/{WEB_SHOP}/resources/instance"
Hold = Callable[[dict[str, str]], Held]
"""Holds a change that is sent with the given headers."""


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def platform(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[InThisProcess]:
    with InThisProcess(demo_url(request.param)) as running:
        yield running


@pytest.fixture(scope="module")
def instance(platform: InThisProcess) -> str:
    """The path of an instance."""
    answer = platform.ask("POST", INSTANCES, as_=OWNER, body={"name": "held", "region": "se-sto-1"})
    assert answer.status == 201, answer
    return f"{INSTANCES}/{answer.json()['id']}"


@pytest.fixture(params=["held body", "before the change", "before the change, without a body"])
def hold(request: pytest.FixtureRequest, platform: InThisProcess, instance: str) -> Hold:
    if request.param == "held body":
        return lambda headers: platform.hold_body("PATCH", instance, headers, {"name": "changed"})
    if request.param == "before the change":
        return lambda headers: platform.hold_change("PATCH", instance, headers, {"name": "changed"})
    return lambda headers: platform.hold_change("POST", f"{instance}/restart", headers)


@pytest.fixture(params=["held body", "before the change", "before the change, without a body"])
def hold_managed(request: pytest.FixtureRequest, platform: InThisProcess) -> tuple[Hold, str]:
    """Hold a change of a tenant, and the code of its refusal for a missing role.

    The routes of an instance check policies and roles once more for the instance; these routes leave it to `change`.
    """
    tenant = f"/api/v1/tenants/{WEB_SHOP}"
    if request.param == "held body":
        return lambda headers: platform.hold_body("PATCH", tenant, headers, {"displayName": "New"}), "PERMISSION_DENIED"
    if request.param == "before the change":
        body = {"displayName": "New"}
        return lambda headers: platform.hold_change("PATCH", tenant, headers, body), "PERMISSION_DENIED"
    return lambda headers: platform.hold_change("POST", f"{tenant}/default-tags/apply", headers), "FORBIDDEN"


def seat(person: str) -> ColumnElement[bool]:
    """The condition of a person's membership."""
    of_person = memberships.c.user_id == select(users.c.id).where(users.c.email == person).scalar_subquery()
    return of_person & (memberships.c.organization_id == AURORA)


@pytest.fixture
def restored(platform: InThisProcess) -> Iterator[None]:
    """Memberships are as before after the test."""
    with platform.platform.database.read() as connection:
        rows = [row._asdict() for row in connection.execute(select(memberships))]
        limits = [row._asdict() for row in connection.execute(select(membership_tenants))]
    yield
    with platform.platform.database.write() as connection:
        connection.execute(delete(membership_tenants))
        connection.execute(delete(memberships))
        connection.execute(insert(memberships), rows)
        connection.execute(insert(membership_tenants), limits)


@pytest.mark.parametrize("how", ["deleted", "scope", "expired"])
def test_a_deleted_expired_or_narrowed_key(platform: InThisProcess, hold: Hold, how: str) -> None:
    key = Key(platform, "compute:*")
    held = hold({"X-API-Key": key.secret})
    if how == "deleted":
        assert key.manage("DELETE").status == 204
    elif how == "scope":
        assert key.manage("PATCH", body={"scopes": ["compute:read"]}).status == 200
    else:
        expired = update(api_keys).where(api_keys.c.id == key.id).values(expires_at=platform.platform.clock.now())
        with platform.platform.database.write() as connection:
            connection.execute(expired)
    platform.require_refused(held, (403, "INSUFFICIENT_SCOPE") if how == "scope" else SIGNED_OUT)


@pytest.mark.parametrize("how", ["edited", "attached"])
def test_a_policy_that_narrows_a_key(platform: InThisProcess, hold_managed: tuple[Hold, str], how: str) -> None:
    key, iam = Key(platform, "organizations:*"), Iam(platform)
    policy = iam.policy("narrows", allow("*" if how == "edited" else "compute:instances:read"))
    if how == "edited":
        assert iam.attach(policy, "api_key", key.id).status == 204
    held = hold_managed[0]({"X-API-Key": key.secret})
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
def test_a_weaker_role(platform: InThisProcess, hold_managed: tuple[Hold, str], by: str) -> None:
    key = Key(platform, "organizations:*", person=ADMIN)
    held = hold_managed[0](bearer(platform.token(ADMIN)) if by == "person" else {"X-API-Key": key.secret})
    with platform.platform.database.write() as connection:
        connection.execute(update(memberships).where(seat(ADMIN)).values(role="viewer"))
    platform.require_refused(held, (403, hold_managed[1]))


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("by", ["person", "key"])
def test_a_removed_membership(platform: InThisProcess, hold: Hold, by: str) -> None:
    key = Key(platform, "compute:*", person=ADMIN)
    held = hold(bearer(platform.token(ADMIN)) if by == "person" else {"X-API-Key": key.secret})
    with platform.platform.database.write() as connection:
        connection.execute(delete(memberships).where(seat(ADMIN)))
    platform.require_refused(held, (403, "TENANT_ACCESS_DENIED"))


@pytest.mark.usefixtures("restored")
def test_a_membership_that_lost_the_tenant(platform: InThisProcess, hold: Hold) -> None:
    held = hold(bearer(platform.token(MEMBER)))
    with platform.platform.database.write() as connection:
        of_member = select(users.c.id).where(users.c.email == MEMBER).scalar_subquery()
        connection.execute(
            delete(membership_tenants).where(
                membership_tenants.c.user_id == of_member, membership_tenants.c.tenant_id == WEB_SHOP
            )
        )
    platform.require_refused(held, (403, "TENANT_ACCESS_DENIED"))


@pytest.mark.parametrize("by", ["person", "key"])
def test_a_deleted_account(platform: InThisProcess, hold: Hold, by: str) -> None:
    key = Key(platform, "compute:*", person=MEMBER)
    held = hold(bearer(platform.token(MEMBER)) if by == "person" else {"X-API-Key": key.secret})
    assert platform.ask("DELETE", "/api/v1/me", as_=MEMBER).status == 200
    platform.tokens.pop(MEMBER)
    try:
        platform.require_refused(held, SIGNED_OUT)
    finally:
        body = {"email": MEMBER}
        assert platform.ask("POST", "/api/v1/platform/accounts/restore", body=body).status == 200


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
