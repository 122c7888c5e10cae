"""Every route for every kind of caller does what `matrix.txt` says, cell by cell."""

import http.client
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from service.authn import secret_format
from service.authz.route_policies import ROUTE_POLICIES
from service.catalogue.scopes import enforced_scopes
from tests.service.access import Iam
from tests.service.account import Key
from tests.service.clusters import Cluster, Workload
from tests.service.running import (
    ADMIN,
    AURORA,
    BOREALIS_OWNER,
    MEMBER,
    NEWSROOM,
    NOBODY,
    OUTSIDER,
    OWNER,
    VIEWER,
    WEB_SHOP,
    Running,
    tcp_address,
)

PEOPLE = {"owner": OWNER, "admin": ADMIN, "member": MEMBER, "viewer": VIEWER, "outsider": OUTSIDER}
SCOPES = [scope for scope in enforced_scopes() if scope != "*"]
# These end the session they are asked with.
ENDING = ("/api/v1/sessions/revoke-all", "/api/v1/sessions/current/end")
PLACES = {"{T}": WEB_SHOP, "{O}": AURORA, "{id}": NOBODY}
WRONG = {401, 429}  # of the same wrong key over and over, the later ones are not even looked at


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    method: str
    path: str
    people: dict[str, str]
    key: str
    workload: str
    foreign: str

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def asked(self) -> str:
        path = self.path
        for word, value in PLACES.items():
            path = path.replace(word, value)
        return path


@cache
def table() -> tuple[Row, ...]:
    lines = (Path(__file__).parent / "matrix.txt").read_text().splitlines()
    rows = []
    for line in lines:
        if line and not line.startswith("#"):
            method, path, *cells = line.split()
            rows.append(Row(method, path, dict(zip(PEOPLE, cells[:5], strict=True)), *cells[5:]))
    return tuple(rows)


class Network:
    """The platform as it is over TCP, on one connection that stays open."""

    def __init__(self, platform: Running) -> None:
        self.platform = platform
        self.connection = http.client.HTTPConnection(*tcp_address(platform), timeout=30)

    def status(self, row: Row, **headers: str) -> int:
        content = b"{}" if row.method in ("POST", "PATCH", "PUT") else None
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(row.method, row.asked, content, {"Content-Type": "application/json", **sent})
        answer = self.connection.getresponse()
        if answer.getheader("Content-Type", "").startswith("text/event-stream"):
            self.connection.close()  # It would never end.
        else:
            answer.read()
        return answer.status

    def as_person(self, row: Row, email: str) -> int:
        token = self.platform.token(email)
        status = self.status(row, Authorization=f"Bearer {token}")
        if row.path in ENDING:
            self.platform.tokens.pop(email)
        return status


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Running(None, "demo", "--listen", "127.0.0.1:0") as running:
        yield Network(running)


@pytest.fixture(scope="module")
def secrets(network: Network) -> dict[str, str]:
    """A key of the owner for each scope that is enforced, by scope."""
    return {scope: Key(network.platform, scope, rateLimit=60_000).secret for scope in SCOPES}


@pytest.fixture(scope="module")
def foreign(network: Network) -> str:
    return Key(network.platform, *SCOPES, person=BOREALIS_OWNER, tenant=NEWSROOM, rateLimit=60_000).secret


@pytest.fixture(scope="module")
def workload(network: Network) -> str:
    Iam(network.platform).binding("everything", [scope for scope in SCOPES if not scope.endswith("*")])
    cluster = Cluster(network.platform)
    assert cluster.register().status == 200
    return Workload(cluster, "tests", "everything").token


def outcome(status: int) -> str:
    return {403: "no", 401: "unknown", 429: "unknown"}.get(status, "yes")


def test_the_table_has_every_route_and_no_other() -> None:
    patterns = {
        (method, path): re.compile(re.sub(r"\\\{[a-z_]+\\\}", "[^/]+", re.escape(path)))
        for method, path in ROUTE_POLICIES
    }
    unmatched, seen = [], set()
    for row in table():
        found = [
            route
            for route, pattern in patterns.items()
            if route[0] == row.method and pattern.fullmatch(row.asked.partition("?")[0])
        ]
        # The most literal one is the one the platform takes.
        best = min(found, key=lambda route: route[1].count("{"), default=None)
        seen.add(best)
        if best is None:
            unmatched.append(row.name)
    assert unmatched == []
    assert set(ROUTE_POLICIES) - seen == set()
    assert len(table()) * (len(PEOPLE) + len(SCOPES) + 7) > 400


@pytest.mark.parametrize("row", table(), ids=lambda row: row.name)
def test_people(network: Network, row: Row) -> None:
    found = {name: network.as_person(row, email) for name, email in PEOPLE.items()}
    if "absent" in row.people.values():
        assert set(found.values()) == {404}
        assert set(row.people.values()) == {"absent"}
    else:
        assert {name: outcome(status) for name, status in found.items()} == row.people
        assert 500 not in found.values()


@pytest.mark.slow
@pytest.mark.parametrize("row", table(), ids=lambda row: row.name)
def test_keys_with_each_scope(network: Network, secrets: dict[str, str], row: Row) -> None:
    found = {scope: network.status(row, X_API_Key=secret) for scope, secret in secrets.items()}
    if row.key == "absent":
        assert set(found.values()) == {404}
        return
    passing = {scope for scope, status in found.items() if outcome(status) == "yes"}
    service = row.key.partition(":")[0]
    expected = {"open": set(SCOPES), "any": set(SCOPES), "never": set()}.get(row.key, {row.key, f"{service}:*"})
    assert passing == expected
    assert {found[scope] for scope in set(SCOPES) - passing} <= {403}


@pytest.mark.parametrize("row", table(), ids=lambda row: row.name)
def test_machines_of_other_places_and_kinds(network: Network, foreign: str, workload: str, row: Row) -> None:
    of_foreign = network.status(row, X_API_Key=foreign)
    of_workload = network.status(row, Authorization=f"Bearer {workload}")
    if row.key == "absent":
        assert (of_foreign, of_workload) == (404, 404)
    else:
        assert (outcome(of_foreign), outcome(of_workload)) == (row.foreign, row.workload)


@pytest.mark.parametrize("row", table(), ids=lambda row: row.name)
def test_credentials_that_are_none(network: Network, row: Row) -> None:
    platform = network.platform
    found = {
        "none": network.status(row),
        "expired": network.status(row, X_API_Key=platform.key("old-deploy")),
        "revoked": network.status(row, X_API_Key=platform.key("contractor-2025")),
        "unknown": network.status(row, X_API_Key=secret_format.mint()),
        "finer": network.status(row, X_API_Key=platform.key("start-stop-only")),
    }
    if row.key == "absent":
        assert set(found.values()) == {404}
    elif row.key == "open":
        assert not {401, 403} & set(found.values())
    else:
        assert found["none"] == 401
        assert {found["expired"], found["revoked"], found["unknown"]} <= WRONG
        assert found["finer"] == 403


def test_two_answers_to_a_stranger_are_the_same_words(network: Network) -> None:
    """What is refused to nobody says nothing about whether it is there."""
    bodies = set()
    for path in (f"/api/v1/tenants/{WEB_SHOP}", f"/api/v1/tenants/{NOBODY}"):
        network.connection.request("GET", path)
        bodies.add(json.dumps(json.loads(network.connection.getresponse().read())))
    assert len(bodies) == 1
