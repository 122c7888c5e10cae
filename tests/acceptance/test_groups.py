"""Groups, from the command line."""

import pytest

from tests.acceptance.iam import IDENTITIES, KEYS, READ_TENANTS, Desk

MEMBER = ("group", "member")


def test_a_group_is_created_read_and_deleted(desk: Desk) -> None:
    made = desk.done("group", "create", "--name", "ops", "--description", "on call")
    assert (made["name"], made["description"], made["memberCount"]) == ("ops", "on call", 0)
    assert desk.done("group", "get", made["id"]) == made
    assert desk.done("group", "create", "--name", "without description")["description"] == ""
    assert desk.iam("group", "update", made["id"], "--name", "ops").err.startswith("nothing changed")
    for typed in ("n", "", "maybe"):
        code, shown = desk.answering(typed, "group", "delete", made["id"])
        assert (code, "not confirmed" in shown) == (1, True)
        assert desk.done("group", "get", made["id"])["id"] == made["id"]
    assert desk.answering("y", "group", "delete", made["id"])[0] == 0
    forced = desk.group()
    assert desk.done("group", "delete", forced, "--force") == {"id": forced, "status": "deleted"}
    for gone in (made["id"], forced):
        desk.refused(5, "group", "get", gone)


def test_keys_and_identities_are_members_once_and_shown_with_the_group(desk: Desk) -> None:
    group = desk.group()
    for kind, identifier in (("api_key", KEYS["terraform"]), ("workload_identity", IDENTITIES["checkout"])):
        words = (*MEMBER, "add", group, "--type", kind, "--id", identifier)
        assert "is a member" in desk.iam(*words).err
        again = desk.iam(*words)
        assert (again.code, again.err) == (0, "already a member\n")
        pair = {"groupId": group, "memberType": kind, "memberId": identifier}
        assert desk.done(*words) == {**pair, "changed": False}
        assert desk.done(*MEMBER, "remove", *words[3:])["memberId"] == identifier
        assert desk.done(*words) == {**pair, "changed": True}
    assert {one["memberName"] for one in desk.items("group", "member", "list", group)} == {"terraform", "shop/checkout"}
    assert desk.iam("groups", "members", "list", group).out == desk.iam("group", "member", "list", group).out
    table = desk.iam("group", "get", group).out
    assert all(text in table for text in ("members:", KEYS["terraform"], "terraform"))


def test_deleting_a_group_lists_its_effects_first(own_desk: Desk) -> None:
    desk = own_desk
    group, policy = desk.group("narrow"), desk.policy(READ_TENANTS)
    identity = IDENTITIES["not-granted-yet"]
    desk.add(group, "api_key", KEYS["terraform"])
    desk.add(group, "workload_identity", identity)
    desk.attach(policy, "group", group)
    assert (desk.reads("terraform"), desk.renames("terraform")) == (200, 403)
    assert desk.access("workload_identity", identity)["organizations:tenants:read"] == "allowed"
    code, shown = desk.answering("y", "group", "delete", group)
    assert code == 0
    assert "2 memberships and 1 policy attachment" in shown
    for effect in ("last policy removed: limited only", "loses its last permission", "-2 lost: organizations:tenants"):
        assert effect in shown
    assert (desk.reads("terraform"), desk.renames("terraform")) == (200, 200)


@pytest.mark.slow
def test_with_many_principals_the_name_is_typed(own_desk: Desk) -> None:
    desk = own_desk
    group, policy = desk.group("many hands"), desk.policy(READ_TENANTS)
    for key in ("terraform", "tenant-writer", "tenant-reader", "former-admin", "viewer-dashboard"):
        desk.add(group, "api_key", KEYS[key])
    desk.attach(policy, "group", group)
    for typed in ("y", "yes", "many", ""):
        code, shown = desk.answering(typed, "group", "delete", group)
        assert (code, "Type many hands to confirm" in shown) == (1, True)
    assert desk.answering("many hands", "group", "delete", group)[0] == 0
