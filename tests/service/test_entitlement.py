"""Who may do what: every route of tenants and accounts for every kind of caller, on both databases.

The table below is the contract written out; it shares nothing with the service's own table of rules.
"""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.homes import Answer
from tests.service.running import (
    ADMIN,
    AURORA,
    BOREALIS,
    BOREALIS_OWNER,
    BOREALIS_STAGING,
    DATA_LAKE,
    MEMBER,
    NEWSROOM,
    NOBODY,
    OUTSIDER,
    OWNER,
    PEOPLE,
    REGIONAL,
    SANDBOX,
    STAGING,
    VIEWER,
    WEB_SHOP,
    Running,
)

OF_AURORA = frozenset({WEB_SHOP, DATA_LAKE, STAGING, SANDBOX})
OF_BOREALIS = frozenset({NEWSROOM, BOREALIS_STAGING})
ALL = OF_AURORA | OF_BOREALIS


@dataclass(frozen=True)
class Rights:
    """What one caller may do, by the contract."""

    enters: frozenset[str] = frozenset()
    member_of: frozenset[str] = frozenset()
    manages: frozenset[str] = frozenset()
    """Organizations where the caller is owner or admin (for a key: its creator), and may change things."""
    reads_tenants: bool = True
    writes_tenants: bool = True
    calls: bool = True
    """False: not even the routes that need no scope."""


BOTH = frozenset({AURORA, BOREALIS})
ONLY_AURORA = frozenset({AURORA})
ONLY_BOREALIS = frozenset({BOREALIS})


def key(
    enters: str | None, organization: str, *, manages: bool, reads: bool, writes: bool, calls: bool = True
) -> Rights:
    return Rights(
        enters=frozenset({enters}) if enters else frozenset(),
        member_of=frozenset({organization}),
        manages=frozenset({organization}) if manages else frozenset(),
        reads_tenants=reads,
        writes_tenants=writes,
        calls=calls,
    )


CALLERS: dict[str, Rights] = {
    OWNER: Rights(ALL, BOTH, ONLY_AURORA),
    ADMIN: Rights(OF_AURORA, ONLY_AURORA, ONLY_AURORA),
    MEMBER: Rights(OF_AURORA - {DATA_LAKE}, ONLY_AURORA),
    VIEWER: Rights(OF_AURORA, ONLY_AURORA),
    REGIONAL: Rights(OF_AURORA, ONLY_AURORA),
    BOREALIS_OWNER: Rights(OF_BOREALIS, ONLY_BOREALIS, ONLY_BOREALIS),
    OUTSIDER: Rights(),
    "key:tenant-reader": key(WEB_SHOP, AURORA, manages=True, reads=True, writes=False),
    "key:tenant-writer": key(WEB_SHOP, AURORA, manages=True, reads=False, writes=True),
    "key:terraform": key(WEB_SHOP, AURORA, manages=True, reads=True, writes=True),
    "key:compute-all": key(WEB_SHOP, AURORA, manages=True, reads=False, writes=False),
    "key:database-tunnel": key(WEB_SHOP, AURORA, manages=True, reads=False, writes=False),
    "key:start-stop-only": key(WEB_SHOP, AURORA, manages=False, reads=False, writes=False, calls=False),
    # Made by somebody who has since become a plain member.
    "key:former-admin": key(WEB_SHOP, AURORA, manages=False, reads=True, writes=True),
    "key:viewer-dashboard": key(WEB_SHOP, AURORA, manages=False, reads=False, writes=False),
    "key:notebook-reader": key(DATA_LAKE, AURORA, manages=True, reads=True, writes=False),
    # Its creator owns Aurora and is a plain member here.
    "key:newsroom-writer": key(NEWSROOM, BOREALIS, manages=False, reads=False, writes=True),
    "key:newsroom-reader": key(NEWSROOM, BOREALIS, manages=False, reads=True, writes=False),
}
TENANTS = (*sorted(ALL), NOBODY)
ORGANIZATIONS = (AURORA, BOREALIS, NOBODY)


def ask(platform: Running, caller: str, method: str, path: str, body: Any = None) -> Answer:
    kind, _, name = caller.rpartition(":")
    return platform.ask(method, path, **({"key": name} if kind else {"as_": name}), body=body)


def verdict(answer: Answer) -> tuple[int, str | None]:
    document = json.loads(answer.body) if answer.body else {}
    return answer.status, (document.get("error") or document).get("code")


def on_tenant(rights: Rights, tenant: str, *, scoped: bool) -> tuple[int, str | None]:
    if not rights.calls or not scoped:
        return 403, "INSUFFICIENT_SCOPE"
    return (200, None) if tenant in rights.enters else (403, "TENANT_ACCESS_DENIED")


def organization_of(tenant: str) -> str:
    return AURORA if tenant in OF_AURORA else BOREALIS


@pytest.fixture(params=CALLERS)
def caller(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_everybody_of_the_world_is_in_the_table() -> None:
    assert set(PEOPLE) <= set(CALLERS)


def test_reading_one_tenant(demo: Running, caller: str) -> None:
    rights = CALLERS[caller]
    for tenant in TENANTS:
        answer = ask(demo, caller, "GET", f"/api/v1/tenants/{tenant}")
        assert verdict(answer) == on_tenant(rights, tenant, scoped=rights.reads_tenants), tenant


def test_reading_the_operations_of_a_tenant_needs_no_scope(demo: Running, caller: str) -> None:
    for tenant in TENANTS:
        answer = ask(demo, caller, "GET", f"/api/v1/tenants/{tenant}/operations")
        assert verdict(answer) == on_tenant(CALLERS[caller], tenant, scoped=True), tenant


def test_renaming_a_tenant(demo: Running, caller: str) -> None:
    rights = CALLERS[caller]
    for tenant in TENANTS:
        # Nothing is changed where it is allowed: the body is refused, but only after the decision.
        answer = ask(demo, caller, "PATCH", f"/api/v1/tenants/{tenant}", {})
        expected = on_tenant(rights, tenant, scoped=rights.writes_tenants)
        if expected[0] == 200:
            managed = organization_of(tenant) in rights.manages
            expected = (400, "INVALID_INPUT") if managed else (403, "PERMISSION_DENIED")
        assert verdict(answer) == expected, tenant


def test_listing_over_all_organizations(demo: Running, caller: str) -> None:
    rights = CALLERS[caller]
    answer = ask(demo, caller, "GET", "/api/v1/tenants")
    if not rights.calls or not rights.reads_tenants:
        assert verdict(answer) == (403, "INSUFFICIENT_SCOPE")
    else:
        assert {tenant["id"] for tenant in answer.json()["tenants"]} == rights.enters


def test_listing_and_creating_in_one_organization(demo: Running, caller: str) -> None:
    rights = CALLERS[caller]
    for organization in ORGANIZATIONS:
        path = f"/api/v1/organizations/{organization}/tenants"
        listed, created = ask(demo, caller, "GET", path), ask(demo, caller, "POST", path, {})
        inside = organization in rights.member_of
        if not rights.calls or not rights.reads_tenants:
            assert verdict(listed) == (403, "INSUFFICIENT_SCOPE")
        elif not inside:
            assert verdict(listed) == (403, "PERMISSION_DENIED")
        else:
            ids = {tenant["id"] for tenant in listed.json()["tenants"]}
            assert ids == {tenant for tenant in rights.enters if organization_of(tenant) == organization}
        if not rights.calls or not rights.writes_tenants:
            assert verdict(created) == (403, "INSUFFICIENT_SCOPE")
        else:
            managed = organization in rights.manages
            assert verdict(created) == ((400, "INVALID_INPUT") if managed else (403, "PERMISSION_DENIED"))


def test_organizations_and_me(demo: Running, caller: str) -> None:
    rights = CALLERS[caller]
    me, listed = ask(demo, caller, "GET", "/api/v1/me"), ask(demo, caller, "GET", "/api/v1/organizations")
    if not rights.calls:
        assert verdict(me) == verdict(listed) == (403, "INSUFFICIENT_SCOPE")
        return
    assert {seat["id"] for seat in me.json()["organizations"]} == rights.member_of
    if rights.reads_tenants:
        assert {seat["id"] for seat in listed.json()["organizations"]} == rights.member_of
    else:
        assert verdict(listed) == (403, "INSUFFICIENT_SCOPE")


@pytest.mark.parametrize("email", [MEMBER, OUTSIDER, BOREALIS_OWNER])
def test_anothers_tenant_and_nobodys_are_refused_in_the_same_words(demo: Running, email: str) -> None:
    foreign = NEWSROOM if email != BOREALIS_OWNER else WEB_SHOP
    for path in ("", "/operations", "/operations/x", "/events"):
        theirs = ask(demo, email, "GET", f"/api/v1/tenants/{foreign}{path}")
        nobodys = ask(demo, email, "GET", f"/api/v1/tenants/{NOBODY}{path}")
        assert (theirs.status, theirs.body) == (nobodys.status, nobodys.body)
    assert theirs.json()["error"]["message"] == "tenant access denied"


def test_anothers_organization_and_nobodys_are_refused_in_the_same_words(demo: Running) -> None:
    theirs = ask(demo, ADMIN, "GET", f"/api/v1/organizations/{BOREALIS}/tenants")
    nobodys = ask(demo, ADMIN, "GET", f"/api/v1/organizations/{NOBODY}/tenants")
    assert (theirs.status, theirs.body) == (nobodys.status, nobodys.body)
    message = theirs.json()["error"]["message"]
    assert message == "you do not have permission to perform this action on this organization"


SMUGGLED = {
    "target": WEB_SHOP,
    "role": "owner",
    "organizationId": AURORA,
    "tenantId": WEB_SHOP,
    "isAdmin": True,
    "userId": NOBODY,
    "limited": False,
}


@pytest.mark.parametrize("email", [MEMBER, VIEWER, OUTSIDER, BOREALIS_OWNER])
def test_no_body_and_no_query_changes_a_decision(demo: Running, email: str) -> None:
    query = "&".join(f"{name}={value}" for name, value in SMUGGLED.items())
    for method, path in [
        ("PATCH", f"/api/v1/tenants/{DATA_LAKE}"),
        ("POST", f"/api/v1/organizations/{AURORA}/tenants"),
        ("GET", f"/api/v1/tenants/{DATA_LAKE if email != VIEWER else NEWSROOM}"),
    ]:
        plain = ask(demo, email, method, path, {"displayName": "Mine"} if method != "GET" else None)
        smuggling = ask(
            demo, email, method, f"{path}?{query}", {"displayName": "Mine", **SMUGGLED} if method != "GET" else None
        )
        assert verdict(plain) == verdict(smuggling)
        assert plain.status == 403


@pytest.mark.parametrize("header", ["X-Tenant-Id", "X-Frost-Tenant", "X-Organization-Id", "X-User-Id", "X-Role"])
def test_no_header_changes_a_decision(demo: Running, header: str) -> None:
    for value in (WEB_SHOP, AURORA, "owner"):
        answer = demo.get(f"/api/v1/tenants/{STAGING}", key="tenant-reader", headers={header: value})
        assert verdict(answer) == (403, "TENANT_ACCESS_DENIED")
