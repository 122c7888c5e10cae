"""Effective access, who may do an operation, and previews of changes."""

import json
from typing import Any

import pytest

from tests.service.access import IDENTITIES, KEYS, Iam, allow, code, deny, details, document
from tests.service.running import NEWSROOM, OWNER, VIEWER, WEB_SHOP, Running

OWNER_ID = "dfb359ee-cc3a-4c40-8c3e-0826d45751a4"


def access(iam: Iam, kind: str, identifier: str) -> dict[str, Any]:
    found: dict[str, Any] = iam.get(f"/iam/access?principalType={kind}&principalId={identifier}")
    return found


def by_operation(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["operation"]: one for one in found["operations"]}


def test_a_persons_access_is_their_role(iam: Iam) -> None:
    found = access(iam, "user", OWNER_ID)
    assert found["principal"]["name"] == f"Astrid Lindqvist <{OWNER}>"
    assert found["limits"] == [{"kind": "role", "detail": "owner"}]
    assert len(found["operations"]) == 528
    assert {one["access"] for one in found["operations"]} == {"allowed"}
    # The same person is a plain member in the other organization.
    there = access(Iam(iam.platform, OWNER, NEWSROOM), "user", OWNER_ID)
    assert there["limits"] == [{"kind": "role", "detail": "member"}]
    assert "organizations:tenants:update" not in by_operation(there)


def test_a_keys_access_is_named_by_scope_role_and_policy_with_the_path(own: Running) -> None:
    iam = Iam(own)
    policy = iam.policy("p", allow("organizations:*:read"), deny("compute:*"))
    group = iam.group("g")
    iam.add(group, "api_key", KEYS["terraform"])
    iam.attach(policy, "group", group)
    found = access(iam, "api_key", KEYS["terraform"])
    operations = by_operation(found)
    assert set(operations) == {name for name in operations if name.startswith("organizations:")}
    reading = operations["organizations:tenants:read"]
    assert reading["access"] == "allowed"
    assert [one["kind"] for one in reading["by"]] == ["scope", "role", "policy"]
    assert reading["by"][2]["paths"] == [{"type": "group", "id": group, "name": "g"}]
    assert (reading["by"][2]["policyName"], reading["by"][2]["ruleIndex"]) == ("p", 0)


def test_effective_access_distinguishes_conditions_and_denies(own: Running) -> None:
    iam = Iam(own)
    policy = iam.policy(
        "p",
        allow("compute:instances:read"),
        allow("compute:instances:start", equals={"frn:resourceTag/env": "dev"}),
        allow("compute:instances:stop"),
        deny("compute:instances:stop", equals={"frn:resourceTag/env": "prod"}),
        allow("compute:instances:delete"),
        deny("*:*:delete"),
        allow("compute:images:read", targets=("frn:compute:*:*:images/web-*",)),
        allow("storage:buckets:read", targets=("frn:compute:*:*:*/*",)),
    )
    iam.attach(policy, "api_key", KEYS["terraform"])
    operations = by_operation(access(iam, "api_key", KEYS["terraform"]))
    assert {name: one["access"] for name, one in operations.items()} == {
        "compute:instances:read": "allowed",
        "compute:instances:start": "conditional",
        "compute:instances:stop": "conditional",
        "compute:instances:delete": "denied",
        "compute:images:read": "conditional",
    }
    assert operations["compute:instances:delete"]["deniedBy"][0]["ruleIndex"] == 5
    assert operations["compute:images:read"]["by"][2]["targets"] == ["frn:compute:*:*:images/web-*"]


def test_no_grant_and_an_orphaned_policy_give_no_access(iam: Iam) -> None:
    assert access(iam, "workload_identity", IDENTITIES["not-granted-yet"])["operations"] == []
    orphaned = access(iam, "api_key", KEYS["contractor-2025"])
    assert orphaned["principal"]["works"] is False
    assert [(one["policyName"], one["orphaned"]) for one in orphaned["policies"]] == [("contractor access", True)]
    assert orphaned["operations"] == []


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (f"principalType=api_key&principalId={IDENTITIES['checkout']}", (404, "NOT_FOUND")),
        ("principalType=user&principalId=d5684a3f-b4aa-4f12-89ca-24cd6f2c1076", (404, "NOT_FOUND")),
        (f"principalType=api_key&principalId={KEYS['cms']}", (404, "NOT_FOUND")),
        (f"principalType=group&principalId={KEYS['cms']}", (400, "INVALID_INPUT")),
        ("principalType=api_key", (400, "INVALID_INPUT")),
    ],
)
def test_a_principal_outside_the_tenant_is_not_found(iam: Iam, query: str, answer: tuple[int, str]) -> None:
    assert code(iam.ask("GET", f"/iam/access?{query}")) == answer


def test_who_lists_people_keys_and_identities_with_their_grants(iam: Iam) -> None:
    body = {"operation": "compute:instances:delete", "target": f"frn:compute:se-sto-1:{WEB_SHOP}:instances/i-1"}
    found = iam.ask("POST", "/iam/who", body | {"facts": {"resourceTags": {"env": "prod"}}}).json()
    people = {one["name"].rpartition("<")[2][:-1] for one in found["principals"] if one["type"] == "user"}
    assert people == {"owner@aurora.example", "admin@aurora.example", "member@aurora.example"}
    keys = {one["name"] for one in found["principals"] if one["type"] == "api_key"}
    assert {"terraform", "compute-all", "compute-writer"} <= keys
    # Its policy keeps production; expired, revoked and read-only keys are no question.
    assert not keys & {"deploy-pipeline", "old-deploy", "contractor-2025", "monitoring-agent", "tenant-writer"}
    dev = iam.ask("POST", "/iam/who", body | {"facts": {"resourceTags": {"env": "dev"}}}).json()
    pipeline = next(one for one in dev["principals"] if one["name"] == "deploy-pipeline")
    assert [(one["kind"], one.get("policyName")) for one in pipeline["by"]] == [
        ("scope", None),
        ("role", None),
        ("policy", "deployments"),
    ]
    assert pipeline["by"][2]["paths"][0]["name"] == "deployers"
    assert any(one["name"] == "shop/checkout" for one in dev["principals"])


def test_who_lists_conditional_access_apart(own: Running) -> None:
    iam = Iam(own)
    office = {"frn:sourceIp": ["192.0.2.0/24"]}
    limited = iam.policy(
        "limited", allow("dns:zones:read", ipInRange=office), deny("dns:*", equals={"frn:region": "x-y-1"})
    )
    shut = iam.policy("shut", allow("dns:zones:read", ipInRange=office), deny("dns:*"))
    group, perhaps, never = iam.group("g"), iam.binding("perhaps"), iam.binding("never")
    iam.add(group, "workload_identity", perhaps)
    iam.attach(limited, "group", group)
    iam.attach(shut, "workload_identity", never)

    def who(**facts: Any) -> dict[str, Any]:
        asked = {"operation": "dns:zones:read", "target": "*", "facts": facts}
        found: dict[str, Any] = iam.ask("POST", "/iam/who", asked).json()
        assert {one["access"] for one in found["principals"]} == {"allowed"}
        assert {one["access"] for one in found["conditional"]} <= {"conditional"}
        assert (found["total"], found["conditionalTotal"]) == (len(found["principals"]), len(found["conditional"]))
        assert never not in {one["id"] for side in ("principals", "conditional") for one in found[side]}
        return found

    (one,) = [one for one in who()["conditional"] if one["id"] == perhaps]
    (by,), (against,) = one["by"], one["deniedBy"]
    assert by["constraints"][0]["values"] == ["192.0.2.0/24"]
    assert (by["policyName"], by["paths"]) == ("limited", [{"type": "group", "id": group, "name": "g"}])
    assert (against["ruleIndex"], against["constraints"][0]["key"]) == (1, "frn:region")
    inside = who(sourceIp="192.0.2.7", region="se-sto-1")
    assert perhaps in {one["id"] for one in inside["principals"]}
    outside = who(sourceIp="198.51.100.1")
    assert perhaps not in {one["id"] for side in ("principals", "conditional") for one in outside[side]}


def test_who_agrees_with_the_effective_access_of_each_principal(iam: Iam) -> None:
    for operation in ("compute:instances:read", "secrets:secrets:read", "organizations:tenants:update"):
        body = {"operation": operation, "target": f"frn:{operation.split(':')[0]}:se-sto-1:{WEB_SHOP}:x/checkout-1"}
        found = iam.ask("POST", "/iam/who", body).json()
        allowed = {(one["type"], one["id"]) for one in found["principals"]}
        for kind, identifier in [*(("api_key", KEYS[k]) for k in ("terraform", "tenant-reader", "backup-runner"))] + [
            ("workload_identity", one) for one in IDENTITIES.values()
        ]:
            if (kind, identifier) in allowed:
                assert by_operation(access(iam, kind, identifier))[operation]["access"] in ("allowed", "conditional")


def preview(iam: Iam, change: str, **named: Any) -> list[dict[str, Any]]:
    answer = iam.ask("POST", "/iam/preview", {"change": change, **named})
    assert answer.status == 200, answer
    found: list[dict[str, Any]] = answer.json()["principals"]
    return found


def test_a_preview_of_a_deletion_lists_gains_and_losses(own: Running) -> None:
    iam = Iam(own)
    policy, group = iam.policy("p", allow("organizations:tenants:read")), iam.group("g")
    key, identity = KEYS["tenant-writer"], iam.binding("only-here")
    iam.add(group, "api_key", key)
    iam.add(group, "workload_identity", identity)
    iam.attach(policy, "group", group)
    before = {one["type"]: one for one in preview(iam, "deleteGroup", groupId=group)}
    assert before["workload_identity"]["lost"] == ["organizations:tenants:read"]
    assert before["workload_identity"]["inert"] is True
    # The key had nothing left: a policy of reading, a scope of writing. Without it, it is wide again.
    assert "organizations:tenants:update" in before["api_key"]["gained"]
    assert before["api_key"]["inert"] is False
    assert {(one["policiesBefore"], one["policiesAfter"]) for one in before.values()} == {(1, 0)}
    assert iam.get(f"/iam/groups/{group}")["memberCount"] == 2
    for change in (
        preview(iam, "deletePolicy", policyId=policy),
        preview(iam, "detach", policyId=policy, principalType="group", principalId=group),
    ):
        assert {one["type"]: one["lost"] for one in change} == {
            "workload_identity": ["organizations:tenants:read"],
            "api_key": [],
        }
    (one,) = preview(iam, "removeMember", groupId=group, principalType="workload_identity", principalId=identity)
    assert one["inert"] is True


def test_a_preview_of_more_is_within_the_author(own: Running) -> None:
    iam = Iam(own)
    policy, identity = iam.policy("p", allow("compute:*", "dns:*")), iam.binding("b")
    (given,) = preview(iam, "attach", policyId=policy, principalType="workload_identity", principalId=identity)
    assert given["gainedCount"] == 72
    iam.attach(policy, "workload_identity", identity)
    text = json.dumps(document(allow("compute:*:read", equals={"frn:region": "fi-hel-1"}), allow("dns:*")))
    (changed,) = preview(iam, "updatePolicy", policyId=policy, documentText=text)
    assert changed["lostCount"] == 60 - changed["narrowedCount"]
    assert changed["narrowed"]
    assert all(name.endswith(":read") for name in changed["narrowed"])
    # By a viewer the same text gives only what a viewer holds.
    (weaker,) = preview(iam.as_(VIEWER), "updatePolicy", policyId=policy, documentText=text)
    assert {name for name in weaker["lost"] if name.startswith("dns:")}
    group = iam.group("g")
    iam.attach(policy, "group", group)
    (added,) = preview(
        iam, "addMember", groupId=group, principalType="workload_identity", principalId=iam.binding("other")
    )
    assert added["gainedCount"] == 72


def test_a_preview_of_the_same_document_again_is_of_no_change(own: Running) -> None:
    iam = Iam(own)
    strong = document(allow("compute:*", "organizations:*"))
    policy = iam.policy("strong", *strong["rules"])
    assert iam.attach(policy, "api_key", KEYS["tenant-writer"]).status == 204
    body = {"change": "updatePolicy", "policyId": policy, "documentText": json.dumps(strong, indent=2)}
    answer = iam.as_(VIEWER).ask("POST", "/iam/preview", body)
    assert answer.status == 200
    (one,) = answer.json()["principals"]
    assert [one[f"{way}Count"] for way in ("gained", "lost", "widened", "narrowed", "conditionsChanged")] == [0] * 5
    assert iam.done(iam.as_(VIEWER).edit(policy, *strong["rules"])) is False


def test_a_preview_distinguishes_changed_conditions(own: Running) -> None:
    iam = Iam(own)
    office = {"frn:sourceIp": ["192.0.2.0/24"]}
    policy, identity = iam.policy("p", allow("dns:*", ipInRange=office)), iam.binding("b")
    iam.attach(policy, "workload_identity", identity)

    def changed(*rules: dict[str, Any]) -> dict[str, int]:
        (one,) = preview(iam, "updatePolicy", policyId=policy, documentText=json.dumps(document(*rules)))
        assert all(one[name.removesuffix("Count")] for name in one if name.endswith("Count") and one[name])
        return {name: one[name] for name in one if name.endswith("Count") and one[name]}

    assert changed(allow("dns:*", ipInRange={"frn:sourceIp": ["192.0.2.0/25"]})) == {"conditionsChangedCount": 12}
    assert changed(allow("dns:*", targets=("frn:dns:*:*:zones/a",))) == {"conditionsChangedCount": 12}
    assert changed(allow("dns:*")) == {"widenedCount": 12}
    # Another order, and another tenant's target, decide nothing here.
    elsewhere = allow("dns:*", targets=(f"frn:*:*:{NEWSROOM}:*/*",))
    assert changed(elsewhere, allow("dns:*:*", ipInRange=office)) == {}


def test_a_preview_counts_conditional_gains_and_losses_apart(own: Running) -> None:
    iam = Iam(own)
    office = {"frn:sourceIp": ["192.0.2.0/24"]}
    policy, identity = iam.policy("p", allow("dns:*", ipInRange=office), allow("compute:*:read")), iam.binding("b")
    named = {"policyId": policy, "principalType": "workload_identity", "principalId": identity}

    def counts(change: str) -> dict[str, int]:
        (one,) = preview(iam, change, **named)
        assert all(name.startswith("dns:") for side in ("Gained", "Lost") for name in one[f"conditional{side}"])
        return {name: one[name] for name in one if name.endswith("Count") and one[name]}

    given = counts("attach")
    assert (given.pop("conditionalGainedCount"), *given) == (12, "gainedCount")
    iam.attach(policy, "workload_identity", identity)
    # What the same operations are called of the principal itself.
    found = access(iam, "workload_identity", identity)["operations"]
    assert sum(one["access"] == "conditional" for one in found) == 12
    assert counts("detach") == {"lostCount": given["gainedCount"], "conditionalLostCount": 12}


def test_a_preview_has_the_refusal_of_the_change_itself(own: Running) -> None:
    iam = Iam(own)
    viewer = iam.as_(VIEWER)
    policy, group, identity = iam.policy("p", allow("organizations:*")), iam.group("g"), iam.binding("b")
    key = {"principalType": "api_key", "principalId": KEYS["terraform"]}

    def refused(by: Iam, change: str, **named: Any) -> Any:
        answer = by.ask("POST", "/iam/preview", {"change": change, **named})
        assert answer.status == 200, answer
        return answer.json()["refused"]

    def same(told: Any, made: Any) -> bool:
        wanted: bool = told == {"status": made.status, **made.json()["error"]}
        return wanted and 400 <= made.status < 500

    iam.attach(policy, "group", group)
    assert refused(viewer, "deleteGroup", groupId=iam.group("empty")) is None
    assert same(refused(viewer, "attach", policyId=policy, **key), viewer.attach(policy, "api_key", key["principalId"]))
    joining = refused(viewer, "addMember", groupId=group, **key)
    assert same(joining, viewer.add(group, "api_key", key["principalId"]))
    iam.add(group, "api_key", key["principalId"])
    deleting = refused(viewer, "deleteGroup", groupId=group)
    assert deleting["code"] == "PRINCIPAL_EXCEEDS_AUTHOR"
    assert same(deleting, viewer.ask("DELETE", f"/iam/groups/{group}"))
    member = f"memberType=api_key&memberId={key['principalId']}"
    leaving = refused(viewer, "removeMember", groupId=group, **key)
    assert same(leaving, viewer.ask("DELETE", f"/iam/groups/{group}/members?{member}"))
    assert same(refused(viewer, "deletePolicy", policyId=policy), viewer.ask("DELETE", f"/iam/policies/{policy}"))
    wider = (allow("organizations:*"), allow("compute:*"))
    saving = refused(viewer, "updatePolicy", policyId=policy, documentText=json.dumps(document(*wider)))
    assert same(saving, viewer.edit(policy, *wider))
    iam.attach(policy, "workload_identity", identity)
    last = {"principalType": "workload_identity", "principalId": identity}
    detaching = refused(iam, "detach", policyId=policy, **last)
    assert detaching["code"] == "BINDING_WOULD_HAVE_NO_GRANT"
    attached = f"attacheeType=workload_identity&attacheeId={identity}"
    assert same(detaching, iam.ask("DELETE", f"/iam/policies/{policy}/attachments?{attached}"))
    assert refused(iam, "deletePolicy", policyId=policy) is None


@pytest.mark.parametrize(
    ("body", "member"),
    [
        ({"change": "attach", "policyId": "P"}, "principalType"),
        ({"change": "deleteGroup"}, "groupId"),
        ({"change": "deletePolicy", "policyId": "P", "groupId": "x"}, "groupId"),
        ({"change": "nothing"}, "change"),
    ],
)
def test_an_incomplete_preview_is_refused(iam: Iam, body: dict[str, Any], member: str) -> None:
    answer = iam.ask("POST", "/iam/preview", body)
    assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), member)
