"""One tenant's policies seen or used from another, and documents made to break the reader."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.homes import Answer
from tests.hostile.callers import FOREIGN, routes
from tests.service.access import KEYS, Iam, allow, code, deny, details, document
from tests.service.running import BOREALIS_OWNER, BOREALIS_STAGING, NEWSROOM, STAGING, Running

GONE = (404, b'{"code":"NOT_FOUND","message":"resource not found"}')


@pytest.fixture(scope="module")
def platform() -> Iterator[Running]:
    """A platform of this module's own."""
    with Running() as running:
        yield running


def test_ids_of_another_tenant_are_not_found(iam: Iam) -> None:
    """As a person who is a member of both organizations."""
    newsroom = Iam(iam.platform, BOREALIS_OWNER, NEWSROOM)
    staging = Iam(iam.platform, BOREALIS_OWNER, BOREALIS_STAGING)
    foreign = FOREIGN | {
        "group_id": newsroom.get("/iam/groups")["groups"][0]["id"],
        "policy_id": newsroom.get("/iam/policies")["policies"][0]["id"],
        "binding_id": staging.get("/workload-identity/bindings")["bindings"][0]["id"],
    }
    asked = 0
    for route in routes():
        for name in {*route.ids} & {*foreign} - {"tenant_id", "organization_id"}:
            for identifier in (foreign[name], str(uuid4())):
                path = route.at(**{name: identifier})
                answer = iam.platform.ask(route.method, path, body=route.body, as_=iam.person)
                assert (answer.status, answer.body) == GONE, (route.name, identifier)
                asked += 1
    assert asked >= 64


def test_a_policy_is_not_attached_across_tenants(iam: Iam) -> None:
    policy = iam.policy("p", allow("compute:instances:read"))
    for kind, identifier in (("api_key", KEYS["ci-preview"]), ("group", Iam(iam.platform, tenant=STAGING).group("x"))):
        answer = iam.attach(policy, kind, identifier)
        assert (answer.status, answer.body) == GONE


def test_a_cursor_is_valid_only_in_its_list_and_tenant(iam: Iam) -> None:
    made = [iam.group(f"page {uuid4()}") for _ in range(3)]
    policies = [iam.policy("page", allow("compute:instances:read")) for _ in range(3)]
    key = KEYS["tenant-writer"]
    for group in made:
        iam.add(group, "api_key", key)
    for policy in policies:
        iam.attach(policy, "group", made[0])
    paths = {
        "/iam/groups?limit=1": "groups",
        f"/iam/groups?limit=1&memberType=api_key&memberId={key}": "groups",
        "/iam/policies?limit=1": "policies",
        f"/iam/policies?limit=1&attacheeType=group&attacheeId={made[0]}": "policies",
        "/workload-identity/bindings?limit=1": "bindings",
    }
    cursors = {path: iam.get(path)["nextCursor"] for path in paths}
    assert all(cursors.values())
    for given, cursor in cursors.items():
        for path, member in paths.items():
            answer = iam.ask("GET", f"{path}&cursor={cursor}")
            if path == given:
                assert len(answer.json()[member]) == 1
            else:
                assert code(answer) == (400, "INVALID_CURSOR"), (given, path)
        elsewhere = Iam(iam.platform, tenant=STAGING).ask("GET", f"{given}&cursor={cursor}")
        assert code(elsewhere) == (400, "INVALID_CURSOR")
        assert elsewhere.json()["error"]["message"] == "cursor is invalid here"
        for place in range(0, len(cursor), 7):
            damaged = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
            assert code(iam.ask("GET", f"{given}&cursor={damaged}")) == (400, "INVALID_CURSOR")
    for nonsense in ("x", "%00", "A" * 2000, "!!!!", "%C3%A9"):
        assert iam.ask("GET", f"/iam/groups?cursor={nonsense}").status in (400, 404)


def test_a_trial_does_not_depend_on_what_exists_elsewhere(iam: Iam) -> None:
    text = json.dumps(document(allow("storage:buckets:read")))
    answers = set()
    for target in (
        f"frn:storage:*:{NEWSROOM}:buckets/borealis-photos",
        f"frn:storage:*:{NEWSROOM}:buckets/nothing-of-the-kind",
        f"frn:storage:*:{uuid4()}:buckets/borealis-photos",
    ):
        body = {"documentText": text, "operation": "storage:buckets:read", "target": target}
        answers.add(iam.ask("POST", "/iam/simulate", body).body)
    assert len(answers) == 1


# Documents


def sent(iam: Iam, text: str) -> list[Any]:
    """The answers of each route that takes a document."""
    escaped = json.dumps(text)
    trial = f'{{"documentText":{escaped},"operation":"compute:instances:read","target":"*"}}'.encode()
    alone = f'{{"documentText":{escaped}}}'.encode()
    return [
        iam.raw("POST", "/iam/simulate", trial),
        iam.raw("POST", "/iam/coverage", alone),
        iam.raw("POST", "/iam/check", alone),
        iam.raw("POST", "/iam/policies", f'{{"name":"p","document":{text}}}'.encode("utf-8", "surrogatepass")),
    ]


RULE = '{"access":"allow","operations":["compute:instances:read"],"targets":["*"]%s}'
WHOLE = '{"schemaVersion":"1","rules":[' + RULE + "]}"


EQUALS, IN_RANGE = ',"constraints":{"equals":{%s}}', ',"constraints":{"ipInRange":{"frn:sourceIp":[%s]}}'
BROKEN = {
    "is duplicated": WHOLE.replace('"allow"', '"deny","access":"allow"') % "",
    "NaN is not JSON": WHOLE % (EQUALS % '"frn:region":NaN'),
    "Infinity": WHOLE % (EQUALS % '"frn:region":Infinity'),
    "nested deeper than 16": "[" * 100_000 + "]" * 100_000,
    "deeper than 16": "[" * 17 + "]" * 17,
    "more than 100 characters": '{"schemaVersion":' + "9" * 5_000 + "}",
    "half a surrogate pair": WHOLE % ',"name":"\\ud800"',
    "unknown operator": WHOLE % ',"constraints":{"Equals":{"frn:region":"x"}}',
    "unknown key": WHOLE % (EQUALS % '"frn:region ":"x"'),
    "at least one": WHOLE % (IN_RANGE % ""),
    "host bits": WHOLE % (IN_RANGE % '"203.0.113.5/24"'),
    "does not start with": WHOLE % (IN_RANGE % '"010.0.0.1/32"'),
    "too many": '{"schemaVersion":"1","rules":[' + ",".join([RULE % ""] * 501) + "]}",
    "4096": WHOLE.replace('"compute:instances:read"', ",".join(['"compute:*"'] * 10_000)) % "",
    "longer than 262144 bytes": (WHOLE % "").replace(":[", ":[" + " " * 256 * 1024, 1),
}


@pytest.mark.parametrize("reason", BROKEN)
def test_a_hostile_document_is_refused_with_the_reason(iam: Iam, reason: str) -> None:
    for answer in sent(iam, BROKEN[reason]):
        assert code(answer) == (400, "INVALID_POLICY_DOCUMENT")
        assert reason in answer.body.decode(), answer


def test_a_hundred_thousand_brackets_take_no_time(iam: Iam) -> None:
    assert iam.raw("POST", "/iam/policies", b'{"name":"p","document":' + b"[" * 100_000).status == 400


def test_mapped_addresses_and_blocks_are_compared_as_ipv4(iam: Iam) -> None:
    def in_range(*blocks: str) -> str:
        return json.dumps(document(allow("compute:instances:read", ipInRange={"frn:sourceIp": list(blocks)})))

    def simulated(block: str, address: str) -> Answer:
        body = {"documentText": in_range(block), "operation": "compute:instances:read", "target": "*"}
        return iam.ask("POST", "/iam/simulate", body | {"facts": {"sourceIp": address}})

    answer = iam.ask("POST", "/iam/check", {"documentText": in_range("0.0.0.0/0", "::/0")}).json()
    warned = '$.rules[0].constraints.ipInRange["frn:sourceIp"]'
    assert [one["path"] for one in answer["warnings"]] == [f"{warned}[0]", f"{warned}[1]"]
    for block, address, decision in (
        ("::ffff:203.0.113.0/120", "203.0.113.5", "allowed"),
        ("::ffff:203.0.113.0/120", "::ffff:203.0.113.5", "allowed"),
        ("::ffff:203.0.113.0/120", "203.0.114.5", "denied"),
        ("203.0.113.0/24", "::ffff:203.0.113.5", "allowed"),
        ("203.0.113.0/24", "::ffff:198.51.100.1", "denied"),
        ("::/0", "::ffff:203.0.113.5", "denied"),
        ("::/0", "203.0.113.5", "denied"),
        ("::/0", "2001:db8::1", "allowed"),
    ):
        assert simulated(block, address).json()["decision"] == decision, (block, address)
    for bad in ("999.1.1.1", "010.0.0.1", "fe80::1%eth0", "", "1.2.3"):
        answer = simulated("::/0", bad)
        assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), "facts.sourceIp")


def test_many_stars_are_matched_in_linear_time(iam: Iam) -> None:
    pattern = "frn:storage:*:*:objects/" + "*a" * 5_000
    text = {"documentText": json.dumps(document(allow("storage:objects:read", targets=(pattern,))))}
    body = {"operation": "storage:objects:read", "target": "frn:storage:*:t:objects/" + "a" * 65_000}
    assert iam.ask("POST", "/iam/simulate", text | body).json()["decision"] == "allowed"
    # The owner needs no comparison with the author's rights.
    assert iam.ask("POST", "/iam/check", text).status == 200


def test_a_refused_document_never_replaces_one_that_is_there(iam: Iam) -> None:
    policy = iam.policy("p", deny("compute:*"))
    before = iam.get(f"/iam/policies/{policy}")
    for text in ("{", "null", '{"schemaVersion":"1","rules":[]}', WHOLE % ',"x":1'):
        assert iam.raw("PATCH", f"/iam/policies/{policy}", f'{{"document":{text}}}'.encode()).status == 400
    assert iam.get(f"/iam/policies/{policy}") == before


def test_names_with_paths_sql_or_markup_are_text(iam: Iam) -> None:
    for name in ("../../etc/passwd", "'; DROP TABLE groups; --", "%00", "${jndi:x}", "[/x] 🌙", "<script>"):
        group = iam.group(f"{name} {uuid4()}", description=name)
        assert iam.get(f"/iam/groups/{group}")["description"] == name
        assert iam.ask("DELETE", f"/iam/groups/{group}").status == 204
