"""Attachments of policies and their effect on real keys."""

from tests.acceptance.iam import IDENTITIES, KEYS, NO_ID, READ_TENANTS, Desk, allow
from tests.acceptance.people import WEB_SHOP

ATTACH = ("policy", "attach")
DETACH = ("policy", "detach")


def test_a_policy_is_attached_to_keys_identities_and_groups(desk: Desk) -> None:
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


def test_attaching_twice_is_one_attachment_and_detaching_works_once(desk: Desk) -> None:
    policy, group = desk.policy(READ_TENANTS), desk.group()
    pair = ("--type", "group", "--id", group)
    assert "is attached" in desk.iam(*ATTACH, policy, *pair).err
    again = desk.iam(*ATTACH, policy, *pair)
    assert (again.code, again.err) == (0, "already attached\n")
    assert desk.done(*ATTACH, policy, *pair)["changed"] is False
    assert desk.attached(policy) == {("group", group)}
    assert desk.done(*DETACH, policy, *pair)["status"] == "detached"
    assert desk.attached(policy) == set()
    assert group in desk.refused(5, *DETACH, policy, *pair)


def test_type_and_id_ask_for_one_and_are_used_together(desk: Desk) -> None:
    policy, group = desk.policy(READ_TENANTS), desk.group()
    desk.attach(policy, "group", group)
    desk.attach(policy, "api_key", KEYS["tenant-reader"])
    (one,) = desk.items("policy", "attachments", policy, "--type", "api_key", "--id", KEYS["tenant-reader"])
    assert one["attacheeId"] == KEYS["tenant-reader"]
    assert desk.items("policy", "attachments", policy, "--type", "api_key", "--id", NO_ID) == []
    assert "--id" in desk.refused(2, "policy", "attachments", policy, "--type", "api_key")
    assert "--type" in desk.refused(2, "policy", "attachments", policy, "--id", group)


def test_a_refused_key_gets_the_missing_permission(own_desk: Desk) -> None:
    desk = own_desk
    desk.attach(desk.policy(READ_TENANTS), "api_key", KEYS["terraform"])
    desk.home.frost("--config", "key.yaml", "config", "set", "api_key", desk.home.world_key("terraform"))
    assert desk.home.frost("--config", "key.yaml", "tenant", "list").code == 0
    renamed = desk.home.frost("--config", "key.yaml", "tenant", "rename", WEB_SHOP, "--name", "Mine")
    assert (renamed.code, renamed.out) == (4, "")
    assert "organizations:tenants:update" in renamed.err


def test_of_very_many_that_may_the_first_are_listed_and_all_counted(own_desk: Desk) -> None:
    desk, many = own_desk, 1_100
    desk.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
        " INSERT INTO workload_identities SELECT printf('%08d', i) || substr(w.id, 9), w.tenant_id, w.cluster_id,"
        " 'very-many', 'sa-' || i, '[\"compute:read\"]', w.created_by, w.created_at, w.updated_at"
        " FROM n, (SELECT * FROM workload_identities WHERE id = ?) AS w",
        many,
        IDENTITIES["checkout"],
    )
    asked = ("who", "--operation", "compute:instances:read", "--target", "*")
    found = desk.done(*asked)
    assert len([one for one in found["items"] if one["access"] == "allowed"]) == 1_000
    assert found["total"] > many
    assert (
        f"warning: only the first 1000 of {found['total']} allowed principals are listed"
        in desk.iam(*asked, "--quiet").err
    )
    assert f"{found['total']} of {found['examined']} principals are allowed" in desk.iam(*asked).err


def test_conditional_principals_are_listed_last_and_marked(own_desk: Desk) -> None:
    desk = own_desk
    asked = ("who", "--operation", "organizations:tenants:update", "--target", "*")
    before = desk.done(*asked)
    office = allow("organizations:tenants:update") | {"constraints": {"ipInRange": {"frn:sourceIp": ["192.0.2.0/24"]}}}
    desk.attach(desk.policy(office, name="office"), "api_key", KEYS["terraform"])
    found = desk.done(*asked)
    assert (found["total"], found["conditionalTotal"]) == (before["total"] - 1, before["conditionalTotal"] + 1)
    (row,) = [one for one in found["items"] if one["name"] == "terraform"]
    assert (row["access"], row in found["items"][found["total"] :]) == ("conditional", True)
    shown = desk.iam(*asked, "-o", "wide")
    (line,) = [line for line in shown.out.splitlines() if " terraform " in line]
    assert "conditional" in line
    assert "ipInRange frn:sourceIp 192.0.2.0/24" in line
    said = f"{found['total']} of {found['examined']} principals are allowed"
    assert f"{said}, {found['conditionalTotal']} more conditionally" in shown.err


def test_access_and_who_name_the_path_to_a_permission(own_desk: Desk) -> None:
    desk = own_desk
    group, policy = desk.group("renamers"), desk.policy(allow("organizations:tenants:update"), name="rename only")
    for key in ("terraform", "tenant-reader"):
        desk.add(group, "api_key", KEYS[key])
    desk.attach(policy, "group", group)
    assert desk.access("api_key", KEYS["terraform"]) == {"organizations:tenants:update": "allowed"}
    assert desk.access("api_key", KEYS["tenant-reader"]) == {}
    table = desk.iam("access", "api_key", KEYS["terraform"]).out
    assert "scope organizations:write, role admin, policy rename only rule 1 via group renamers" in table
    asked = ("who", "--operation", "organizations:tenants:update", "--target", "*")
    found = desk.done(*asked)
    names = {one["name"] for one in found["items"]}
    assert {"terraform", "tenant-writer"} <= names
    assert "tenant-reader" not in names
    assert found["examined"] > len(names)
    desk.done(
        "policy",
        "update",
        policy,
        "--document",
        '{"schemaVersion":"1","rules":[{"access":"deny","operations":["*"],"targets":["*"]}]}',
    )
    assert "terraform" not in {one["name"] for one in desk.items(*asked)}
    assert NO_ID in desk.refused(5, "access", "api_key", NO_ID)
    assert "'api_key', 'workload_identity', 'user'" in desk.refused(2, "access", "robot", NO_ID)
