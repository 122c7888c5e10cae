"""Groups, from the command line."""

import json

import pytest

from tests.acceptance.iam import IDENTITIES, KEYS, NO_ID, READ_TENANTS, Desk, requests
from tests.acceptance.people import DATA_LAKE

GROUP_COMMANDS = (
    "group create --name x",
    "group get {id}",
    "group list",
    "group update {id} --name x",
    "group delete {id} --force",
    "group member add {id} --type api_key --id {id}",
    "group member list {id}",
    "group member remove {id} --type api_key --id {id}",
)


def test_a_group_is_made_with_what_is_given(desk: Desk) -> None:
    made = desk.done("group", "create", "--name", "ops", "--description", "on call")
    assert (made["name"], made["description"], made["memberCount"]) == ("ops", "on call", 0)
    assert desk.done("group", "get", made["id"]) == made
    plain = desk.done("group", "create", "--name", "ops without words")
    assert plain["description"] == ""


def test_without_a_name_nothing_is_sent(desk: Desk) -> None:
    said = desk.refused(2, "group", "create", "-d")
    assert "--name is required" in said
    assert "POST" not in said


@pytest.mark.parametrize("name", ["", "   ", "x" * 129, "a\x07b", "a\u202eb", "a\u200bb"])
def test_a_name_that_is_none_is_refused(desk: Desk, name: str) -> None:
    before = len(desk.items("group", "list", "--all"))
    result = desk.iam("group", "create", "--name", name)
    assert result.code in (1, 2)
    assert "name" in result.err
    assert "\x07" not in result.err
    assert "\u202e" not in result.err
    assert len(desk.items("group", "list", "--all")) == before


def test_a_second_group_of_the_name_is_a_conflict_that_names_the_first(desk: Desk) -> None:
    first = desk.group("only one")
    assert first in desk.refused(6, "group", "create", "--name", "only one")


@pytest.mark.parametrize("unknown", [NO_ID, "x", "no such group"])
def test_what_is_not_there_is_not_found_and_named(desk: Desk, unknown: str) -> None:
    for words in (["get"], ["update", "--name", "n"], ["delete", "--force"], ["member", "list"]):
        assert unknown in desk.refused(5, "group", *words, unknown)


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


def test_groups_belong_to_one_tenant(desk: Desk) -> None:
    here = desk.group()
    assert here in [one["id"] for one in desk.items("group", "list", "--all")]
    assert here not in [one["id"] for one in desk.items("group", "list", "--all", "--tenant", DATA_LAKE)]
    desk.refused(5, "group", "get", here, "--tenant", DATA_LAKE)


def test_only_what_is_given_is_changed_and_an_empty_description_clears_it(desk: Desk) -> None:
    made = desk.group(description="on call")
    renamed = desk.done("group", "update", made, "--name", "operations")
    assert (renamed["name"], renamed["description"]) == ("operations", "on call")
    cleared = desk.done("group", "update", made, "--description", "")
    assert (cleared["name"], cleared["description"]) == ("operations", "")
    assert desk.iam("group", "update", made, "--name", "operations").err.startswith("nothing changed")


def test_nothing_to_change_is_refused(desk: Desk) -> None:
    assert "nothing to change" in desk.refused(2, "group", "update", desk.group())


def test_a_group_changed_meanwhile_is_a_conflict(desk: Desk) -> None:
    made = desk.group("before")
    desk.done("group", "update", made, "--name", "meanwhile", "--if-version", "1")
    said = desk.refused(6, "group", "update", made, "--name", "after", "--if-version", "1")
    assert "current version is 2, not 1" in said
    assert "meanwhile" in said
    assert desk.done("group", "get", made)["name"] == "meanwhile"


@pytest.mark.parametrize("typed", ["n", "", "no", "maybe"])
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


def test_without_a_terminal_nothing_is_deleted_unasked(desk: Desk) -> None:
    made = desk.group()
    assert "--force" in desk.refused(2, "group", "delete", made)
    assert desk.done("group", "get", made)["id"] == made


def test_the_members_and_the_policy_stay_when_their_group_goes(desk: Desk) -> None:
    group, policy = desk.group(), desk.policy(READ_TENANTS)
    desk.add(group, "api_key", KEYS["tenant-reader"])
    desk.attach(policy, "group", group)
    desk.done("group", "delete", group, "--force")
    assert desk.attached(policy) == set()
    assert desk.done("policy", "get", policy)["attachmentCount"] == 0
    assert desk.reads("tenant-reader") == 200


def test_what_members_lose_and_gain_is_said_before_and_true_after(own_desk: Desk) -> None:
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


@pytest.mark.parametrize("command", GROUP_COMMANDS)
def test_no_group_command_works_with_an_api_key(desk: Desk, command: str) -> None:
    group = desk.group()
    words = command.format(id=group).split()
    key = desk.home.world_key("terraform")
    # A context of its own with the key, so that the person stays signed in.
    config = desk.home.path / "key.yaml"
    if not config.exists():
        assert desk.home.frost("--config", str(config), "config", "set", "api_key", key).code == 0
    result = desk.home.frost("--config", str(config), "iam", *words, "-o", "json")
    error = json.loads(result.err.splitlines()[-1])["error"]
    assert (result.code, result.out, error["code"]) == (4, "", "SESSION_REQUIRED")
    assert "frost login" in error["hint"]
    assert desk.done("group", "get", group)["name"]
