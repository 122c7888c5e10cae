"""Groups, from the command line."""

import pytest

from tests.acceptance.iam import IDENTITIES, KEYS, NO_ID, READ_TENANTS, Desk, requests

MEMBER = ("group", "member")


def test_a_group_is_created_and_read(desk: Desk) -> None:
    made = desk.done("group", "create", "--name", "ops", "--description", "on call")
    assert (made["name"], made["description"], made["memberCount"]) == ("ops", "on call", 0)
    assert desk.done("group", "get", made["id"]) == made
    plain = desk.done("group", "create", "--name", "ops without words")
    assert plain["description"] == ""
    assert desk.iam("group", "update", made["id"], "--name", "ops").err.startswith("nothing changed")


@pytest.mark.parametrize("name", ["../policies", "a/b", "a%2fb", "..", "a\\b", "a\nb"])
def test_a_name_is_never_part_of_a_path(desk: Desk, name: str) -> None:
    for words, listed in (
        (["group", "get", name], "groups"),
        (["policy", "get", name], "policies"),
        (["policy", "diff", name], "policies"),
        (["group", "member", "list", name], "groups"),
        (["group", "member", "add", NO_ID, "--type", "api_key", "--id", name], "api-keys"),
        (["policy", "attach", NO_ID, "--type", "api_key", "--id", name], "api-keys"),
    ):
        paths = [path for method, path in requests(desk.refused(5, *words, "-d")) if method == "GET"]
        assert paths[-2].endswith(listed)
        assert not [path for path in paths if name in path]


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_name_is_refused_before_a_request(desk: Desk, empty: str) -> None:
    for words in (["group", "get"], ["policy", "get"], ["policy", "diff"], ["group", "member", "list"]):
        assert "/api/" not in desk.refused(2, *words, empty, "-d")
    for words in (["group", "member", "add", NO_ID], ["policy", "attach", NO_ID]):
        assert "/api/" not in desk.refused(2, *words, "--type", "api_key", "--id", empty, "-d")


@pytest.mark.parametrize("typed", ["n", "", "maybe"])
def test_deleting_asks_and_anything_but_yes_deletes_nothing(desk: Desk, typed: str) -> None:
    made = desk.group()
    code, shown = desk.answering(typed, "group", "delete", made)
    assert (code, "not confirmed" in shown) == (1, True)
    assert desk.done("group", "get", made)["id"] == made


def test_yes_or_force_delete(desk: Desk) -> None:
    for made in (asked := desk.group(), forced := desk.group()):
        assert desk.done("group", "get", made)["id"]
    assert desk.answering("y", "group", "delete", asked)[0] == 0
    assert desk.done("group", "delete", forced, "--force") == {"id": forced, "status": "deleted"}
    for made in (asked, forced):
        desk.refused(5, "group", "get", made)


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
    lines = [line.strip() for line in shown.splitlines()]
    assert "2 memberships and 1 policy attachment" in shown
    after_key = lines[lines.index("api_key terraform") :]
    assert after_key[1] == "loses its last policy: limited only by its scopes and its creator's permissions"
    assert any(line.startswith("+") for line in after_key)
    after_identity = lines[lines.index("workload_identity default/not-granted-yet") :]
    assert after_identity[1:3] == [
        "loses its last permission; its next request is denied",
        "-2 lost: organizations:tenants:read and 1 more",
    ]
    assert (desk.reads("terraform"), desk.renames("terraform")) == (200, 200)
    assert desk.access("workload_identity", identity) == {}


@pytest.mark.slow
def test_where_many_are_concerned_the_name_has_to_be_typed(own_desk: Desk) -> None:
    desk = own_desk
    group, policy = desk.group("many hands"), desk.policy(READ_TENANTS)
    for key in ("terraform", "tenant-writer", "tenant-reader", "former-admin", "viewer-dashboard"):
        desk.add(group, "api_key", KEYS[key])
    desk.attach(policy, "group", group)
    for typed in ("y", "yes", "many", ""):
        code, shown = desk.answering(typed, "group", "delete", group)
        assert (code, "Type many hands to confirm" in shown) == (1, True)
    assert desk.answering("many hands", "group", "delete", group)[0] == 0


def test_keys_and_identities_are_members_and_listed_as_pairs(desk: Desk) -> None:
    group = desk.group()
    pairs = {("api_key", KEYS["terraform"]), ("workload_identity", IDENTITIES["checkout"])}
    for kind, identifier in pairs:
        made = desk.done(*MEMBER, "add", group, "--type", kind, "--id", identifier)
        assert made == {"groupId": group, "memberType": kind, "memberId": identifier, "changed": True}
    assert desk.members(group) == pairs
    assert {one["memberName"] for one in desk.items("group", "member", "list", group)} == {"terraform", "shop/checkout"}
    assert desk.iam("groups", "members", "list", group).out == desk.iam("group", "member", "list", group).out


def test_the_same_pair_twice_is_one_member(desk: Desk) -> None:
    group, words = desk.group(), ("--type", "api_key", "--id", KEYS["terraform"])
    assert "is a member" in desk.iam(*MEMBER, "add", group, *words).err
    again = desk.iam(*MEMBER, "add", group, *words)
    assert (again.code, again.err) == (0, "already a member\n")
    assert desk.done(*MEMBER, "add", group, *words)["changed"] is False
    assert len(desk.items("group", "member", "list", group)) == 1
