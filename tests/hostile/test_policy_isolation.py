"""One tenant's policies seen or used from another, and documents made to break the reader."""

import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from joserfc.jwk import ECKey

from service.authz.route_policies import ROUTE_POLICIES
from tests.service.access import KEYS, Iam, allow, code, deny, details, document
from tests.service.running import BOREALIS_OWNER, NEWSROOM, STAGING, WEB_SHOP, Running

GONE = (404, b'{"code":"NOT_FOUND","message":"resource not found"}')


@pytest.fixture(scope="module")
def platform() -> Iterator[Running]:
    """A platform of this module's own."""
    with Running() as running:
        yield running


@pytest.fixture
def iam(platform: Running) -> Iam:
    return Iam(platform)


BODIES: dict[str, Any] = {
    "group.update": {"name": "x"},
    "group.member.add": {"memberType": "api_key", "memberId": KEYS["terraform"]},
    "policy.update": {"name": "x"},
    "policy.rollback": {"version": 1},
    "policy.attach": {"attacheeType": "api_key", "attacheeId": KEYS["terraform"]},
    "workload_identity.update": {},
    "workload_identity.issuer.set": {
        "issuer": "https://cluster.example",
        "keys": [dict(ECKey.generate_key("P-256", auto_kid=True).as_dict(private=False))],
    },
    "api_key.update": {"name": "renamed"},
    "api_key.rotate": {},
    "resource.update": {"name": "renamed"},
}
QUERIES = {
    "group.member.remove": "?memberType=api_key&memberId=" + KEYS["terraform"],
    "policy.detach": "?attacheeType=api_key&attacheeId=" + KEYS["terraform"],
}


def test_every_route_with_an_id_of_another_tenant_answers_as_for_one_that_is_not_there(iam: Iam) -> None:
    """Generated over the table of rules: a route with an id in its path that is forgotten here fails."""
    other = Iam(iam.platform, BOREALIS_OWNER, NEWSROOM)
    theirs = {
        "group_id": other.get("/iam/groups")["groups"][0]["id"],
        "policy_id": other.get("/iam/policies")["policies"][0]["id"],
        "binding_id": Iam(iam.platform, BOREALIS_OWNER, "88fa06a2-8420-4a2f-8270-43f8fe633181").get(
            "/workload-identity/bindings"
        )["bindings"][0]["id"],
        "key_id": KEYS["cms"],
        "cluster_id": "68b4aef7-3eaa-4e17-9d8a-4eace693ae2d",
        "resource_id": "acdd5646-ec93-4d0b-937d-1afc6542d2d0",
    }
    asked = 0
    for (method, path), rule in ROUTE_POLICIES.items():
        name = next((name for name in theirs if "{" + name + "}" in path), None)
        if name is None:
            continue
        route = path.replace("{tenant_id}", WEB_SHOP).replace("{version}", "1").replace("{kind}", "instance")
        body = BODIES.get(rule.audit_event or "") if method not in ("GET", "DELETE") else None
        for identifier in (theirs[name], str(uuid4())):
            real = route.replace("{" + name + "}", identifier) + QUERIES.get(rule.audit_event or "", "")
            answer = iam.platform.ask(method, real, body=body, as_=iam.person)
            assert (answer.status, answer.body) == GONE, (method, path, identifier)
            asked += 1
    assert asked >= 64


def test_a_policy_is_not_attached_across_tenants_even_by_somebody_in_both(iam: Iam) -> None:
    policy = iam.policy("p", allow("compute:instances:read"))
    for kind, identifier in (("api_key", KEYS["ci-preview"]), ("group", Iam(iam.platform, tenant=STAGING).group("x"))):
        answer = iam.attach(policy, kind, identifier)
        assert (answer.status, answer.body) == GONE


def test_a_cursor_is_good_only_where_it_was_given(iam: Iam) -> None:
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
    for nonsense in ("x", "%00", "A" * 2000, "!!!!", "é"):
        assert code(iam.ask("GET", f"/iam/groups?cursor={'%C3%A9' if nonsense == 'é' else nonsense}"))[0] in (400, 404)


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
    """A document as text: tried, checked, mapped and, embedded, sent to be stored."""
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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(WHOLE.replace('"allow"', '"deny","access":"allow"') % "", "is duplicated", id="e01"),
        pytest.param(WHOLE % ',"constraints":{"equals":{"frn:region":NaN}}', "NaN is not JSON", id="e02 nan"),
        pytest.param(WHOLE % ',"constraints":{"equals":{"frn:region":Infinity}}', "Infinity", id="e02 infinity"),
        pytest.param("[" * 100_000 + "]" * 100_000, "nested deeper than 16", id="e03"),
        pytest.param("[" * 17 + "]" * 17, "nested deeper than 16", id="e03 by one level"),
        pytest.param('{"schemaVersion":' + "9" * 5_000 + "}", "more than 100 characters", id="e04"),
        pytest.param(WHOLE % ',"name":"\\ud800"', "half a surrogate pair", id="e05"),
        pytest.param(WHOLE % ',"constraints":{"Equals":{"frn:region":"x"}}', "unknown operator", id="e11 case"),
        pytest.param(WHOLE % ',"constraints":{"equals":{"frn:region ":"x"}}', "unknown key", id="e11 blank"),
        pytest.param(WHOLE % ',"constraints":{"ipInRange":{"frn:sourceIp":[]}}', "at least one", id="e11 empty"),
        pytest.param(WHOLE % ',"constraints":{"ipInRange":{"frn:sourceIp":["203.0.113.5/24"]}}', "host bits", id="e12"),
        pytest.param(
            WHOLE % ',"constraints":{"ipInRange":{"frn:sourceIp":["010.0.0.1/32"]}}', "does not start with", id="e12 0"
        ),
        pytest.param('{"schemaVersion":"1","rules":[' + ",".join([RULE % ""] * 501) + "]}", "too many", id="e17 rules"),
        pytest.param(
            WHOLE.replace('"compute:instances:read"', ",".join(['"compute:*"'] * 10_000)) % "",
            "4096",
            id="e17 patterns",
        ),
        pytest.param(
            (WHOLE % "").replace(":[", ":[" + " " * 256 * 1024, 1), "longer than 262144 bytes", id="e17 bytes"
        ),
    ],
)
def test_a_document_made_to_break_the_reader_is_refused_with_its_reason(iam: Iam, text: str, reason: str) -> None:
    for answer in sent(iam, text):
        assert code(answer) == (400, "INVALID_POLICY_DOCUMENT")
        said = answer.body.decode()
        assert reason in said, said


def test_a_hundred_thousand_brackets_take_no_time(iam: Iam) -> None:
    iam.get("/iam/groups")
    started = time.perf_counter()
    assert iam.raw("POST", "/iam/policies", b'{"name":"p","document":' + b"[" * 100_000).status == 400
    # 50 ms of work; the rest is for a machine that does much else.
    assert time.perf_counter() - started < 30


def test_every_address_is_accepted_with_a_warning_and_mapped_ones_are_compared_as_ipv4(iam: Iam) -> None:
    rule = allow("compute:instances:read", ipInRange={"frn:sourceIp": ["0.0.0.0/0", "::/0"]})
    answer = iam.ask("POST", "/iam/check", {"documentText": json.dumps(document(rule))}).json()
    assert [one["path"] for one in answer["warnings"]] == [
        '$.rules[0].constraints.ipInRange["frn:sourceIp"][0]',
        '$.rules[0].constraints.ipInRange["frn:sourceIp"][1]',
    ]
    narrow = json.dumps(document(allow("compute:instances:read", ipInRange={"frn:sourceIp": ["203.0.113.0/24"]})))
    six = json.dumps(document(allow("compute:instances:read", ipInRange={"frn:sourceIp": ["::/0"]})))
    mapped = json.dumps(
        document(allow("compute:instances:read", ipInRange={"frn:sourceIp": ["::ffff:203.0.113.0/120"]}))
    )
    for text, address, decision in (
        (mapped, "203.0.113.5", "allowed"),
        (mapped, "::ffff:203.0.113.5", "allowed"),
        (mapped, "203.0.114.5", "denied"),
        (narrow, "::ffff:203.0.113.5", "allowed"),
        (narrow, "::ffff:198.51.100.1", "denied"),
        (six, "::ffff:203.0.113.5", "denied"),
        (six, "203.0.113.5", "denied"),
        (six, "2001:db8::1", "allowed"),
    ):
        body = {"documentText": text, "operation": "compute:instances:read", "target": "*"}
        answer = iam.ask("POST", "/iam/simulate", body | {"facts": {"sourceIp": address}})
        assert answer.json()["decision"] == decision, (text, address)
    for bad in ("999.1.1.1", "010.0.0.1", "fe80::1%eth0", "", "1.2.3"):
        answer = iam.ask("POST", "/iam/simulate", body | {"facts": {"sourceIp": bad}})
        assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), "facts.sourceIp")


def test_stars_without_end_are_matched_in_no_time(iam: Iam) -> None:
    pattern = "frn:storage:*:*:objects/" + "*a" * 5_000
    text = json.dumps(document(allow("storage:objects:read", targets=(pattern,))))
    body = {
        "documentText": text,
        "operation": "storage:objects:read",
        "target": "frn:storage:*:t:objects/" + "a" * 65_000,
    }
    started = time.perf_counter()
    assert iam.ask("POST", "/iam/simulate", body).json()["decision"] == "allowed"
    assert time.perf_counter() - started < 30
    # As a draft its globs are too entangled to compare: undecided, and so refused; the owner needs no comparison.
    started = time.perf_counter()
    assert iam.ask("POST", "/iam/check", {"documentText": text}).status == 200
    assert time.perf_counter() - started < 30


def test_a_refused_document_never_replaces_one_that_is_there(iam: Iam) -> None:
    policy = iam.policy("p", deny("compute:*"))
    before = iam.get(f"/iam/policies/{policy}")
    for text in ("{", "null", '{"schemaVersion":"1","rules":[]}', WHOLE % ',"x":1'):
        assert iam.raw("PATCH", f"/iam/policies/{policy}", f'{{"document":{text}}}'.encode()).status == 400
    assert iam.get(f"/iam/policies/{policy}") == before


def test_names_that_other_programs_stumble_over_are_text(iam: Iam) -> None:
    for name in ("../../etc/passwd", "'; DROP TABLE groups; --", "%00", "${jndi:x}", "[/x] 🌙", "<script>"):
        group = iam.group(f"{name} {uuid4()}", description=name)
        assert iam.get(f"/iam/groups/{group}")["description"] == name
        assert iam.ask("DELETE", f"/iam/groups/{group}").status == 204
