"""Scopes, roles and policies decide each operation on each resource and interactive session."""

from typing import Any

from sqlalchemy import select

from service.db.engine import Database
from service.db.tables import audit_log, resources
from tests.api import Answer
from tests.people import MEMBER, OWNER, REGIONAL, SANDBOX, STAGING, UNKNOWN_ID, VIEWER, WEB_SHOP
from tests.service.access import Iam, allow, code, deny, details
from tests.service.account import Key
from tests.service.queries import fetch, fetch_scalars
from tests.service.running import Running

INSTANCE = "8291a3dc-a168-4a92-abf8-e39f54334862"  # checkout-web-01, running, tags app=checkout tier=web
VOLUME = "c1751566-5cbd-489a-95e3-b4c26c3249a9"
DATABASE = "78fe8579-b371-45e3-b560-bdcf5a870ede"
DEFAULT_GROUP = "6594190f-555e-4fc9-8675-1bc47d648523"
ELSEWHERE = "1878eb0d-292e-4028-955b-7e7583b1e2a2"  # an instance of Staging
NEW = {"name": "made-here", "region": "se-sto-1"}


def kind(name: str, identifier: str = "", verb: str = "", tenant: str = WEB_SHOP) -> str:
    return "/".join(part for part in (f"/api/v1/tenants/{tenant}/resources/{name}", identifier, verb) if part)


def interactive(name: str) -> str:
    return f"/api/v1/tenants/{WEB_SHOP}/interactive/{name}"


def create(platform: Running, name: str = "instance", person: str = OWNER, **members: Any) -> dict[str, Any]:
    answer = platform.ask("POST", kind(name), as_=person, body=NEW | members)
    assert answer.status == 201, answer
    return dict(answer.json())


def test_compute_write_covers_every_mutation(platform: Running) -> None:
    key, one = Key(platform, "compute:write"), kind("instance", create(platform)["id"])
    for method, path, body, status in (
        ("POST", kind("instance"), NEW, 201),
        ("PATCH", one, {"name": "renamed", "tags": {"a": "b"}}, 200),
        *(("POST", f"{one}/{verb}", None, 200) for verb in ("stop", "start", "restart")),
        ("DELETE", one, None, 204),
    ):
        assert key.use(method, path, body).status == status, (method, path)


def test_an_interactive_session_is_opened_to_its_kind(platform: Running, platform_database: Database) -> None:
    def open_(name: str, resource: str, person: str = MEMBER) -> Answer:
        return platform.ask("POST", interactive(name), as_=person, body={"resourceId": resource})

    assert open_("shells", INSTANCE).json()["decision"] == "allowed"
    for name, resource in (("shells", DATABASE), ("cluster-proxies", INSTANCE), ("shells", ELSEWHERE), ("shells", "x")):
        assert code(open_(name, resource)) == (404, "NOT_FOUND")
    for resource in (INSTANCE, ELSEWHERE, "x"):
        assert code(open_("shells", resource, VIEWER)) == (403, "INSUFFICIENT_PERMISSIONS")
    narrowed, iam = Key(platform, "sessions:*"), Iam(platform)
    no_shells = iam.policy("no shells", allow("sessions:cluster-proxies:open"))
    assert iam.attach(no_shells, "api_key", narrowed.id).status == 204
    for resource in (INSTANCE, ELSEWHERE, "x"):
        answer = narrowed.use("POST", interactive("shells"), {"resourceId": resource})
        assert code(answer) == (403, "INSUFFICIENT_PERMISSIONS")
    query = select(audit_log).where(audit_log.c.operation == "interactive.open", audit_log.c.outcome == "done")
    entry = fetch(platform_database, query.order_by(audit_log.c.id))[-1]
    assert (entry.target, entry.details) == (f"instance:{INSTANCE}", {"operation": "sessions:shells:open"})


def test_conditions_of_a_role_are_decided_for_each_resource(platform: Running) -> None:
    here = {"region": "fi-hel-1"}
    dev, prod = {"tags": {"env": "dev"}}, {"tags": {"env": "prod"}}
    path = kind("instance", tenant=STAGING)

    def regional(method: str, path: str, body: Any = None) -> Answer:
        return platform.ask(method, path, as_=REGIONAL, body=body)

    mine = regional("POST", path, NEW | here | dev)
    assert mine.status == 201
    for other in (NEW | here | prod, NEW | here, NEW | dev):
        assert code(regional("POST", path, other)) == (403, "INSUFFICIENT_PERMISSIONS")
    assert regional("GET", f"{path}/{mine.json()['id']}").status == 200
    assert code(regional("GET", f"{path}/{ELSEWHERE}")) == (403, "INSUFFICIENT_PERMISSIONS")
    listed = regional("GET", f"{path}?limit=200").json()["resources"]
    assert {one["region"] for one in listed} == {"fi-hel-1"}
    assert len(listed) < len(platform.get(f"{path}?limit=200", as_=OWNER).json()["resources"])
    key = Key(platform, "compute:*", person=REGIONAL, tenant=STAGING)
    assert key.use("GET", f"{path}/{mine.json()['id']}").status == 200
    assert code(key.use("GET", f"{path}/{ELSEWHERE}")) == (403, "INSUFFICIENT_PERMISSIONS")


def test_a_policy_narrows_a_key_to_its_resources_and_a_deny_wins(platform: Running) -> None:
    iam, key = Iam(platform), Key(platform, "compute:*", "storage:*")
    narrow = iam.policy("narrow", allow("compute:*", targets=(f"frn:compute:*:*:instances/{INSTANCE}",)))
    iam.attach(narrow, "api_key", key.id)
    assert key.use("GET", kind("instance", INSTANCE)).status == 200
    assert [one["id"] for one in key.use("GET", kind("instance")).json()["resources"]] == [INSTANCE]
    other = create(platform)["id"]
    assert code(key.use("GET", kind("instance", other))) == (403, "INSUFFICIENT_PERMISSIONS")
    refused = key.use("GET", kind("volume", VOLUME))
    assert code(refused) == (403, "INSUFFICIENT_PERMISSIONS")
    assert refused.json()["error"]["required_permission"] == "storage:volumes:read"
    iam.attach(iam.policy("shut", deny("compute:instances:read")), "api_key", key.id)
    refused = key.use("GET", kind("instance", INSTANCE))
    assert details(refused) == {"reason": "explicit_deny"}
    finer = Key(platform, "compute:instances:read", "compute:start")  # scopes that no service enforces
    assert iam.attach(iam.policy("all", allow("*")), "api_key", finer.id).status == 204
    assert code(finer.use("GET", kind("instance", INSTANCE))) == (403, "INSUFFICIENT_SCOPE")


def test_absent_kinds_and_states_are_refused_and_empty_kinds_are_listed(platform: Running) -> None:
    absent = (UNKNOWN_ID, ELSEWHERE, VOLUME, "x" * 50)
    for path in (kind("spaceship"), *(kind("instance", identifier) for identifier in absent)):
        assert code(platform.get(path, as_=OWNER)) == (404, "NOT_FOUND")
    empty = platform.get(kind("instance", tenant=SANDBOX), as_=OWNER)
    assert (empty.status, empty.json()) == (200, {"resources": [], "nextCursor": ""})
    # States and the platform's own resources are respected.
    unsupported = platform.ask("POST", kind("volume", VOLUME, "start"), as_=OWNER)
    assert code(unsupported) == (400, "OPERATION_NOT_SUPPORTED")
    one = create(platform)["id"]
    assert code(platform.ask("POST", kind("instance", one, "start"), as_=OWNER)) == (409, "invalid_state")
    assert code(platform.ask("DELETE", kind("security_group", DEFAULT_GROUP), as_=OWNER)) == (409, "resource_in_use")
    assert platform.ask("POST", kind("database", DATABASE, "restart"), as_=OWNER).json()["state"] == "active"


def test_an_invalid_resource_is_refused_before_authorization(platform: Running) -> None:
    for members in (
        {"name": ""},
        {"region": "nowhere"},
        {"region": "*"},
        {"tags": {"": "x"}},
        {"tags": {"a\u202e": "x"}},
        {"tags": {str(number): "" for number in range(51)}},
        {"tenantId": STAGING},
        {"role": "owner"},
    ):
        answer = platform.ask("POST", kind("instance"), as_=OWNER, body=NEW | members)
        assert code(answer) == (400, "INVALID_INPUT"), members
    elsewhere = kind("instance", ELSEWHERE, tenant=STAGING)
    well_formed = platform.ask("PATCH", elsewhere, as_=REGIONAL, body={"tags": {"env": "dev"}})
    assert code(well_formed) == (403, "INSUFFICIENT_PERMISSIONS")
    for change in ({"tags": {"": "x"}}, {"tags": {"env": "p" * 256}}, {"name": "\n"}, {}):
        for person in (OWNER, REGIONAL):
            answer = platform.ask("PATCH", elsewhere, as_=person, body=change)
            assert code(answer) == (400, "INVALID_INPUT"), change


def test_pages_skip_hidden_resources_and_are_never_empty(platform: Running, platform_database: Database) -> None:
    iam = Iam(platform)
    key = Key(platform, "compute:read")
    policy = iam.policy(f"none {key.id}", allow("compute:*", targets=(f"frn:compute:*:*:instances/{UNKNOWN_ID}",)))
    iam.attach(policy, "api_key", key.id)
    path = kind("instance") + "?limit=5"
    assert code(key.use("GET", path)) == (403, "INSUFFICIENT_PERMISSIONS")
    here = (resources.c.tenant_id == WEB_SHOP, resources.c.kind == "instance")
    query = select(resources.c.id).where(*here).order_by(resources.c.created_at, resources.c.id)
    stored = fetch_scalars(platform_database, query)
    assert len(stored) > 40
    assert INSTANCE in stored
    pages = platform.pages(kind("instance") + "?limit=20", as_=OWNER)
    assert [one["id"] for page in pages for one in page["resources"]] == stored
    # One of the last page, then some of every page.
    for some in ([stored[-1]], [stored[0], *stored[20:32], stored[-1]]):
        targets = tuple(f"frn:compute:*:*:instances/{one}" for one in some)
        assert iam.edit(policy, allow("compute:*", targets=targets)).status == 200
        parts = [page["resources"] for page in platform.pages(path, headers={"X-API-Key": key.secret})]
        assert all(len(part) <= 5 for part in parts)
        assert all(parts)
        assert [one["id"] for part in parts for one in part] == some
    assert len(parts) == 3
