"""Policies, history, attachments and their effect on the next request, on both databases."""

import json
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, select

from service.db import tables
from service.db.engine import Database
from tests.service.access import IDENTITIES, KEYS, Iam, allow, code, deny, details, document
from tests.service.account import Key
from tests.service.running import ADMIN, MEMBER, REGIONAL, STAGING, VIEWER, WEB_SHOP, Running

READ = allow("compute:instances:read")


def reads(platform: Running, key: str = "terraform") -> int:
    """What the key gets when it reads its tenant now."""
    return platform.get(f"/api/v1/tenants/{WEB_SHOP}", key=key).status


def test_a_policy_is_stored_in_canonical_form_with_its_author(iam: Iam) -> None:
    sent = {"schemaVersion": "1", "rules": [{"targets": ["*"], "operations": ["compute:*"], "access": "allow"}]}
    answer = iam.ask("POST", "/iam/policies", {"name": "p", "document": sent})
    policy = answer.json()
    assert (answer.status, answer.headers["etag"], policy["version"]) == (201, '"1"', 1)
    assert policy["document"] == document(allow("compute:*"))
    assert list(policy["document"]["rules"][0]) == ["name", "access", "operations", "targets"]
    assert (policy["description"], policy["orphaned"], policy["author"]["email"]) == ("", False, iam.person)
    again = iam.ask("PATCH", f"/iam/policies/{policy['id']}", {"document": sent})
    assert iam.done(again) is False
    assert again.json() == policy
    assert iam.get(f"/iam/policies/{policy['id']}") == policy


def test_a_change_keeps_the_other_members_and_makes_a_version(iam: Iam) -> None:
    policy = iam.policy("first", READ)
    path = f"/iam/policies/{policy}"
    renamed = iam.ask("PATCH", path, {"name": "second"}).json()
    described = iam.ask("PATCH", path, {"description": "d"}).json()
    edited = iam.edit(policy, allow("compute:*")).json()
    assert [renamed["version"], described["version"], edited["version"]] == [2, 3, 4]
    assert (described["name"], described["document"]) == ("second", document(READ))
    assert (edited["name"], edited["description"]) == ("second", "d")
    assert code(iam.ask("PATCH", path, {})) == (400, "INVALID_INPUT")


def test_a_policy_belongs_to_its_tenant(iam: Iam) -> None:
    policy = iam.policy("p", READ)
    other = Iam(iam.platform, tenant=STAGING)
    assert policy in {one["id"] for one in iam.get("/iam/policies?limit=200")["policies"]}
    assert policy not in {one["id"] for one in other.get("/iam/policies?limit=200")["policies"]}
    gone = (404, b'{"code":"NOT_FOUND","message":"resource not found"}')
    for asked in (
        other.ask("GET", f"/iam/policies/{policy}"),
        other.ask("PATCH", f"/iam/policies/{policy}", {"name": "x"}),
        other.ask("DELETE", f"/iam/policies/{policy}"),
        other.ask("GET", f"/iam/policies/{policy}/attachments"),
        other.ask("GET", f"/iam/policies/{policy}/versions"),
        other.ask("GET", f"/iam/policies/{policy}/versions/1"),
        other.ask("POST", f"/iam/policies/{policy}/rollback", {"version": 1}),
        other.attach(policy, "api_key", KEYS["ci-preview"]),
        iam.attach(policy, "api_key", KEYS["ci-preview"]),
        iam.attach(policy, "group", other.group(f"g {uuid4()}")),
        iam.attach(policy, "workload_identity", "x"),
        iam.attach(str(uuid4()), "api_key", KEYS["terraform"]),
        iam.ask("GET", f"/iam/policies/{uuid4()}"),
        iam.ask("GET", f"/iam/policies/{policy}/versions/2"),
        iam.ask("GET", f"/iam/policies/{policy}/versions/x"),
    ):
        assert (asked.status, asked.body) == gone


def test_policies_of_one_name_are_found_by_it_in_pages_of_their_own(iam: Iam) -> None:
    made = [iam.policy("one of two", READ) for _ in range(2)]
    iam.policy("one of three", READ)
    first = iam.get("/iam/policies?name=one%20of%20two&limit=1")
    second = iam.get(f"/iam/policies?name=one%20of%20two&limit=1&cursor={first['nextCursor']}")
    assert [one["id"] for page in (first, second) for one in page["policies"]] == made
    assert second["nextCursor"] == ""
    assert iam.get("/iam/policies?name=One%20of%20two")["policies"] == []
    elsewhere = iam.ask("GET", f"/iam/policies?limit=1&cursor={first['nextCursor']}")
    assert code(elsewhere) == (400, "INVALID_CURSOR")
    for no_name in ("", "%00"):
        assert code(iam.ask("GET", f"/iam/policies?name={no_name}")) == (400, "INVALID_INPUT")


def test_deleting_takes_the_attachments_and_the_history(iam: Iam, demo_database: Database) -> None:
    policy = iam.policy("p", allow("organizations:*"))
    group = iam.group(f"g {uuid4()}")
    assert iam.attach(policy, "group", group).status == 204
    assert iam.ask("DELETE", f"/iam/policies/{policy}").status == 204
    assert code(iam.ask("GET", f"/iam/policies/{policy}/attachments")) == (404, "NOT_FOUND")
    with demo_database.read() as connection:
        for table in (tables.policy_attachments, tables.policy_versions):
            assert connection.scalar(select(func.count()).where(table.c.policy_id == policy)) == 0
    assert iam.get(f"/iam/groups/{group}")["policyCount"] == 0


@pytest.mark.parametrize(
    ("sent", "path", "said"),
    [
        ({"rules": [READ]}, "$", "schemaVersion is missing"),
        (document(allow("compute:instnaces:read")), "$.rules[0].operations[0]", "matches no operation"),
        (
            document(allow("*", like={"frn:sourceIp": "10.*"})),
            '$.rules[0].constraints.like["frn:sourceIp"]',
            "ipInRange",
        ),
        ("text", "$", "must be an object"),
    ],
)
def test_a_document_that_is_not_understood_is_refused_with_its_place(iam: Iam, sent: Any, path: str, said: str) -> None:
    for answer in (
        iam.ask("POST", "/iam/policies", {"name": "p", "document": sent}),
        iam.ask("POST", "/iam/check", {"documentText": json.dumps(sent)}),
    ):
        assert code(answer) == (400, "INVALID_POLICY_DOCUMENT")
        problem = details(answer)["problems"][0]
        assert problem["path"] == path
        assert said in problem["reason"]


def test_places_are_those_of_the_document_as_it_was_typed(iam: Iam) -> None:
    text = '{\n  "schemaVersion": "1",\n  "rules": [\n    {"access": "deny", "access": "allow"}\n  ]\n}'
    body = f'{{"name": "p",   "document":  {text}, "description": ""}}'.encode()
    answer = iam.raw("POST", "/iam/policies", body)
    assert code(answer) == (400, "INVALID_POLICY_DOCUMENT")
    places = [(problem["path"], problem["line"], problem["column"]) for problem in details(answer)["problems"]]
    assert ("$.rules[0].access", 4, 24) in places


@pytest.mark.parametrize(
    "body",
    [
        b'{"name":"p","name":"q","document":{}}',
        b'{"name":"p","document":{},"document":{}}',
        b'{"name":"p","document":{}} x',
        b'{"name":NaN,"document":{}}',
        b'["name","document"]',
        b'{"name":"p" "document":{}}',
        b"\xff\xfe{}",
        b"",
        b'{"name":5,"document":{}}',
        b'{"document":{"schemaVersion":"1"}}',
        b'{"name":"p"}',
    ],
)
def test_a_body_that_is_no_such_object_is_refused_around_the_document_too(iam: Iam, body: bytes) -> None:
    assert iam.raw("POST", "/iam/policies", body).status == 400


def test_a_draft_beyond_its_author_is_refused_with_a_counterexample(iam: Iam) -> None:
    for person, rule in (
        (VIEWER, allow("compute:instances:delete")),
        (VIEWER, allow("compute:*:read", "storage:*:read")),
        (REGIONAL, allow("compute:instances:read")),
        (REGIONAL, allow("compute:instances:read", equals={"frn:region": "fi-hel-1"})),
        (MEMBER, allow("organizations:tenants:update")),
        (ADMIN, allow("*")),
    ):
        answer = iam.as_(person).create("p", rule)
        assert code(answer) == (403, "POLICY_EXCEEDS_AUTHOR"), (person, rule)
        assert 1 <= len(details(answer)["counterexamples"]) <= 5
        example = details(answer)["counterexamples"][0]
        # The draft allows it, and the same draft within its author does not.
        trial = {
            "documentText": json.dumps(document(rule)),
            "operation": example["operation"],
            "target": example["target"],
            "facts": {"currentTime": None} | example["facts"],
        }
        assert iam.as_(person).ask("POST", "/iam/simulate", trial).json()["decision"] == "allowed"
        capped = iam.as_(person).ask("POST", "/iam/simulate", trial | {"asAuthor": True}).json()
        assert (capped["decision"], capped["rules"][0]["withinAuthor"]) == ("denied", False)
    assert details(iam.as_(ADMIN).create("p", allow("*")))["counterexamples"][0]["deniedBy"]["policyName"] == "Admin"


def test_every_role_writes_policies_within_its_own_rights(iam: Iam) -> None:
    own = {"equals": {"frn:region": "fi-hel-1", "frn:resourceTag/env": "dev"}}
    assert iam.as_(VIEWER).create("p", allow("compute:*:read")).status == 201
    assert iam.as_(REGIONAL).create("p", allow("compute:instances:*", **own)).status == 201
    assert iam.as_(MEMBER).create("p", allow("compute:*", "iam:*")).status == 201
    assert iam.create("p", allow("*")).status == 201
    assert iam.as_(VIEWER).create("p", deny("*")).status == 201


def test_a_stale_write_names_the_later_changes(iam: Iam) -> None:
    policy = iam.policy("p", READ)
    iam.ask("PATCH", f"/iam/policies/{policy}", {"name": "q"})
    iam.as_(ADMIN).edit(policy, allow("compute:*:read"))
    for answer in (
        iam.ask("PATCH", f"/iam/policies/{policy}", {"name": "r"}, if_match='"1"'),
        iam.ask("DELETE", f"/iam/policies/{policy}", if_match='"1"'),
        iam.ask("POST", f"/iam/policies/{policy}/rollback", {"version": 1}, if_match='"1"'),
    ):
        assert code(answer) == (412, "STALE_VERSION")
        found = details(answer)
        assert (found["expected"], found["current"], found["changed"]) == (1, 3, ["document", "name"])
        assert [one["changedByName"] for one in found["versions"]] == ["Astrid Lindqvist", "Jonas Berg"]
    assert iam.get(f"/iam/policies/{policy}")["name"] == "q"
    assert iam.ask("PATCH", f"/iam/policies/{policy}", {"name": "r"}, if_match='"3"').status == 200


def test_a_policy_has_a_history_and_can_be_rolled_back(iam: Iam) -> None:
    policy = iam.policy("p", READ)
    iam.edit(policy, allow("compute:*"))
    iam.ask("PATCH", f"/iam/policies/{policy}", {"name": "q"})
    back = iam.ask("POST", f"/iam/policies/{policy}/rollback", {"version": 1})
    assert iam.done(back) is True
    assert (back.json()["version"], back.json()["name"]) == (4, "q")
    assert back.json()["document"] == document(READ)
    assert iam.done(iam.ask("POST", f"/iam/policies/{policy}/rollback", {"version": 4})) is False
    history = iam.get(f"/iam/policies/{policy}/versions")["versions"]
    assert [(one["version"], one["change"], one["changed"]) for one in history] == [
        (4, "rollback", ["document"]),
        (3, "update", ["name"]),
        (2, "update", ["document"]),
        (1, "create", ["document", "name"]),
    ]
    assert history[0]["rolledBackTo"] == 1
    assert iam.get(f"/iam/policies/{policy}/versions/2")["document"] == document(allow("compute:*"))
    page = iam.get(f"/iam/policies/{policy}/versions?limit=3")
    rest = iam.get(f"/iam/policies/{policy}/versions?limit=3&cursor={page['nextCursor']}")
    assert [one["version"] for one in page["versions"] + rest["versions"]] == [4, 3, 2, 1]
    assert rest["nextCursor"] == ""


def test_a_new_document_has_a_new_author_and_a_new_name_has_not(iam: Iam) -> None:
    policy = iam.policy("p", READ)
    admin = iam.as_(ADMIN)
    path = f"/iam/policies/{policy}"
    renamed = admin.ask("PATCH", path, {"name": "q"}).json()
    assert (renamed["author"]["email"], renamed) == (iam.person, iam.get(path))
    edited = admin.edit(policy, allow("compute:*")).json()
    assert (edited["author"]["email"], edited) == (ADMIN, iam.get(path))


def test_attachments_are_listed_filtered_and_taken_away_once(iam: Iam) -> None:
    policy, group = iam.policy("p", allow("organizations:*")), iam.group(f"g {uuid4()}")
    wanted = [
        ("api_key", KEYS["tenant-writer"]),
        ("workload_identity", IDENTITIES["not-granted-yet"]),
        ("group", group),
    ]
    for kind, identifier in wanted:
        assert iam.done(iam.attach(policy, kind, identifier)) is True
        assert iam.done(iam.attach(policy, kind, identifier)) is False
    path = f"/iam/policies/{policy}/attachments"
    listed = iam.get(path)
    assert [(one["attacheeType"], one["attacheeId"]) for one in listed["attachments"]] == wanted
    assert listed["attachments"][0]["attacheeName"] == "tenant-writer"
    one = iam.get(f"{path}?attacheeType=group&attacheeId={group}")
    assert ([a["attacheeId"] for a in one["attachments"]], one["nextCursor"]) == ([group], "")
    assert iam.get(f"{path}?attacheeType=group&attacheeId={uuid4()}")["attachments"] == []
    for query in (f"attacheeId={group}", "attacheeType=group"):
        assert code(iam.ask("GET", f"{path}?{query}")) == (400, "INVALID_INPUT")
    mine = iam.get(f"/iam/policies?attacheeType=group&attacheeId={group}")["policies"]
    assert [one["id"] for one in mine] == [policy]
    for kind, identifier in (wanted[0], wanted[2]):
        assert iam.detach(policy, kind, identifier).status == 204
        assert code(iam.detach(policy, kind, identifier)) == (404, "NOT_FOUND")
    assert iam.ask("DELETE", f"/iam/policies/{policy}").status == 204


@pytest.mark.parametrize("kind", ["user", "API_KEY", "policy", ""])
def test_other_attachees_are_refused_with_the_values(iam: Iam, kind: str) -> None:
    policy = iam.policy("p", READ)
    for answer in (iam.attach(policy, kind, KEYS["terraform"]), iam.detach(policy, kind, KEYS["terraform"])):
        assert details(answer)["known"] == ["api_key", "workload_identity", "group"]


def test_a_policy_of_a_group_counts_from_the_next_request_of_its_members(own: Running) -> None:
    iam = Iam(own)
    policy, group = iam.policy("shut", deny("organizations:*")), iam.group("g")
    assert reads(own) == 200
    iam.add(group, "api_key", KEYS["terraform"])
    assert reads(own) == 200
    iam.attach(policy, "group", group)
    assert reads(own) == 403
    assert reads(own, "tenant-reader") == 200
    iam.add(group, "api_key", KEYS["tenant-reader"])
    assert reads(own, "tenant-reader") == 403
    iam.drop(group, "api_key", KEYS["terraform"])
    assert reads(own) == 200
    iam.edit(policy, allow("organizations:*:read"))
    assert reads(own, "tenant-reader") == 200
    iam.ask("DELETE", f"/iam/policies/{policy}")
    assert reads(own, "tenant-reader") == 200


def test_a_policy_with_two_paths_counts_until_both_are_detached(own: Running) -> None:
    iam = Iam(own)
    policy, group = iam.policy("narrow", allow("compute:*")), iam.group("g")
    iam.add(group, "api_key", KEYS["terraform"])
    for kind, identifier in (("group", group), ("api_key", KEYS["terraform"])):
        assert iam.attach(policy, kind, identifier).status == 204
    access = iam.get(f"/iam/access?principalType=api_key&principalId={KEYS['terraform']}")
    (held,) = access["policies"]
    assert [path["type"] for path in held["paths"]] == ["direct", "group"]
    assert reads(own) == 403
    assert iam.detach(policy, "api_key", KEYS["terraform"]).status == 204
    assert reads(own) == 403
    assert iam.detach(policy, "group", group).status == 204
    assert reads(own) == 200


def test_across_policies_a_deny_beats_every_allow(own: Running) -> None:
    iam = Iam(own)
    for policy in (iam.policy("wide", allow("*")), iam.policy("shut", deny("organizations:tenants:update"))):
        assert iam.attach(policy, "api_key", KEYS["terraform"]).status == 204
    assert reads(own) == 200
    renamed = own.ask("PATCH", f"/api/v1/tenants/{WEB_SHOP}", key="terraform", body={"displayName": "Web Shop"})
    assert code(renamed) == (403, "INSUFFICIENT_PERMISSIONS")
    assert renamed.json()["error"]["required_permission"] == "organizations:tenants:update"
    assert details(renamed) == {"reason": "explicit_deny"}


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        (allow("organizations:*:read"), 200),
        (allow("organizations:tenants:read", targets=(f"frn:organizations:*:{WEB_SHOP}:tenants/{WEB_SHOP}",)), 200),
        (allow("organizations:tenants:read", targets=(f"frn:organizations:*:{STAGING}:tenants/*",)), 403),
        (allow("organizations:tenants:read", targets=("frn:organizations:fi-hel-1:*:tenants/*",)), 403),
        (allow("organizations:*", equals={"frn:principalType": "api_key", "frn:tenant": WEB_SHOP}), 200),
        (allow("organizations:*", equals={"frn:principalType": "user"}), 403),
        # Over the socket there is no address: unknown never grants.
        (allow("organizations:*", ipInRange={"frn:sourceIp": ["0.0.0.0/0", "::/0"]}), 403),
        (allow("organizations:*", after={"frn:currentTime": "2020-01-01T00:00:00Z"}), 200),
        (allow("organizations:*", before={"frn:currentTime": "2020-01-01T00:00:00Z"}), 403),
        (allow("organizations:*", notEquals={"frn:resourceTag/env": "prod"}), 200),
        (allow("organizations:*", equals={"frn:resourceTag/env": "prod"}), 403),
        (allow("compute:*"), 403),
    ],
)
def test_constraints_and_targets_count_on_a_real_request(iam: Iam, rule: dict[str, Any], status: int) -> None:
    key = Key(iam.platform, "organizations:read")
    assert iam.attach(iam.policy("p", rule), "api_key", key.id).status == 204
    assert key.use("GET", f"/api/v1/tenants/{WEB_SHOP}").status == status


def test_a_policy_of_a_key_adds_nothing_to_its_scopes_and_creator(own: Running) -> None:
    iam = Iam(own)
    everything = iam.policy("everything", allow("*"))
    for key in ("tenant-reader", "former-admin"):
        assert iam.attach(everything, "api_key", KEYS[key]).status == 204
    body = {"displayName": "Web Shop"}
    path = f"/api/v1/tenants/{WEB_SHOP}"
    assert code(own.ask("PATCH", path, key="tenant-reader", body=body)) == (403, "INSUFFICIENT_SCOPE")
    assert code(own.ask("PATCH", path, key="former-admin", body=body)) == (403, "PERMISSION_DENIED")
    assert own.get(path, key="former-admin").status == 200


def test_an_unreadable_stored_document_denies_everything(own: Running, own_database: Database) -> None:
    iam = Iam(own)
    policy = iam.policy("p", allow("*"))
    assert iam.attach(policy, "api_key", KEYS["terraform"]).status == 204
    assert reads(own) == 200
    with own_database.write() as connection:
        broken = json.dumps(document(allow("*"))).replace('"allow"', '"permit"')
        connection.execute(
            tables.policies.update().where(tables.policies.c.id == policy).values(document=broken, version=9)
        )
    answer = own.get(f"/api/v1/tenants/{WEB_SHOP}", key="terraform")
    assert (code(answer), details(answer)) == ((403, "INSUFFICIENT_PERMISSIONS"), {"reason": "unreadable_policy"})
    access = iam.get(f"/iam/access?principalType=api_key&principalId={KEYS['terraform']}")
    assert access["policies"][0]["unreadable"] is True
    assert {one["access"] for one in access["operations"]} == {"denied"}


def test_a_key_reads_the_catalogue_despite_a_deny(own: Running) -> None:
    iam = Iam(own)
    iam.attach(iam.policy("p", deny("*")), "api_key", KEYS["terraform"])
    answer = own.get("/api/v1/iam/catalogue", key="terraform")
    assert answer.status == 200
    assert len(answer.json()["operations"]) == answer.json()["total"] == 528


def test_trying_a_document_stores_nothing_and_writes_no_audit_entry(iam: Iam, demo_database: Database) -> None:
    def state() -> tuple[int, Any]:
        with demo_database.read() as connection:
            entries = connection.scalar(select(func.count()).select_from(tables.audit_log))
        return entries or 0, iam.get("/iam/policies?limit=200")

    before, text = state(), json.dumps(document(allow("*")))
    for path, body in (
        ("simulate", {"documentText": text, "operation": "compute:instances:read", "target": "*"}),
        ("coverage", {"documentText": text}),
        ("check", {"documentText": text}),
        ("who", {"operation": "compute:instances:read", "target": "*"}),
        ("check", {"documentText": "{"}),
    ):
        assert iam.ask("POST", f"/iam/{path}", body).status in (200, 400)
    assert state() == before
