"""Tenants and organizations that each kind of caller may enter, list and change, from a table of its own."""

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


def test_the_table_has_all_people_of_the_seed() -> None:
    assert set(PEOPLE) <= set(CALLERS)


@pytest.mark.parametrize(("path", "needs_scope"), [("", True), ("/operations", False)])
def test_reading_a_tenant(demo: Running, caller: str, path: str, needs_scope: bool) -> None:
    scoped = CALLERS[caller].reads_tenants or not needs_scope
    for tenant in TENANTS:
        answer = ask(demo, caller, "GET", f"/api/v1/tenants/{tenant}{path}")
        assert verdict(answer) == on_tenant(CALLERS[caller], tenant, scoped=scoped), tenant


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


@pytest.mark.parametrize(
    ("email", "path", "foreign", "message"),
    [
        (MEMBER, "/api/v1/tenants/{}/operations/x", NEWSROOM, "tenant access denied"),
        (BOREALIS_OWNER, "/api/v1/tenants/{}", WEB_SHOP, "tenant access denied"),
        (
            ADMIN,
            "/api/v1/organizations/{}/tenants",
            BOREALIS,
            "you do not have permission to perform this action on this organization",
        ),
    ],
)
def test_a_foreign_id_is_refused_in_the_words_of_an_unknown_one(
    demo: Running, email: str, path: str, foreign: str, message: str
) -> None:
    answers = [ask(demo, email, "GET", path.format(identifier)) for identifier in (foreign, NOBODY)]
    assert answers[0].body == answers[1].body
    assert [(answer.status, answer.json()["error"]["message"]) for answer in answers] == [(403, message)] * 2
