"""Tenants and organizations that each kind of caller may enter, list and change, from a table of its own.

`test_matrix.py` has the roles and scopes of every route in one tenant.
"""

from typing import NamedTuple

import pytest

from tests import people as seed
from tests.api import Answer
from tests.people import AURORA, BOREALIS, DATA_LAKE, NEWSROOM, UNKNOWN_ID, WEB_SHOP
from tests.service.access import code
from tests.service.running import Running

OF_AURORA = frozenset({WEB_SHOP, DATA_LAKE, seed.STAGING, seed.SANDBOX})
OF_BOREALIS = frozenset({NEWSROOM, seed.BOREALIS_STAGING})
ALL = OF_AURORA | OF_BOREALIS
NO_PERMISSION, INVALID = (403, "PERMISSION_DENIED"), (400, "INVALID_INPUT")


class Rights(NamedTuple):
    """The tenants that a caller enters, and the organizations where the caller is owner or admin."""

    enters: frozenset[str] = frozenset()
    manages: frozenset[str] = frozenset()


CALLERS = {
    seed.OWNER: Rights(ALL, frozenset({AURORA})),
    seed.ADMIN: Rights(OF_AURORA, frozenset({AURORA})),
    seed.MEMBER: Rights(OF_AURORA - {DATA_LAKE}),
    seed.VIEWER: Rights(OF_AURORA),
    seed.REGIONAL: Rights(OF_AURORA),
    seed.BOREALIS_OWNER: Rights(OF_BOREALIS, frozenset({BOREALIS})),
    seed.OUTSIDER: Rights(),
    "terraform": Rights(frozenset({WEB_SHOP}), frozenset({AURORA})),
    # Its creator has become a plain member.
    "former-admin": Rights(frozenset({WEB_SHOP})),
    "notebook-reader": Rights(frozenset({DATA_LAKE})),
    # Its creator owns Aurora and is a plain member here.
    "newsroom-reader": Rights(frozenset({NEWSROOM})),
}


def organization_of(tenant: str) -> str:
    return AURORA if tenant in OF_AURORA else BOREALIS


def test_the_table_has_all_people_of_the_seed() -> None:
    assert set(seed.PEOPLE) <= set(CALLERS)


@pytest.mark.parametrize("caller", CALLERS)
def test_tenants_and_organizations_of_a_caller(demo: Running, caller: str) -> None:
    enters, manages = CALLERS[caller]

    def ask(method: str, path: str) -> Answer:
        credential = {"as_": caller} if "@" in caller else {"key": caller}
        return demo.ask(method, f"/api/v1/{path}", body={} if method in ("PATCH", "POST") else None, **credential)

    def check_change(method: str, path: str, organization: str) -> None:
        """Nothing is changed where it is allowed: the body is refused, but only after the decision."""
        if "@" in caller or caller in ("terraform", "former-admin"):
            assert code(ask(method, path)) == (INVALID if organization in manages else NO_PERMISSION), path

    for tenant in (*sorted(ALL), UNKNOWN_ID):
        path = f"tenants/{tenant}"
        if tenant in enters:
            assert [ask("GET", path).status, ask("GET", f"{path}/operations").status] == [200, 200]
            check_change("PATCH", path, organization_of(tenant))
        else:
            for end in ("", "/operations"):
                assert code(ask("GET", path + end)) == (403, "TENANT_ACCESS_DENIED"), tenant
    assert {one["id"] for one in ask("GET", "tenants").json()["tenants"]} == enters
    member_of = {organization_of(tenant) for tenant in enters}
    for organization in (AURORA, BOREALIS, UNKNOWN_ID):
        path = f"organizations/{organization}/tenants"
        if organization in member_of:
            ids = {tenant["id"] for tenant in ask("GET", path).json()["tenants"]}
            assert ids == {tenant for tenant in enters if organization_of(tenant) == organization}
        else:
            assert code(ask("GET", path)) == NO_PERMISSION
        check_change("POST", path, organization)
    for path in ("me", "organizations"):
        assert {seat["id"] for seat in ask("GET", path).json()["organizations"]} == member_of


def test_a_foreign_id_is_refused_in_the_words_of_an_unknown_one(demo: Running) -> None:
    of_organization = "you do not have permission to perform this action on this organization"
    for email, path, foreign, message in (
        (seed.MEMBER, "tenants/{}/operations/x", NEWSROOM, "tenant access denied"),
        (seed.BOREALIS_OWNER, "tenants/{}", WEB_SHOP, "tenant access denied"),
        (seed.ADMIN, "organizations/{}/tenants", BOREALIS, of_organization),
    ):
        answers = [demo.get(f"/api/v1/{path.format(identifier)}", as_=email) for identifier in (foreign, UNKNOWN_ID)]
        assert answers[0].body == answers[1].body
        assert [(answer.status, answer.json()["error"]["message"]) for answer in answers] == [(403, message)] * 2
