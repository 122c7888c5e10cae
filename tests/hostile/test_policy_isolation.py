"""One tenant's policies seen or used from another, and refused documents."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.hostile.callers import FOREIGN, routes
from tests.people import BOREALIS_OWNER, BOREALIS_STAGING, NEWSROOM, STAGING
from tests.service.access import KEYS, READ, Iam, allow, code, deny, details, document_text, trial
from tests.service.running import Running

GONE = (404, b'{"code":"NOT_FOUND","message":"resource not found"}')


@pytest.fixture(scope="module")
def platform() -> Iterator[Running]:
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
    count = 0
    for route in routes():
        for name in {*route.ids} & {*foreign} - {"tenant_id", "organization_id"}:
            for identifier in (foreign[name], str(uuid4())):
                path = route.at(**{name: identifier})
                answer = iam.platform.ask(route.method, path, body=route.body, as_=iam.person)
                assert (answer.status, answer.body) == GONE, (route.name, identifier)
                count += 1
    assert count >= 64


def test_a_policy_is_not_attached_across_tenants(iam: Iam) -> None:
    policy = iam.policy("p", allow(READ))
    for kind, identifier in (("api_key", KEYS["ci-preview"]), ("group", Iam(iam.platform, tenant=STAGING).group("x"))):
        answer = iam.attach(policy, kind, identifier)
        assert (answer.status, answer.body) == GONE


def test_a_cursor_is_valid_only_in_its_list_and_tenant(iam: Iam) -> None:
    groups, key = [iam.group(f"page {uuid4()}") for _ in range(3)], KEYS["tenant-writer"]
    for group in groups:
        iam.add(group, "api_key", key)
        iam.attach(iam.policy("page", allow(READ)), "group", groups[0])
    paths = {
        "/iam/groups?limit=1": "groups",
        f"/iam/groups?limit=1&memberType=api_key&memberId={key}": "groups",
        "/iam/policies?limit=1": "policies",
        f"/iam/policies?limit=1&attacheeType=group&attacheeId={groups[0]}": "policies",
        "/workload-identity/bindings?limit=1": "bindings",
    }
    cursors = {path: iam.get(path)["nextCursor"] for path in paths}
    assert all(cursors.values())
    staging = Iam(iam.platform, tenant=STAGING)
    for own, cursor in cursors.items():
        assert len(iam.get(f"{own}&cursor={cursor}")[paths[own]]) == 1
        replaced = [
            cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
            for place in range(0, len(cursor), 7)
        ]
        extended = [f"{cursor}!", f"{cursor[:9]}.{cursor[9:]}", f"{cursor}====", cursor + "AAAA"]
        for where, path, sent in (
            *((iam, path, cursor) for path in paths if path != own),
            *((iam, own, damaged) for damaged in (*replaced, *extended)),
            (staging, own, cursor),
        ):
            refused = where.ask("GET", f"{path}&cursor={sent}")
            assert code(refused) == (400, "INVALID_CURSOR"), (own, path, sent)
        assert refused.json()["error"]["message"] == "cursor is invalid here"
    for nonsense in ("x", "%00", "A" * 2000, "!!!!", "%C3%A9"):
        assert iam.ask("GET", f"/iam/groups?cursor={nonsense}").status in (400, 404)


def test_a_trial_does_not_depend_on_what_exists_elsewhere(iam: Iam) -> None:
    reading, answers = "storage:buckets:read", set()
    for tenant, bucket in ((NEWSROOM, "borealis-photos"), (NEWSROOM, "no-bucket"), (uuid4(), "borealis-photos")):
        body = trial(allow(reading), operation=reading, target=f"frn:storage:*:{tenant}:buckets/{bucket}")
        answers.add(iam.ask("POST", "/iam/simulate", body).body)
    assert len(answers) == 1


def test_the_address_of_a_trial_is_valid_and_a_mapped_one_is_ipv4(iam: Iam) -> None:
    def within(block: str) -> dict[str, Any]:
        return allow(READ, ipInRange={"frn:sourceIp": [block]})

    for block, address, decision in (
        ("::ffff:203.0.113.0/120", "203.0.113.5", "allowed"),
        ("203.0.113.0/24", "::ffff:203.0.113.5", "allowed"),
        ("::/0", "::ffff:203.0.113.5", "denied"),
    ):
        assert iam.simulate(within(block), sourceIp=address)["decision"] == decision, (block, address)
    for bad in ("999.1.1.1", "010.0.0.1", "fe80::1%eth0", "", "1.2.3"):
        answer = iam.ask("POST", "/iam/simulate", trial(within("::/0"), sourceIp=bad))
        assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), "facts.sourceIp")


def test_a_refused_document_never_replaces_one_that_is_there(iam: Iam) -> None:
    policy = iam.policy("p", deny("compute:*"))
    before = iam.get(f"/iam/policies/{policy}")
    for text in ("{", "null", '{"schemaVersion":"1","rules":[]}', document_text(allow(READ) | {"x": 1})):
        assert iam.raw("PATCH", f"/iam/policies/{policy}", f'{{"document":{text}}}'.encode()).status == 400
    assert iam.get(f"/iam/policies/{policy}") == before


def test_names_with_paths_sql_or_markup_are_text(iam: Iam) -> None:
    for name in ("../../etc/passwd", "'; DROP TABLE groups; --", "%00", "${jndi:x}", "[/x] 🌙", "<script>"):
        group = iam.group(f"{name} {uuid4()}", description=name)
        assert iam.get(f"/iam/groups/{group}")["description"] == name
        assert iam.ask("DELETE", f"/iam/groups/{group}").status == 204
