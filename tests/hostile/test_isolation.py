"""The isolation of tenants and organizations, generated from the table of routes."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from tests.hostile.callers import FOREIGN, PEOPLE, Callers, Route, routes, words
from tests.hostile.world import World
from tests.people import ADMIN, BOREALIS, BOREALIS_STAGING, NEWSROOM, OWNER, STAGING, UNKNOWN_ID, WEB_SHOP
from tests.service.running import Running

ROUTES = routes()
IN_TENANTS = [route for route in ROUTES if "tenant_id" in route.ids]
CALLERS = (*PEOPLE, "key", "workload")
# The demo world's first person belongs to both organizations.
IN_BOTH = ("owner", "owner of another")
PLANTED = {"target": "*", "role": "owner", "organizationId": BOREALIS, "isAdmin": True, "is_admin": "true"}
PLANTED |= {"tenantId": STAGING, "userId": "u", "scopes": ["*"], "asAuthor": False, "kind": "staff"}
PLANTED_HEADERS = [("X-Role", "owner"), ("X-User-Id", "u"), ("X-Forwarded-User", OWNER), ("X-Remote-User", "root")]
PLANTED_HEADERS += [("X-Organization-Id", BOREALIS), ("X-Is-Admin", "true")]


def mostly_slow(callers: Iterable[str], one: str) -> list[Any]:
    return [pytest.param(caller, marks=[] if caller == one else [pytest.mark.slow]) for caller in callers]


@pytest.fixture(scope="module")
def callers() -> Iterator[Callers]:
    with Running() as running:
        yield Callers(running)


def cost(inside: World, route: Route, headers: dict[str, str], path: str) -> tuple[int, bytes, list[str]]:
    inside.forget()
    answer = inside.ask(route.method, path, headers, route.body)
    return answer.status_code, answer.content, inside.without_leases()


def theirs(inside: World) -> dict[str, str]:
    """Ids of another organization's tenants, for everything a path can name."""
    other = inside.session("owner@borealis.example")

    def first(tenant: str, path: str, member: str) -> str:
        found = inside.get(f"/api/v1/tenants/{tenant}{path}", other).json()[member]
        return str(found[0]["id"])

    return FOREIGN | {
        "group_id": first(NEWSROOM, "/iam/groups", "groups"),
        "policy_id": first(NEWSROOM, "/iam/policies", "policies"),
        "binding_id": first(BOREALIS_STAGING, "/workload-identity/bindings", "bindings"),
        "operation_id": f"tenant-provision-{NEWSROOM}",
        "run_id": str(uuid4()),
    }


@pytest.mark.slow
def test_foreign_and_unknown_ids_need_the_same_statements(world: World) -> None:
    ids = theirs(world)
    credentials = {"admin": world.session(ADMIN), "key": world.key("terraform")}
    for headers in credentials.values():
        world.get("/api/v1/me", headers)
    named = [(route, name) for route in ROUTES for name in route.ids]
    statuses: Counter[int] = Counter()
    for (route, name), (caller, headers) in product(named, credentials.items()):
        if route.path.endswith("/events") and name != "tenant_id":
            continue
        unknown = cost(world, route, headers, route.at(**{name: str(uuid4())}))
        known = cost(world, route, headers, route.at(**{name: ids[name]}))
        if known != unknown:  # The first of all requests fills caches.
            unknown = cost(world, route, headers, route.at(**{name: str(uuid4())}))
        assert known == unknown, (route.name, name, caller)
        statuses[known[0]] += 1
    assert set(statuses) == {403, 404}
    assert statuses.total() > 200
    assert statuses[404] > 40  # found by a query, not only by a role


@pytest.mark.parametrize("caller", mostly_slow([one for one in CALLERS if one not in IN_BOTH], "outsider"))
def test_foreign_and_unknown_ids_get_the_same_answer(callers: Callers, caller: str) -> None:
    for route in ROUTES:
        for name in {"tenant_id", "organization_id"} & {*route.ids}:
            known = callers.ask(caller, route.method, route.at(**{name: FOREIGN[name]}), route.body)
            unknown = callers.ask(caller, route.method, route.at(**{name: str(uuid4())}), route.body)
            malformed = callers.ask(caller, route.method, route.at(**{name: FOREIGN[name]}), route.body and [])
            assert (known.status, known.body) == (unknown.status, unknown.body), (route.name, caller)
            assert (known.status, malformed.status) == (403, 403), (route.name, caller, known, malformed)


@pytest.mark.parametrize("caller", mostly_slow(CALLERS, "viewer"))
def test_no_query_header_or_body_decides(callers: Callers, caller: str) -> None:
    values = {name: value if isinstance(value, str) else json.dumps(value) for name, value in PLANTED.items()}
    count = 0
    for route in ROUTES:
        path = route.at()
        in_query = f"{path}{'&' if '?' in path else '?'}{urlencode(values)}"
        body = PLANTED | (route.body if isinstance(route.body, dict) else {})
        plain = callers.ask(caller, route.method, path, route.body)
        by_query = callers.ask(caller, route.method, in_query, route.body)
        by_header = callers.ask(caller, route.method, path, route.body, *PLANTED_HEADERS)
        by_body = callers.ask(caller, route.method, path, body)
        assert (by_query.status == 403) is (by_header.status == 403) is (plain.status == 403), (route.name, by_query)
        if plain.status == 403:
            assert words(plain) == words(by_query) == words(by_header), route.name
            assert words(by_body) in (words(plain), (400, "INVALID_INPUT")), (route.name, by_body)
        elif route.ignores_members:
            assert by_body.body == plain.body, route.name
        elif route.body is not None:
            assert words(by_body) == (400, "INVALID_INPUT"), (route.name, by_body)
        count += 4
    assert count > 300


@pytest.mark.slow
@pytest.mark.parametrize("caller", ["owner", "key", "workload"])
def test_a_request_that_names_two_tenants_is_refused_on_every_route(callers: Callers, caller: str) -> None:
    count = 0
    for route in IN_TENANTS:
        plain = callers.ask(caller, route.method, route.at(), None)
        for named in ((STAGING,), (UNKNOWN_ID,), ("x",), (WEB_SHOP, STAGING), (STAGING, WEB_SHOP), ("",)):
            headers = [("X-Tenant-Id", value) for value in named]
            answer = callers.ask(caller, route.method, route.at(), route.body, *headers)
            expected = words(plain) if plain.status == 403 else (403, "TENANT_ACCESS_DENIED")
            assert words(answer) == expected, (route.name, named, answer)
            count += 1
    assert count > 300


def test_another_tenant_is_refused_in_the_path_and_in_a_header(callers: Callers) -> None:
    for route, caller, headers in product(IN_TENANTS, ("key", "workload"), ((), (("X-Tenant-Id", STAGING),))):
        answer = callers.ask(caller, route.method, route.at(tenant_id=STAGING), route.body, *headers)
        assert answer.status == 403, (route.name, caller, headers, answer)
    # The owner may enter both tenants.
    for other in (STAGING, BOREALIS_STAGING, UNKNOWN_ID, "x"):
        answer = callers.ask("owner", "GET", f"/api/v1/tenants/{WEB_SHOP}", None, ("X-Tenant-Id", other))
        assert words(answer) == (403, "TENANT_ACCESS_DENIED"), other
    described = callers.platform.get("/api/openapi.json").json()["paths"]
    without = [route.name for route in ROUTES if route.body is None]
    assert [name for name in without if "requestBody" in described[name.split()[1]][name.split()[0].lower()]] == []
