"""Policies, history, attachments and their effect on the next request, on both databases."""

import json
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select

from service.db import tables
from service.db.engine import Database
from service.iam import policy_queries
from tests.people import ADMIN, MEMBER, OWNER, REGIONAL, STAGING, VIEWER, WEB_SHOP
from tests.service.access import IDENTITIES, KEYS, READ, Iam, allow, code, deny, details, document, document_text, trial
from tests.service.account import Key
from tests.service.queries import execute, fetch

TENANT = f"/api/v1/tenants/{WEB_SHOP}"
READING = allow(READ)
ADDRESS = {"frn:sourceIp": "10.*"}
NAMED = "/iam/policies?name=one%20of%20two"


def reads(key: Key) -> int:
    return key.use("GET", TENANT).status


@pytest.fixture
def key(iam: Iam) -> Key:
    """A new key of the owner that may read organizations."""
    return Key(iam.platform, "organizations:read")


def test_a_policy_is_stored_in_canonical_form_with_the_author_of_its_document(iam: Iam) -> None:
    sent = {"schemaVersion": "1", "rules": [{"targets": ["*"], "operations": ["compute:*"], "access": "allow"}]}
    answer = iam.ask("POST", "/iam/policies", {"name": "first", "document": sent})
    policy, path, admin = answer.json(), f"/iam/policies/{answer.json()['id']}", iam.as_(ADMIN)
    assert (answer.status, answer.headers["etag"], policy["version"]) == (201, '"1"', 1)
    assert policy["document"] == document(allow("compute:*"))
    assert list(policy["document"]["rules"][0]) == ["name", "access", "operations", "targets"]
    assert (policy["description"], policy["orphaned"], policy["author"]["email"]) == ("", False, iam.person)
    again = iam.ask("PATCH", path, {"document": sent})
    assert (iam.done(again), again.json(), iam.get(path)) == (False, policy, policy)
    # A change keeps the other members.
    renamed = admin.ask("PATCH", path, {"name": "second"}).json()
    assert (renamed["author"]["email"], renamed) == (iam.person, iam.get(path))
    described = iam.ask("PATCH", path, {"description": "d"}).json()
    edited = admin.ask("PATCH", path, {"document": document(READING)}).json()
    assert (edited["author"]["email"], edited) == (ADMIN, iam.get(path))
    assert [renamed["version"], described["version"], edited["version"]] == [2, 3, 4]
    assert (described["name"], described["document"]) == ("second", policy["document"])
    assert (edited["name"], edited["description"]) == ("second", "d")
    assert code(iam.ask("PATCH", path, {})) == (400, "INVALID_INPUT")


def test_policies_of_a_tenant_are_found_by_name_in_pages_of_their_own(iam: Iam) -> None:
    """The test of hostile requests names a policy on every route of another tenant."""
    policies = [iam.policy("one of two", READING) for _ in range(2)]
    iam.policy("one of three", READING)
    first = iam.get(f"{NAMED}&limit=1")
    second = iam.get(f"{NAMED}&limit=1&cursor={first['nextCursor']}")
    assert [one["id"] for page in (first, second) for one in page["policies"]] == policies
    assert second["nextCursor"] == ""
    for elsewhere in (iam.get("/iam/policies?name=One%20of%20two"), Iam(iam.platform, tenant=STAGING).get(NAMED)):
        assert elsewhere["policies"] == []
    assert code(iam.ask("GET", f"/iam/policies?limit=1&cursor={first['nextCursor']}")) == (400, "INVALID_CURSOR")
    for no_name in ("", "%00"):
        assert code(iam.ask("GET", f"/iam/policies?name={no_name}")) == (400, "INVALID_INPUT")
    similar = "/iam/policies?similarName="
    found = iam.get(f"{similar}ONE%20of%C2%A0two&limit=1")
    rest = iam.get(f"{similar}ONE%20of%C2%A0two&limit=1&cursor={found['nextCursor']}")
    assert [one["id"] for page in (found, rest) for one in page["policies"]] == policies
    assert iam.get(f"{similar}absent")["policies"] == []
    assert code(iam.ask("GET", f"{similar}a&name=a")) == (400, "INVALID_INPUT")
    answers = [iam.ask("GET", f"/iam/policies/{policies[0]}/versions/{version}") for version in ("2", "x")]
    for answer in (*answers, iam.attach(policies[0], "workload_identity", "x")):
        assert (answer.status, answer.body) == (404, b'{"code":"NOT_FOUND","message":"resource not found"}')


def test_the_names_that_are_compared_are_limited_and_do_not_hide_an_equal_name(
    iam: Iam, demo_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = f"zz {uuid4()}"
    for spelling in ("AA first", called, called.upper()):
        iam.policy(spelling, READING)
    with demo_database.read() as connection:
        assert set(policy_queries.similar_names(connection, WEB_SHOP, called)) == {called, called.upper()}
        monkeypatch.setattr(policy_queries, "MAX_COMPARED_NAMES", 1)
        assert policy_queries.similar_names(connection, WEB_SHOP, called) == [called]


INVALID: list[tuple[Any, str, str]] = [
    ({"rules": [READING]}, "$", "schemaVersion is missing"),
    (document(allow("compute:instnaces:read")), "$.rules[0].operations[0]", "matches no operation"),
    (document(allow("*", like=ADDRESS)), '$.rules[0].constraints.like["frn:sourceIp"]', "ipInRange"),
    ("text", "$", "must be an object"),
    (document(*[READING] * 501), "$.rules[500]", "501 rules are too many: at most 500"),
]
INVALID_BODIES = [
    *(b'{"name":"p","name":"q","document":{}}', b'{"name":"p","document":{},"document":{}}', b"", b"\xff\xfe{}"),
    *(b'{"name":"p","document":{}} x', b'{"name":NaN,"document":{}}', b'["name","document"]', b'{"name":"p"}'),
    *(b'{"name":"p" "document":{}}', b'{"name":5,"document":{}}', b'{"document":{"schemaVersion":"1"}}'),
    b'{"name":"p","document":' + b"[" * 100_000,
]


def test_an_invalid_document_or_body_around_it_is_refused_with_the_place(iam: Iam) -> None:
    for sent, path, reason in INVALID:
        for answer in (
            iam.ask("POST", "/iam/policies", {"name": "p", "document": sent}),
            iam.ask("POST", "/iam/check", {"documentText": json.dumps(sent)}),
            iam.ask("POST", "/iam/coverage", {"documentText": json.dumps(sent)}),
            iam.ask("POST", "/iam/simulate", trial() | {"documentText": json.dumps(sent)}),
        ):
            assert code(answer) == (400, "INVALID_POLICY_DOCUMENT")
            problem = details(answer)["problems"][0]
            assert problem["path"] == path
            assert reason in problem["reason"]
    # The place is that in the document as it was typed.
    text = '{\n  "schemaVersion": "1",\n  "rules": [\n    {"access": "deny", "access": "allow"}\n  ]\n}'
    answer = iam.raw("POST", "/iam/policies", f'{{"name": "p",   "document":  {text}, "description": ""}}'.encode())
    assert code(answer) == (400, "INVALID_POLICY_DOCUMENT")
    places = [(problem["path"], problem["line"], problem["column"]) for problem in details(answer)["problems"]]
    assert ("$.rules[0].access", 4, 24) in places
    for body in INVALID_BODIES:
        assert iam.raw("POST", "/iam/policies", body).status == 400, body[:80]


def test_a_draft_beyond_its_author_is_refused_with_a_counterexample(iam: Iam) -> None:
    stored = iam.get("/iam/policies?limit=200")
    for person, rule in (
        *((VIEWER, allow(operation)) for operation in ("*:*:*", "compute:instances:*", "compute:instances:delete")),
        (VIEWER, allow("compute:*:read", "storage:*:read")),
        (REGIONAL, READING),
        (REGIONAL, allow("compute:instances:read", equals={"frn:region": "fi-hel-1"})),
        (MEMBER, allow("organizations:tenants:update")),
        (ADMIN, allow("*")),
    ):
        author = iam.as_(person)
        answer = author.create("p", rule)
        assert code(answer) == (403, "POLICY_EXCEEDS_AUTHOR"), (person, rule)
        assert 1 <= len(details(answer)["counterexamples"]) <= 5
        example = details(answer)["counterexamples"][0]
        # The draft allows it, and the same draft within its author does not.
        facts = {"currentTime": None} | example["facts"]
        body = trial(rule, operation=example["operation"], target=example["target"], **facts)
        assert author.ask("POST", "/iam/simulate", body).json()["decision"] == "allowed"
        capped = author.ask("POST", "/iam/simulate", body | {"asAuthor": True}).json()
        assert (capped["decision"], capped["asAuthor"], capped["rules"][0]["withinAuthor"]) == ("denied", True, False)
    assert example["deniedBy"]["policyName"] == "Admin"
    assert iam.get("/iam/policies?limit=200") == stored
    # Every role writes policies within its own rights.
    own = {"equals": {"frn:region": "fi-hel-1", "frn:resourceTag/env": "dev"}}
    for person, rule in (
        *((VIEWER, allow("compute:*:read")), (VIEWER, deny("*")), (OWNER, allow("*"))),
        *((REGIONAL, allow("compute:instances:*", **own)), (MEMBER, allow("compute:*", "iam:*"))),
    ):
        author = iam.as_(person)
        assert author.create("p", rule).status == 201, (person, rule)
        check = author.ask("POST", "/iam/check", {"documentText": document_text(rule)}).json()
        assert (check["answer"], check["counterexamples"]) == ("within", [])


def test_a_stale_write_names_the_later_changes(iam: Iam) -> None:
    policy = iam.policy("p", READING)
    path = f"/iam/policies/{policy}"
    iam.ask("PATCH", path, {"name": "q"})
    iam.as_(ADMIN).edit(policy, allow("compute:*:read"))
    for method, end, body in (
        ("PATCH", "", {"name": "r"}),
        ("DELETE", "", None),
        ("POST", "/rollback", {"version": 1}),
    ):
        answer = iam.ask(method, path + end, body, if_match='"1"')
        assert code(answer) == (412, "STALE_VERSION")
        stale = details(answer)
        assert (stale["expected"], stale["current"], stale["changed"]) == (1, 3, ["document", "name"])
        assert [one["changedByName"] for one in stale["versions"]] == ["Astrid Lindqvist", "Jonas Berg"]
    assert iam.get(path)["name"] == "q"
    assert iam.ask("PATCH", path, {"name": "r"}, if_match='"3"').status == 200


def test_a_policy_has_a_history_and_can_be_rolled_back(iam: Iam) -> None:
    policy = iam.policy("p", READING)
    path = f"/iam/policies/{policy}"
    iam.edit(policy, allow("compute:*"))
    iam.ask("PATCH", path, {"name": "q"})
    back = iam.ask("POST", f"{path}/rollback", {"version": 1})
    assert iam.done(back) is True
    assert (back.json()["version"], back.json()["name"]) == (4, "q")
    assert back.json()["document"] == document(READING)
    assert iam.done(iam.ask("POST", f"{path}/rollback", {"version": 4})) is False
    history = iam.get(f"{path}/versions")["versions"]
    assert [(one["version"], one["change"], one["changed"]) for one in history] == [
        *((4, "rollback", ["document"]), (3, "update", ["name"]), (2, "update", ["document"])),
        (1, "create", ["document", "name"]),
    ]
    assert history[0]["rolledBackTo"] == 1
    assert iam.get(f"{path}/versions/2")["document"] == document(allow("compute:*"))
    page = iam.get(f"{path}/versions?limit=3")
    rest = iam.get(f"{path}/versions?limit=3&cursor={page['nextCursor']}")
    assert [one["version"] for one in page["versions"] + rest["versions"]] == [4, 3, 2, 1]
    assert rest["nextCursor"] == ""


def test_attachments_are_listed_filtered_and_removed_once(iam: Iam, demo_database: Database) -> None:
    policy, group = iam.policy("p", allow("organizations:*")), iam.group(f"g {uuid4()}")
    identity = ("workload_identity", IDENTITIES["not-granted-yet"])
    attachees = [("api_key", KEYS["tenant-writer"]), identity, ("group", group)]
    for attachee in attachees:
        assert [iam.done(iam.attach(policy, *attachee)) for _ in range(2)] == [True, False]
    path = f"/iam/policies/{policy}/attachments"
    listed = iam.get(path)["attachments"]
    assert [(one["attacheeType"], one["attacheeId"]) for one in listed] == attachees
    assert listed[0]["attacheeName"] == "tenant-writer"
    filtered = iam.get(f"{path}?attacheeType=group&attacheeId={group}")
    assert ([one["attacheeId"] for one in filtered["attachments"]], filtered["nextCursor"]) == ([group], "")
    assert iam.get(f"{path}?attacheeType=group&attacheeId={uuid4()}")["attachments"] == []
    for query in (f"attacheeId={group}", "attacheeType=group"):
        assert code(iam.ask("GET", f"{path}?{query}")) == (400, "INVALID_INPUT")
    of_group = iam.get(f"/iam/policies?attacheeType=group&attacheeId={group}")["policies"]
    assert [one["id"] for one in of_group] == [policy]
    assert iam.detach(policy, *attachees[0]).status == 204
    assert code(iam.detach(policy, *attachees[0])) == (404, "NOT_FOUND")
    for kind in ("user", "API_KEY", "policy", ""):
        for answer in (iam.attach(policy, kind, KEYS["terraform"]), iam.detach(policy, kind, KEYS["terraform"])):
            assert details(answer)["known"] == ["api_key", "workload_identity", "group"]
    # A deletion takes the attachments and the history.
    assert iam.ask("DELETE", f"/iam/policies/{policy}").status == 204
    assert code(iam.ask("GET", path)) == (404, "NOT_FOUND")
    for table in (tables.policy_attachments, tables.policy_versions):
        assert fetch(demo_database, select(table).where(table.c.policy_id == policy)) == []
    assert iam.get(f"/iam/groups/{group}")["policyCount"] == 0


def test_a_policy_counts_from_the_next_request_until_its_last_path_is_detached(iam: Iam, key: Key) -> None:
    other = Key(iam.platform, "organizations:read")
    policy, group = iam.policy("shut", deny("organizations:*")), iam.group(f"g {uuid4()}")
    iam.add(group, "api_key", key.id)
    assert reads(key) == 200
    paths = (("group", group), ("api_key", key.id))
    for path in paths:
        assert iam.attach(policy, *path).status == 204
        assert (reads(key), reads(other)) == (403, 200)
    (held,) = iam.access("api_key", key.id)["policies"]
    assert [path["type"] for path in held["paths"]] == ["direct", "group"]
    for path, status in zip(reversed(paths), (403, 200), strict=True):
        assert iam.detach(policy, *path).status == 204
        assert reads(key) == status
    iam.attach(policy, "group", group)
    iam.add(group, "api_key", other.id)
    assert reads(other) == 403
    iam.drop(group, "api_key", key.id)
    assert reads(key) == 200
    iam.edit(policy, allow("organizations:*:read"))
    assert reads(other) == 200
    iam.ask("DELETE", f"/iam/policies/{policy}")
    assert reads(other) == 200


def test_a_policy_adds_nothing_to_the_scopes_and_the_creator_of_a_key_and_a_deny_wins(iam: Iam, key: Key) -> None:
    everything, body = iam.policy("everything", allow("*")), {"displayName": "Web Shop"}
    for identifier in (key.id, KEYS["former-admin"]):
        assert iam.attach(everything, "api_key", identifier).status == 204
    assert code(key.use("PATCH", TENANT, body)) == (403, "INSUFFICIENT_SCOPE")
    refused = iam.platform.ask("PATCH", TENANT, key="former-admin", body=body)
    assert code(refused) == (403, "PERMISSION_DENIED")
    assert iam.platform.get(TENANT, key="former-admin").status == 200
    assert iam.detach(everything, "api_key", KEYS["former-admin"]).status == 204
    group = iam.group(f"group {uuid4()}")
    assert iam.add(group, "api_key", key.id).status == iam.attach(everything, "group", group).status == 204
    assert iam.detach(everything, "api_key", key.id).status == 204
    assert code(key.use("PATCH", TENANT, body)) == (403, "INSUFFICIENT_SCOPE")
    strong = Key(iam.platform, "organizations:*")
    for policy in (everything, iam.policy("shut", deny("organizations:tenants:update"))):
        assert iam.attach(policy, "api_key", strong.id).status == 204
    assert reads(strong) == 200
    refused = strong.use("PATCH", TENANT, body)
    assert code(refused) == (403, "INSUFFICIENT_PERMISSIONS")
    assert refused.json()["error"]["required_permission"] == "organizations:tenants:update"
    assert details(refused) == {"reason": "explicit_deny"}
    assert iam.attach(iam.policy("all", deny("*")), "api_key", strong.id).status == 204
    catalogue = strong.use("GET", "/api/v1/iam/catalogue").json()
    assert len(catalogue["operations"]) == catalogue["total"] == 528, "needs no policy"


def test_an_unreadable_stored_document_denies_everything(iam: Iam, key: Key, demo_database: Database) -> None:
    policy = iam.policy("p", allow("*"))
    assert iam.attach(policy, "api_key", key.id).status == 204
    assert reads(key) == 200
    unreadable = {"document": document_text(allow("*")).replace('"allow"', '"permit"'), "version": 9}
    execute(demo_database, tables.policies.update().where(tables.policies.c.id == policy).values(unreadable))
    answer = key.use("GET", TENANT)
    assert (code(answer), details(answer)) == ((403, "INSUFFICIENT_PERMISSIONS"), {"reason": "unreadable_policy"})
    access = iam.access("api_key", key.id)
    assert access["policies"][0]["unreadable"] is True
    assert {one["access"] for one in access["operations"]} == {"denied"}
    assert iam.ask("DELETE", f"/iam/policies/{policy}").status == 204


def test_trying_a_document_stores_nothing_and_writes_no_audit_entry(iam: Iam, demo_database: Database) -> None:
    def state() -> tuple[int, Any]:
        return len(fetch(demo_database, select(tables.audit_log.c.id))), iam.get("/iam/policies?limit=200")

    before, body = state(), trial(allow("*"))
    text, question = ({name: body[name] for name in names} for names in (("documentText",), ("operation", "target")))
    for path, tried in (("simulate", body), ("coverage", text), ("check", text), ("who", question)):
        assert iam.ask("POST", f"/iam/{path}", tried).status == 200
    assert iam.ask("POST", "/iam/check", {"documentText": "{"}).status == 400
    assert state() == before
