"""Effective access, who may do an operation, and previews of changes."""

import json
from typing import Any

import pytest

from client.models.iam import Access, AllowedPrincipals
from tests.api import Answer
from tests.people import ADMIN, MEMBER, NEWSROOM, OWNER, VIEWER, WEB_SHOP
from tests.service.access import IDENTITIES, KEYS, READ, Iam, allow, code, deny, details, document, document_text
from tests.service.account import Key
from tests.service.running import Running

OFFICE = {"frn:sourceIp": ["192.0.2.0/24"]}

OWNER_ID = "dfb359ee-cc3a-4c40-8c3e-0826d45751a4"


@pytest.fixture
def iam(network: Running) -> Iam:
    return Iam(network)


def operations_of(iam: Iam, kind: str, identifier: str) -> dict[str, dict[str, Any]]:
    return {one["operation"]: one for one in iam.access(kind, identifier)["operations"]}


def test_a_persons_access_is_their_role_and_no_grant_or_an_orphaned_policy_gives_none(iam: Iam) -> None:
    found = iam.access("user", OWNER_ID)
    assert found["principal"]["name"] == f"Astrid Lindqvist <{OWNER}>"
    assert found["limits"] == [{"kind": "role", "detail": "owner"}]
    assert len(found["operations"]) == 528
    assert {one["access"] for one in found["operations"]} == {"allowed"}
    # The same person is a plain member in the other organization.
    there = Iam(iam.platform, OWNER, NEWSROOM)
    assert there.access("user", OWNER_ID)["limits"] == [{"kind": "role", "detail": "member"}]
    assert "organizations:tenants:update" not in operations_of(there, "user", OWNER_ID)
    assert iam.access("workload_identity", IDENTITIES["not-granted-yet"])["operations"] == []
    orphaned = iam.access("api_key", KEYS["contractor-2025"])
    assert orphaned["principal"]["works"] is False
    assert [(one["policyName"], one["orphaned"]) for one in orphaned["policies"]] == [("contractor access", True)]
    assert orphaned["operations"] == []
    # A principal outside the tenant is not found.
    outside = [("api_key", IDENTITIES["checkout"]), ("user", "d5684a3f-b4aa-4f12-89ca-24cd6f2c1076")]
    for kind, identifier in (*outside, ("api_key", KEYS["cms"])):
        answer = iam.ask("GET", f"/iam/access?principalType={kind}&principalId={identifier}")
        assert code(answer) == (404, "NOT_FOUND")
    for query in (f"group&principalId={KEYS['cms']}", "api_key"):
        assert code(iam.ask("GET", f"/iam/access?principalType={query}")) == (400, "INVALID_INPUT")


def test_a_keys_access_is_named_by_scope_role_and_policy_with_the_path(iam: Iam) -> None:
    policy, group = iam.policy("p", allow("organizations:*:read"), deny("compute:*")), iam.group("readers")
    key = Key(iam.platform, "compute:*", "organizations:*", "storage:*").id
    iam.add(group, "api_key", key)
    iam.attach(policy, "group", group)
    operations = operations_of(iam, "api_key", key)
    assert {name.partition(":")[0] for name in operations} == {"organizations"}
    reading = operations["organizations:tenants:read"]
    assert reading["access"] == "allowed"
    assert [one["kind"] for one in reading["by"]] == ["scope", "role", "policy"]
    assert reading["by"][2]["paths"] == [{"type": "group", "id": group, "name": "readers"}]
    assert (reading["by"][2]["policyName"], reading["by"][2]["ruleIndex"]) == ("p", 0)
    # Conditions and denies.
    iam.detach(policy, "group", group)
    conditional = iam.policy(
        "conditional",
        allow(READ),
        allow("compute:instances:start", equals={"frn:resourceTag/env": "dev"}),
        allow("compute:instances:stop"),
        deny("compute:instances:stop", equals={"frn:resourceTag/env": "prod"}),
        allow("compute:instances:delete"),
        deny("*:*:delete"),
        allow("compute:images:read", targets=("frn:compute:*:*:images/web-*",)),
        allow("storage:buckets:read", targets=("frn:compute:*:*:*/*",)),
    )
    iam.attach(conditional, "api_key", key)
    access = iam.access("api_key", key)
    # A model drops the members that it does not describe.
    assert Access.model_validate(access).wire() == access
    operations = {one["operation"]: one for one in access["operations"]}
    assert {name.removeprefix("compute:"): one["access"] for name, one in operations.items()} == {
        **{"instances:read": "allowed", "instances:start": "conditional", "instances:stop": "conditional"},
        **{"instances:delete": "denied", "images:read": "conditional"},
    }
    assert operations["compute:instances:delete"]["deniedBy"][0]["ruleIndex"] == 5
    assert operations["compute:images:read"]["by"][2]["targets"] == ["frn:compute:*:*:images/web-*"]


def test_who_lists_people_keys_and_identities_with_their_grants(iam: Iam) -> None:
    body = {"operation": "compute:instances:delete", "target": f"frn:compute:se-sto-1:{WEB_SHOP}:instances/i-1"}

    def who(env: str) -> list[dict[str, Any]]:
        answer = iam.ask("POST", "/iam/who", body | {"facts": {"resourceTags": {"env": env}}})
        return list(answer.json()["principals"])

    prod, dev = who("prod"), {one["name"]: one for one in who("dev")}
    people = {one["name"].rpartition("<")[2][:-1] for one in prod if one["type"] == "user"}
    assert people == {OWNER, ADMIN, MEMBER}
    keys = {one["name"] for one in prod if one["type"] == "api_key"}
    assert {"terraform", "compute-all", "compute-writer"} <= keys
    # Its policy protects production; expired, revoked and read-only keys are not allowed anyway.
    assert not keys & {"deploy-pipeline", "old-deploy", "contractor-2025", "monitoring-agent", "tenant-writer"}
    grants = dev["deploy-pipeline"]["by"]
    assert [(one["kind"], one.get("policyName")) for one in grants[:2]] == [("scope", None), ("role", None)]
    assert [(one["kind"], one.get("policyName")) for one in grants[2:]] == [("policy", "deployments")]
    assert grants[2]["paths"][0]["name"] == "deployers"
    assert "shop/checkout" in dev


def test_who_lists_conditional_access_apart(iam: Iam) -> None:
    reading = allow("dns:zones:read", ipInRange=OFFICE)
    limited = iam.policy("limited", reading, deny("dns:*", equals={"frn:region": "x-y-1"}))
    shut = iam.policy("shut", reading, deny("dns:*"))
    group, perhaps, never = iam.group("perhaps"), iam.binding("perhaps"), iam.binding("never")
    iam.add(group, "workload_identity", perhaps)
    iam.attach(limited, "group", group)
    iam.attach(shut, "workload_identity", never)

    def who(**facts: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The allowed and the conditional principals, by id."""
        found = iam.ask("POST", "/iam/who", {"operation": "dns:zones:read", "target": "*", "facts": facts}).json()
        assert AllowedPrincipals.model_validate(found).wire() == found
        allowed, conditional = ({one["id"]: one for one in found[side]} for side in ("principals", "conditional"))
        assert {one["access"] for one in allowed.values()} == {"allowed"}
        assert {one["access"] for one in conditional.values()} <= {"conditional"}
        assert (found["total"], found["conditionalTotal"]) == (len(allowed), len(conditional))
        assert never not in allowed | conditional
        return allowed, conditional

    entry = who()[1][perhaps]
    (by,), (against,) = entry["by"], entry["deniedBy"]
    assert by["constraints"][0]["values"] == ["192.0.2.0/24"]
    assert (by["policyName"], by["paths"]) == ("limited", [{"type": "group", "id": group, "name": "perhaps"}])
    assert (against["ruleIndex"], against["constraints"][0]["key"]) == (1, "frn:region")
    assert perhaps in who(sourceIp="192.0.2.7", region="se-sto-1")[0]
    allowed, conditional = who(sourceIp="198.51.100.1")
    assert perhaps not in allowed | conditional


def test_who_agrees_with_the_effective_access_of_each_principal(iam: Iam) -> None:
    principals = [("api_key", KEYS[name]) for name in ("terraform", "tenant-reader", "backup-runner")]
    principals += [("workload_identity", identifier) for identifier in IDENTITIES.values()]
    compared = 0
    for operation in (READ, "secrets:secrets:read", "organizations:tenants:update"):
        target = f"frn:{operation.split(':')[0]}:se-sto-1:{WEB_SHOP}:x/checkout-1"
        found = iam.ask("POST", "/iam/who", {"operation": operation, "target": target}).json()
        allowed = {(one["type"], one["id"]) for one in found["principals"]}
        for principal in allowed & {*principals}:
            assert operations_of(iam, *principal)[operation]["access"] in ("allowed", "conditional")
            compared += 1
    assert compared


def preview(iam: Iam, change: str, **named: Any) -> list[dict[str, Any]]:
    answer = iam.ask("POST", "/iam/preview", {"change": change, **named})
    assert answer.status == 200, answer
    return list(answer.json()["principals"])


def counts(principal: dict[str, Any]) -> dict[str, int]:
    """The numbers of a preview's changes that are not 0; the names of some are listed with each."""
    found = {name: principal[name] for name in principal if name.endswith("Count") and principal[name]}
    assert all(principal[name.removesuffix("Count")] for name in found)
    return found


def test_a_preview_of_a_deletion_lists_gains_and_losses(iam: Iam) -> None:
    policy, group = iam.policy("p", allow("organizations:tenants:read")), iam.group("writers")
    key, identity = Key(iam.platform, "organizations:write").id, iam.binding("only-here")
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


def test_a_preview_of_more_is_within_the_author(iam: Iam) -> None:
    policy, identity = iam.policy("p", allow("compute:*", "dns:*")), iam.binding("more")
    (given,) = preview(iam, "attach", policyId=policy, principalType="workload_identity", principalId=identity)
    assert given["gainedCount"] == 72
    iam.attach(policy, "workload_identity", identity)
    text = document_text(allow("compute:*:read", equals={"frn:region": "fi-hel-1"}), allow("dns:*"))
    (changed,) = preview(iam, "updatePolicy", policyId=policy, documentText=text)
    assert changed["lostCount"] == 60 - changed["narrowedCount"]
    assert changed["narrowed"]
    assert all(name.endswith(":read") for name in changed["narrowed"])
    # The same text by a viewer grants only a viewer's permissions.
    (weaker,) = preview(iam.as_(VIEWER), "updatePolicy", policyId=policy, documentText=text)
    assert {name for name in weaker["lost"] if name.startswith("dns:")}
    group = iam.group("more")
    iam.attach(policy, "group", group)
    (added,) = preview(
        iam, "addMember", groupId=group, principalType="workload_identity", principalId=iam.binding("other")
    )
    assert added["gainedCount"] == 72


def test_a_preview_counts_changes_of_conditions_apart(iam: Iam) -> None:
    policy, identity = (
        iam.policy("p", allow("dns:*", ipInRange=OFFICE), allow("compute:*:read")),
        iam.binding("conditions"),
    )

    def changes(change: str) -> dict[str, int]:
        (one,) = preview(iam, change, policyId=policy, principalType="workload_identity", principalId=identity)
        assert all(name.startswith("dns:") for side in ("Gained", "Lost") for name in one[f"conditional{side}"])
        return counts(one)

    given = changes("attach")
    assert (given.pop("conditionalGainedCount"), *given) == (12, "gainedCount")
    iam.attach(policy, "workload_identity", identity)
    # The effective access of the principal names the same operations.
    found = iam.access("workload_identity", identity)["operations"]
    assert sum(one["access"] == "conditional" for one in found) == 12
    assert changes("detach") == {"lostCount": given["gainedCount"], "conditionalLostCount": 12}
    # Another order of rules and the target of another tenant change nothing, also for an editor with weaker rights.
    elsewhere = allow("dns:*", targets=(f"frn:*:*:{NEWSROOM}:*/*",))
    same = [allow("compute:*:read"), elsewhere, allow("dns:*:*", ipInRange=OFFICE)]
    other = [allow("dns:*", ipInRange={"frn:sourceIp": ["192.0.2.0/25"]}), allow("compute:*:read")]
    for rules, expected in (
        (other, {"conditionsChangedCount": 12}),
        ([allow("dns:*"), allow("compute:*:read")], {"widenedCount": 12}),
        (same, {}),
    ):
        (one,) = preview(iam, "updatePolicy", policyId=policy, documentText=document_text(*rules))
        assert counts(one) == expected
    iam.edit(policy, *same)
    text = json.dumps(document(*same), indent=2)
    (one,) = preview(iam.as_(VIEWER), "updatePolicy", policyId=policy, documentText=text)
    assert counts(one) == {}
    assert iam.done(iam.as_(VIEWER).edit(policy, *same)) is False


def test_a_preview_has_the_refusal_of_the_change_itself(iam: Iam) -> None:
    viewer = iam.as_(VIEWER)
    policy, group, identity = iam.policy("p", allow("organizations:*")), iam.group("refused"), iam.binding("refused")
    key, last = ("api_key", Key(iam.platform, "organizations:*").id), ("workload_identity", identity)

    def require_same(by: Iam, answer: Answer, change: str, principal: tuple[str, ...] = (), **named: Any) -> None:
        """A preview of a change that was refused has the same refusal."""
        if principal:
            named |= {"principalType": principal[0], "principalId": principal[1]}
        previewed = by.ask("POST", "/iam/preview", {"change": change, **named}).json()
        body = answer.json()
        assert previewed["refused"] == {"status": answer.status, **body.get("error", body)}

    def require_none(by: Iam, change: str, **named: Any) -> None:
        assert by.ask("POST", "/iam/preview", {"change": change, **named}).json()["refused"] is None

    iam.attach(policy, "group", group)
    require_none(viewer, "deleteGroup", groupId=iam.group("empty"))
    require_same(viewer, viewer.attach(policy, *key), "attach", key, policyId=policy)
    require_same(viewer, viewer.add(group, *key), "addMember", key, groupId=group)
    iam.add(group, *key)
    deleted = viewer.ask("DELETE", f"/iam/groups/{group}")
    assert code(deleted) == (403, "PRINCIPAL_EXCEEDS_AUTHOR")
    require_same(viewer, deleted, "deleteGroup", groupId=group)
    require_same(viewer, viewer.drop(group, *key), "removeMember", key, groupId=group)
    require_same(viewer, viewer.ask("DELETE", f"/iam/policies/{policy}"), "deletePolicy", policyId=policy)
    wider = (allow("organizations:*"), allow("compute:*"))
    text = document_text(*wider)
    require_same(viewer, viewer.edit(policy, *wider), "updatePolicy", policyId=policy, documentText=text)
    iam.attach(policy, *last)
    detached = iam.detach(policy, *last)
    assert code(detached) == (400, "BINDING_WOULD_HAVE_NO_GRANT")
    require_same(iam, detached, "detach", last, policyId=policy)
    require_none(iam, "deletePolicy", policyId=policy)
    absent = iam.detach(policy, *key)
    assert code(absent) == (404, "NOT_FOUND")
    require_same(iam, absent, "detach", key, policyId=policy)
    require_same(iam, iam.drop(group, *last), "removeMember", last, groupId=group)
    for body, member in (
        *(({"change": "attach", "policyId": "P"}, "principalType"), ({"change": "deleteGroup"}, "groupId")),
        *(({"change": "deletePolicy", "policyId": "P", "groupId": "x"}, "groupId"), ({"change": "nothing"}, "change")),
    ):
        answer = iam.ask("POST", "/iam/preview", body)
        assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), member)
