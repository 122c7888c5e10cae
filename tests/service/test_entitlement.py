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


def key(tenant: str, organization: str, *, reads: bool = False, writes: bool = False, manages: bool = True) -> Rights:
    """The rights of a key of one tenant."""
    only = frozenset({organization})
    return Rights(frozenset({tenant}), only, only if manages else frozenset(), reads, writes)


CALLERS: dict[str, Rights] = {
    OWNER: Rights(ALL, BOTH, ONLY_AURORA),
    ADMIN: Rights(OF_AURORA, ONLY_AURORA, ONLY_AURORA),
    MEMBER: Rights(OF_AURORA - {DATA_LAKE}, ONLY_AURORA),
    VIEWER: Rights(OF_AURORA, ONLY_AURORA),
    REGIONAL: Rights(OF_AURORA, ONLY_AURORA),
    BOREALIS_OWNER: Rights(OF_BOREALIS, ONLY_BOREALIS, ONLY_BOREALIS),
    OUTSIDER: Rights(),
    "key:tenant-reader": key(WEB_SHOP, AURORA, reads=True),
    "key:tenant-writer": key(WEB_SHOP, AURORA, writes=True),
    "key:terraform": key(WEB_SHOP, AURORA, reads=True, writes=True),
    "key:compute-all": key(WEB_SHOP, AURORA),
    "key:database-tunnel": key(WEB_SHOP, AURORA),
    "key:start-stop-only": Rights(calls=False),
    # Its creator has become a plain member.
    "key:former-admin": key(WEB_SHOP, AURORA, reads=True, writes=True, manages=False),
    "key:viewer-dashboard": key(WEB_SHOP, AURORA, manages=False),
    "key:notebook-reader": key(DATA_LAKE, AURORA, reads=True),
    # Its creator owns Aurora and is a plain member here.
    "key:newsroom-writer": key(NEWSROOM, BOREALIS, writes=True, manages=False),
    "key:newsroom-reader": key(NEWSROOM, BOREALIS, reads=True, manages=False),
}
TENANTS = (*sorted(ALL), NOBODY)
ORGANIZATIONS = (AURORA, BOREALIS, NOBODY)
NO_SCOPE, NO_PERMISSION = (403, "INSUFFICIENT_SCOPE"), (403, "PERMISSION_DENIED")
INVALID = (400, "INVALID_INPUT")


def ask(platform: Running, caller: str, method: str, path: str, body: Any = None) -> Answer:
    kind, _, name = caller.rpartition(":")
    return platform.ask(method, path, **({"key": name} if kind else {"as_": name}), body=body)


def outcome(answer: Answer) -> tuple[int, str | None]:
    document = json.loads(answer.body) if answer.body else {}
    return answer.status, (document.get("error") or document).get("code")


def on_tenant(rights: Rights, tenant: str, *, scoped: bool) -> tuple[int, str | None]:
    if not rights.calls or not scoped:
        return NO_SCOPE
    return (200, None) if tenant in rights.enters else (403, "TENANT_ACCESS_DENIED")


def organization_of(tenant: str) -> str:
    return AURORA if tenant in OF_AURORA else BOREALIS


@pytest.fixture(params=CALLERS)
def caller(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_table_has_all_people_of_the_seed() -> None:
    assert set(PEOPLE) <= set(CALLERS)


def test_reading_and_renaming_a_tenant(demo: Running, caller: str) -> None:
    rights = CALLERS[caller]
    for tenant in TENANTS:
        path = f"/api/v1/tenants/{tenant}"
        for end, scoped in (("", rights.reads_tenants), ("/operations", True)):
            answer = ask(demo, caller, "GET", path + end)
            assert outcome(answer) == on_tenant(rights, tenant, scoped=scoped), tenant
        # Nothing is changed where it is allowed: the body is refused, but only after the decision.
        expected = on_tenant(rights, tenant, scoped=rights.writes_tenants)
        if expected[0] == 200:
            expected = INVALID if organization_of(tenant) in rights.manages else NO_PERMISSION
        assert outcome(ask(demo, caller, "PATCH", path, {})) == expected, tenant


def test_listing_and_creating_tenants(demo: Running, caller: str) -> None:
    rights = CALLERS[caller]
    reads, writes = rights.calls and rights.reads_tenants, rights.calls and rights.writes_tenants
    answer = ask(demo, caller, "GET", "/api/v1/tenants")
    if reads:
        assert {tenant["id"] for tenant in answer.json()["tenants"]} == rights.enters
    else:
        assert outcome(answer) == NO_SCOPE
    for organization in ORGANIZATIONS:
        path = f"/api/v1/organizations/{organization}/tenants"
        listed, created = ask(demo, caller, "GET", path), ask(demo, caller, "POST", path, {})
        if reads and organization in rights.member_of:
            ids = {tenant["id"] for tenant in listed.json()["tenants"]}
            assert ids == {tenant for tenant in rights.enters if organization_of(tenant) == organization}
        else:
            assert outcome(listed) == (NO_PERMISSION if reads else NO_SCOPE)
        of_role = INVALID if organization in rights.manages else NO_PERMISSION
        assert outcome(created) == (of_role if writes else NO_SCOPE)


def test_organizations_and_me(demo: Running, caller: str) -> None:
    rights = CALLERS[caller]
    me, listed = ask(demo, caller, "GET", "/api/v1/me"), ask(demo, caller, "GET", "/api/v1/organizations")
    for answer, may_read in ((me, rights.calls), (listed, rights.calls and rights.reads_tenants)):
        if may_read:
            assert {seat["id"] for seat in answer.json()["organizations"]} == rights.member_of
        else:
            assert outcome(answer) == NO_SCOPE


def test_a_foreign_id_is_refused_in_the_words_of_an_unknown_one(demo: Running) -> None:
    of_organization = "you do not have permission to perform this action on this organization"
    for email, path, foreign, message in (
        (MEMBER, "/api/v1/tenants/{}/operations/x", NEWSROOM, "tenant access denied"),
        (BOREALIS_OWNER, "/api/v1/tenants/{}", WEB_SHOP, "tenant access denied"),
        (ADMIN, "/api/v1/organizations/{}/tenants", BOREALIS, of_organization),
    ):
        answers = [ask(demo, email, "GET", path.format(identifier)) for identifier in (foreign, NOBODY)]
        assert answers[0].body == answers[1].body
        assert [(answer.status, answer.json()["error"]["message"]) for answer in answers] == [(403, message)] * 2
