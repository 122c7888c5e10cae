"""Every route and kind of principal has the outcome of `matrix.txt`."""

import http.client
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from service.authn import secret_format
from service.authz.route_policies import ROUTE_POLICIES
from service.catalogue.operations import enforced_scopes
from tests.people import ADMIN, AURORA, BOREALIS_OWNER, MEMBER, NEWSROOM, OUTSIDER, OWNER, UNKNOWN_ID, VIEWER, WEB_SHOP
from tests.service.access import Iam, code
from tests.service.account import Key
from tests.service.clusters import Cluster, Workload
from tests.service.running import Running, ask_on, tcp_address

PEOPLE = {"owner": OWNER, "admin": ADMIN, "member": MEMBER, "viewer": VIEWER, "outsider": OUTSIDER}
SCOPES = [scope for scope in enforced_scopes() if scope != "*"]
# These end the session of their caller.
ENDING = ("/api/v1/sessions/revoke-all", "/api/v1/sessions/current/end")
PLACES = {"T": WEB_SHOP, "O": AURORA, "id": UNKNOWN_ID}
WRONG = {401, 429}  # after many invalid keys of an address, others are refused without a lookup


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
    def url(self) -> str:
        return self.path.format(**PLACES)


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

    def ask(self, row: Row, **headers: str) -> tuple[int, str | None]:
        """Return the status, and the code of a refusal in JSON."""
        content = b"{}" if row.method in ("POST", "PATCH", "PUT") else None
        sent = [(name.replace("_", "-"), value) for name, value in headers.items()]
        sent.append(("Content-Type", "application/json"))
        answer = ask_on(self.connection, row.method, row.url, sent, content)
        # The refusal of too many attempts has a body of its own.
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.status, code(answer)[1] if answer.status in (401, 403) and is_json else None

    def status(self, row: Row, **headers: str) -> int:
        return self.ask(row, **headers)[0]

    def as_person(self, row: Row, email: str) -> tuple[int, str | None]:
        token = self.platform.token(email)
        reply = self.ask(row, Authorization=f"Bearer {token}")
        if row.path in ENDING:
            self.platform.tokens.pop(email)
        return reply


@pytest.fixture(scope="module")
def network(network: Running) -> Network:
    return Network(network)


@pytest.fixture(scope="module")
def secrets(network: Network) -> dict[str, str]:
    """A key of the owner for each scope that is enforced, by scope."""
    return {scope: Key(network.platform, scope, rateLimit=60_000).secret for scope in SCOPES}


@pytest.fixture(scope="module")
def foreign(network: Network) -> str:
    return Key(network.platform, *SCOPES, person=BOREALIS_OWNER, tenant=NEWSROOM, rateLimit=60_000).secret


every_row = pytest.mark.parametrize("row", table(), ids=lambda row: row.name)


@pytest.fixture(scope="module")
def workload(network: Network) -> str:
    Iam(network.platform).binding("everything", [scope for scope in SCOPES if not scope.endswith("*")])
    cluster = Cluster(network.platform)
    assert cluster.register().status == 200
    return Workload(cluster, "tests", "everything").token


def code_of(row: Row, code: str) -> str | None:
    """Return the code of a refusal: none in the text of the decision point."""
    return None if row.path.startswith("/access/") else code


def stranger_code(row: Row) -> str | None:
    """Return the code for someone outside the organization."""
    return code_of(row, "PERMISSION_DENIED" if "{O}" in row.path else "TENANT_ACCESS_DENIED")


def outcome(status: int) -> str:
    return {403: "no", 401: "unknown", 429: "unknown"}.get(status, "yes")


def test_the_table_has_every_route_and_no_other() -> None:
    patterns = {
        (method, path): re.compile(re.sub(r"\\\{[a-z_]+\\\}", "[^/]+", re.escape(path)))
        for method, path in ROUTE_POLICIES
    }
    seen = set()
    for row in table():
        path = row.url.partition("?")[0]
        found = [route for route, pattern in patterns.items() if route[0] == row.method and pattern.fullmatch(path)]
        assert found, row.name
        # The most literal one is the one the platform takes.
        seen.add(min(found, key=lambda route: route[1].count("{")))
    assert set(ROUTE_POLICIES) == seen
    assert len(table()) * (len(PEOPLE) + len(SCOPES) + 7) > 400


@every_row
def test_people(network: Network, row: Row) -> None:
    found = {name: network.as_person(row, email) for name, email in PEOPLE.items()}
    statuses = {name: status for name, (status, _) in found.items()}
    if "absent" in row.people.values():
        assert set(statuses.values()) == {404}
        assert set(row.people.values()) == {"absent"}
        return
    assert {name: outcome(status) for name, status in statuses.items()} == row.people
    assert 500 not in statuses.values()
    of_role = "FORBIDDEN" if row.path.endswith("/apply") else "PERMISSION_DENIED"
    if "/resources/" in row.path or "/interactive/" in row.path:
        of_role = "INSUFFICIENT_PERMISSIONS"
    for name, (status, refusal) in found.items():
        if status == 403:
            assert refusal == (stranger_code(row) if name == "outsider" else code_of(row, of_role)), name


@pytest.mark.parametrize("row", [row for row in table() if row.key not in ("open", "absent")], ids=lambda row: row.name)
def test_a_key_needs_the_scope_of_the_route_and_no_other(network: Network, secrets: dict[str, str], row: Row) -> None:
    scopes = {"any": SCOPES, "never": []}.get(row.key, [row.key, f"{row.key.partition(':')[0]}:*"])
    for scope in scopes:
        assert outcome(network.status(row, X_API_Key=secrets[scope])) == "yes", scope
    if others := tuple(scope for scope in SCOPES if scope not in scopes):
        refused = network.ask(row, X_API_Key=key_with(network.platform, others))
        assert refused == (403, "SESSION_REQUIRED" if row.key == "never" else code_of(row, "INSUFFICIENT_SCOPE"))


@cache
def key_with(platform: Running, scopes: tuple[str, ...]) -> str:
    """Return the secret of a new key of the owner."""
    return Key(platform, *scopes, rateLimit=60_000).secret


@every_row
def test_other_credentials(network: Network, foreign: str, workload: str, row: Row) -> None:
    """Keys of other tenants, workloads, no credential and invalid ones."""
    platform = network.platform
    of_foreign, refusal = network.ask(row, X_API_Key=foreign)
    of_workload, code_of_workload = network.ask(row, Authorization=f"Bearer {workload}")
    none, finer = network.ask(row), network.ask(row, X_API_Key=platform.key("start-stop-only"))
    invalid = (platform.key("old-deploy"), platform.key("contractor-2025"), secret_format.mint())
    of_invalid = {network.status(row, X_API_Key=secret) for secret in invalid}
    if row.key == "absent":
        assert {of_foreign, of_workload, none[0], finer[0]} == {404}
        assert of_invalid <= {404, 429}
        return
    assert (outcome(of_foreign), outcome(of_workload)) == (row.foreign, row.workload)
    if row.key == "never":
        assert code_of_workload == "SESSION_REQUIRED"
    if of_foreign == 403:
        assert refusal == ("SESSION_REQUIRED" if row.key == "never" else stranger_code(row))
    if row.key == "open":
        assert not {401, 403} & {none[0], finer[0], *of_invalid}
    else:
        assert none == (401, code_of(row, "AUTHENTICATION_REQUIRED"))
        assert of_invalid <= WRONG
        assert finer == (403, "SESSION_REQUIRED" if row.key == "never" else code_of(row, "INSUFFICIENT_SCOPE"))
