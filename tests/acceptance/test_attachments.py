"""Attachments of policies and their effect on real keys."""

from tests.acceptance.iam import IDENTITIES, KEYS, NO_ID, READ_TENANTS, Desk, allow

ATTACH = ("policy", "attach")
DETACH = ("policy", "detach")


def test_a_policy_is_attached_once_listed_and_detached(desk: Desk) -> None:
    policy = desk.policy(READ_TENANTS)
    pairs = [
        ("api_key", KEYS["terraform"]),
        ("workload_identity", IDENTITIES["checkout"]),
        ("group", desk.group("three")),
    ]
    for kind, identifier in pairs:
        made = desk.done(*ATTACH, policy, "--type", kind, "--id", identifier)
        assert made == {"policyId": policy, "attacheeType": kind, "attacheeId": identifier, "changed": True}
    assert desk.attached(policy) == set(pairs)
    names = [one["attacheeName"] for one in desk.items("policy", "attachments", policy, "--all", "--limit", "1")]
    assert names == ["terraform", "shop/checkout", "three"]
    group = ("--type", "group", "--id", pairs[2][1])
    again = desk.iam(*ATTACH, policy, *group)
    assert (again.code, again.err) == (0, "already attached\n")
    assert desk.done(*ATTACH, policy, *group)["changed"] is False
    assert [one["attacheeId"] for one in desk.items("policy", "attachments", policy, *group)] == [group[3]]
    assert desk.done(*DETACH, policy, *group)["status"] == "detached"
    assert desk.attached(policy) == set(pairs[:2])
    assert group[3] in desk.refused(5, *DETACH, policy, *group)
    assert "is attached" in desk.iam(*ATTACH, policy, *group).err
    assert desk.items("policy", "attachments", policy, "--type", "api_key", "--id", NO_ID) == []
    assert "--id" in desk.refused(2, "policy", "attachments", policy, "--type", "api_key")
    assert "--type" in desk.refused(2, "policy", "attachments", policy, "--id", group[3])


def test_the_first_of_many_allowed_principals_are_listed_and_all_are_counted(own_desk: Desk) -> None:
    desk, many = own_desk, 1_100
    desk.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
        " INSERT INTO workload_identities SELECT printf('%08d', i) || substr(w.id, 9), w.tenant_id, w.cluster_id,"
        " 'very-many', 'sa-' || i, '[\"compute:read\"]', w.created_by, w.created_at, w.updated_at"
        " FROM n, (SELECT * FROM workload_identities WHERE id = ?) AS w",
        many,
        IDENTITIES["checkout"],
    )
    words = ("who", "--operation", "compute:instances:read", "--target", "*")
    answer = desk.done(*words)
    assert len([one for one in answer["items"] if one["access"] == "allowed"]) == 1_000
    assert answer["total"] > many
    warning = f"warning: only the first 1000 of {answer['total']} allowed principals are listed"
    assert warning in desk.iam(*words, "--quiet").err
    assert f"{answer['total']} of {answer['examined']} principals are allowed" in desk.iam(*words).err


def test_conditional_principals_are_listed_last_and_marked(own_desk: Desk) -> None:
    desk = own_desk
    words = ("who", "--operation", "organizations:tenants:update", "--target", "*")
    office = allow("organizations:tenants:update") | {"constraints": {"ipInRange": {"frn:sourceIp": ["192.0.2.0/24"]}}}
    desk.attach(desk.policy(office, name="office"), "api_key", KEYS["terraform"])
    answer = desk.done(*words)
    shown = desk.iam(*words, "-o", "wide")
    (line,) = [line for line in shown.out.splitlines() if " terraform " in line]
    assert "conditional" in line
    assert "ipInRange frn:sourceIp 192.0.2.0/24" in line
    total = f"{answer['total']} of {answer['examined']} principals are allowed"
    assert f"{total}, {answer['conditionalTotal']} more conditionally" in shown.err


def test_access_names_the_path_to_a_permission(own_desk: Desk) -> None:
    desk = own_desk
    group, policy = desk.group("renamers"), desk.policy(allow("organizations:tenants:update"), name="rename only")
    desk.add(group, "api_key", KEYS["terraform"])
    desk.attach(policy, "group", group)
    table = desk.iam("access", "api_key", KEYS["terraform"]).out
    assert "scope organizations:write, role admin, policy rename only rule 1 via group renamers" in table
    assert "'api_key', 'workload_identity', 'user'" in desk.refused(2, "access", "robot", NO_ID)
