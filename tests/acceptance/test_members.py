"""The members of a group, from the command line."""

import pytest

from tests.acceptance.iam import IDENTITIES, KEYS, NO_ID, Desk, deny
from tests.acceptance.people import DATA_LAKE

ADD = ("group", "member", "add")
REMOVE = ("group", "member", "remove")


def test_keys_and_identities_are_members_and_listed_as_pairs(desk: Desk) -> None:
    group = desk.group()
    pairs = {("api_key", KEYS["terraform"]), ("workload_identity", IDENTITIES["checkout"])}
    for kind, identifier in pairs:
        made = desk.done(*ADD, group, "--type", kind, "--id", identifier)
        assert made == {"groupId": group, "memberType": kind, "memberId": identifier, "changed": True}
    assert desk.members(group) == pairs
    assert {one["memberName"] for one in desk.items("group", "member", "list", group)} == {"terraform", "shop/checkout"}
    assert desk.iam("groups", "members", "list", group).out == desk.iam("group", "member", "list", group).out


@pytest.mark.parametrize("kind", ["group", "user", "API_KEY", ""])
def test_another_type_is_refused_with_the_values(desk: Desk, kind: str) -> None:
    group = desk.group()
    for words in (ADD, REMOVE):
        said = desk.refused(2, *words, group, "--type", kind, "--id", group)
        assert "'api_key', 'workload_identity'" in said
    assert desk.members(group) == set()


@pytest.mark.parametrize("command", [ADD, REMOVE])
def test_both_flags_are_needed(desk: Desk, command: tuple[str, ...]) -> None:
    assert "--type is required" in desk.refused(2, *command, NO_ID, "--id", NO_ID)
    assert "--id is required" in desk.refused(2, *command, NO_ID, "--type", "api_key")


def test_the_same_pair_twice_is_one_member(desk: Desk) -> None:
    group, words = desk.group(), ("--type", "api_key", "--id", KEYS["terraform"])
    assert "is a member" in desk.iam(*ADD, group, *words).err
    again = desk.iam(*ADD, group, *words)
    assert (again.code, again.err) == (0, "already a member\n")
    assert desk.done(*ADD, group, *words)["changed"] is False
    assert len(desk.items("group", "member", "list", group)) == 1


def test_the_same_id_under_two_types_is_two_members(own_desk: Desk) -> None:
    group, shared = own_desk.group(), KEYS["terraform"]
    own_desk.sql("PRAGMA foreign_keys = OFF")
    own_desk.sql("UPDATE workload_identities SET id = ? WHERE id = ?", shared, IDENTITIES["not-granted-yet"])
    for kind in ("api_key", "workload_identity"):
        own_desk.add(group, kind, shared)
    assert own_desk.members(group) == {("api_key", shared), ("workload_identity", shared)}
    own_desk.done(*REMOVE, group, "--type", "api_key", "--id", shared)
    assert own_desk.members(group) == {("workload_identity", shared)}


def test_what_is_not_here_is_not_found_in_the_same_words(own_desk: Desk) -> None:
    elsewhere = own_desk.sql("SELECT id FROM api_keys WHERE tenant_id = ?", DATA_LAKE)[0][0]
    deleted = KEYS["viewer-dashboard"]
    own_desk.sql("DELETE FROM api_keys WHERE id = ?", deleted)
    group, said = own_desk.group(), set()
    for identifier in (NO_ID, deleted, elsewhere):
        words = own_desk.refused(5, *ADD, group, "--type", "api_key", "--id", identifier)
        said.add(words.replace(identifier, "ID"))
    assert len(said) == 1
    assert own_desk.members(group) == set()


def test_a_member_is_removed_once(desk: Desk) -> None:
    group = desk.group()
    desk.add(group, "api_key", KEYS["terraform"])
    desk.add(group, "workload_identity", IDENTITIES["checkout"])
    words = ("--type", "api_key", "--id", KEYS["terraform"])
    assert desk.done(*REMOVE, group, *words)["status"] == "removed"
    assert desk.members(group) == {("workload_identity", IDENTITIES["checkout"])}
    assert KEYS["terraform"] in desk.refused(5, *REMOVE, group, *words)
    assert desk.members(group) == {("workload_identity", IDENTITIES["checkout"])}


def test_a_revoked_key_stays_and_gives_nothing_and_a_deleted_identity_leaves(own_desk: Desk) -> None:
    group = own_desk.group()
    policy = own_desk.policy(deny("compute:*"))
    own_desk.attach(policy, "group", group)
    for kind, identifier in (("api_key", KEYS["contractor-2025"]), ("workload_identity", IDENTITIES["checkout"])):
        own_desk.add(group, kind, identifier)
    assert ("api_key", KEYS["contractor-2025"]) in own_desk.members(group)
    assert own_desk.reads("contractor-2025") == 401
    gone = own_desk.raw("DELETE", f"/workload-identity/bindings/{IDENTITIES['checkout']}")
    assert gone.status == 204
    assert own_desk.members(group) == {("api_key", KEYS["contractor-2025"])}
