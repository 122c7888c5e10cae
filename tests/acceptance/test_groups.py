"""Groups, attachments of policies, and the effects of a change before it is made."""

import json
import shlex

import pytest

from tests.acceptance.iam import IDENTITIES, KEYS, NO_ID, READ_TENANTS, Desk, allow, text
from tests.people import DATA_LAKE, VIEWER

MEMBER = ("group", "member")


def test_a_group_is_created_read_and_deleted_after_a_question(desk: Desk) -> None:
    made = desk.done("group", "create", "--name", "ops", "--description", "on call")
    group = made["id"]
    assert (made["name"], made["description"], made["memberCount"]) == ("ops", "on call", 0)
    assert desk.done("group", "get", group) == made
    assert desk.iam("group", "update", group, "--name", "ops").err.startswith("nothing changed")
    for typed in ("", "maybe"):
        code, shown = desk.answering(typed, "group", "delete", group)
        assert (code, "not confirmed" in shown) == (1, True)
    assert desk.done("group", "get", group) == made
    assert desk.answering("y", "group", "delete", group)[0] == 0
    forced = desk.group()
    assert desk.done("group", "delete", forced, "--force") == {"id": forced, "status": "deleted"}
    for gone in (group, forced):
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


@pytest.mark.slow
def test_with_many_principals_the_name_is_typed(own_desk: Desk) -> None:
    desk = own_desk
    group, policy = desk.group("many hands"), desk.policy(READ_TENANTS)
    for key in ("terraform", "tenant-writer", "tenant-reader", "former-admin", "viewer-dashboard"):
        desk.add(group, "api_key", KEYS[key])
    desk.attach(policy, "group", group)
    for typed in ("y", "many", ""):
        code, shown = desk.answering(typed, "group", "delete", group)
        assert (code, "Type many hands to confirm" in shown) == (1, True)
    assert desk.answering("many hands", "group", "delete", group)[0] == 0


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
    assert "--id" in desk.refused(2, "policy", "attachments", policy, "--type", "api_key")
    assert "--type" in desk.refused(2, "policy", "attachments", policy, "--id", group[3])


def test_access_and_who_name_the_path_the_conditions_and_the_first_of_many(own_desk: Desk) -> None:
    desk, many = own_desk, 1_100
    group, policy = desk.group("renamers"), desk.policy(allow("organizations:tenants:update"), name="rename only")
    desk.add(group, "api_key", KEYS["terraform"])
    desk.attach(policy, "group", group)
    table = desk.iam("access", "api_key", KEYS["terraform"]).out
    assert "scope organizations:write, role admin, policy rename only rule 1 via group renamers" in table
    assert "'api_key', 'workload_identity', 'user'" in desk.refused(2, "access", "robot", NO_ID)
    # Conditional principals are listed last and marked.
    words = ("who", "--operation", "organizations:tenants:update", "--target", "*")
    office = allow("organizations:tenants:update", ipInRange={"frn:sourceIp": ["192.0.2.0/24"]})
    desk.attach(desk.policy(office, name="office"), "api_key", KEYS["tenant-writer"])
    answer, shown = desk.done(*words), desk.iam(*words, "-o", "wide")
    (line,) = [line for line in shown.out.splitlines() if " tenant-writer " in line]
    assert "conditional" in line
    assert "ipInRange frn:sourceIp 192.0.2.0/24" in line
    total = f"{answer['total']} of {answer['examined']} principals are allowed"
    assert f"{total}, {answer['conditionalTotal']} more conditionally" in shown.err
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
    warning = f"warning: only the first 1000 of {answer['total']} allowed principals are listed"
    assert warning in desk.iam(*words, "--quiet").err


KEY = ("--type", "api_key", "--id", KEYS["terraform"])
BACK = "last policy removed, so limited only by scopes and the creator's permissions"


def effects(desk: Desk, *words: str) -> str:
    result = desk.iam(*words, "--dry-run")
    assert (result.code, result.err) == (0, "nothing was changed: this is a dry run\n"), result
    return result.out


@pytest.mark.slow
def test_a_dry_run_of_an_attachment_or_deletion_changes_nothing_and_has_the_words_of_the_question(
    own_desk: Desk,
) -> None:
    desk = own_desk
    group, policy, identity = desk.group("narrow"), desk.policy(READ_TENANTS), IDENTITIES["not-granted-yet"]
    assert "  api_key terraform\n    -" in effects(desk, *ATTACH, policy, *KEY)
    assert (desk.attached(policy), desk.renames("terraform")) == (set(), 200)
    desk.attach(policy, "api_key", KEYS["terraform"])
    assert BACK in effects(desk, *DETACH, policy, *KEY)
    assert desk.renames("terraform") == 403
    desk.done(*DETACH, policy, *KEY)
    for kind, identifier in (("api_key", KEYS["terraform"]), ("workload_identity", identity)):
        desk.add(group, kind, identifier)
    desk.attach(policy, "group", group)
    for words in (("group", "delete", group), ("policy", "delete", policy)):
        assert f"  api_key terraform\n    {BACK}\n    +" in effects(desk, *words)
        assert BACK in effects(desk, *words, "--force")
        code, shown = desk.answering("n", *words)
        assert (code, BACK in shown) == (1, True)
        assert desk.done(words[0], "get", words[2])["id"] == words[2]
    assert desk.renames("terraform") == 403
    code, shown = desk.answering("y", "group", "delete", group)
    assert code == 0
    for effect in (
        "2 memberships and 1 policy attachment",
        "loses its last permission",
        "-2 lost: organizations:tenants",
    ):
        assert effect in shown


def test_a_dry_run_of_an_update_or_rollback_saves_nothing(own_desk: Desk) -> None:
    desk, narrow = own_desk, text(allow("organizations:tenants:read"))
    policy = desk.policy(allow("organizations:tenants:read", "organizations:tenants:update"))
    desk.attach(policy, "api_key", KEYS["terraform"])
    effect = effects(desk, "policy", "update", policy, "--document", narrow)
    assert "-1 lost: organizations:tenants:update" in effect
    assert effects(desk, "policy", "update", policy, "--name", "other").startswith("no key or identity")
    assert desk.done("policy", "get", policy)["version"] == 1
    desk.done("policy", "update", policy, "--document", narrow)
    effect = effects(desk, "policy", "rollback", policy, "--version", "1")
    assert "+1 gained: organizations:tenants:update" in effect
    assert desk.done("policy", "get", policy)["version"] == 2
    back = desk.iam("policy", "rollback", policy, "--version", "1")
    assert (back.code, effect.strip().splitlines()[-1] in back.err) == (0, True)
    for words in (("--name", "other"), ("--document", narrow), ("--description", "d", "--document", narrow)):
        update = ("policy", "update", policy, *words)
        same = desk.done(*update, "--if-version", "3", "--dry-run")
        assert (set(same), same["refused"]) == ({"dryRun", "principals", "refused"}, None)
        real = desk.iam(*update, "--if-version", "1")
        stale = desk.iam(*update, "--if-version", "1", "--dry-run", "-o", "json")
        assert (real.code, stale.code, stale.json()["refused"]["code"]) == (6, 6, "STALE_VERSION")
        assert "the change would be refused: the current version is 3, not 1" in stale.error()["message"]
    for description, problem in (("x" * 1_025, "at most 1024 characters"), ("\x07", "must not contain control")):
        for dry in ((), ("--dry-run",)):
            assert problem in desk.refused(2, "policy", "update", policy, "--description", description, *dry)


def test_a_dry_run_of_a_refused_change_is_refused(own_desk: Desk) -> None:
    desk = own_desk
    group, policy = desk.group(), desk.policy(READ_TENANTS)
    desk.attach(policy, "group", group)
    desk.add(group, "api_key", KEYS["terraform"])
    desk.home.sign_in(VIEWER)
    for words in (
        ("group", "delete", group),
        ("policy", "delete", policy),
        (*ATTACH, policy, *KEY),
        (*MEMBER, "remove", group, *KEY),
    ):
        forced = ("--force",) if "delete" in words else ()
        real, dry = desk.iam(*words, *forced), desk.iam(*words, "--dry-run")
        assert (real.code, dry.code) == (4, 4), words
        assert "api_key terraform" in dry.out or "no key or identity" in dry.out
        assert "frost: the change would be refused: " + real.err.removeprefix("frost: ") in dry.err
    shown = desk.iam("group", "delete", group, "--dry-run", "-o", "json")
    assert json.loads(shown.out)["refused"]["code"] == "PRINCIPAL_EXCEEDS_AUTHOR"
    assert (shown.code, json.loads(shown.err)["error"]["code"]) == (4, "PRINCIPAL_EXCEEDS_AUTHOR")
    for kind in ("group", "policy"):
        assert f"{kind} {NO_ID} not found" in desk.refused(5, kind, "delete", NO_ID, "--dry-run")
    for words, relation in (
        ((*DETACH, policy, *KEY), f"policy {policy} is not attached to api_key {KEYS['terraform']}"),
        ((*MEMBER, "remove", desk.group(), *KEY), f"api_key {KEYS['terraform']} is not a member of group "),
    ):
        assert relation in desk.refused(5, *words)
        dry = desk.iam(*words, "--dry-run", "-o", "json")
        assert (dry.code, json.loads(dry.out)["refused"]["code"]) == (5, "NOT_FOUND")
        assert relation in dry.error()["message"]
    # There is no question before a refused change.
    program = desk.on_terminal("group", "delete", group)
    assert program.wait_end() == 4
    assert ("the change would be refused" in program.text, "undone" in program.text) == (True, False)


def test_a_wide_deletion_shows_the_whole_name_to_type(own_desk: Desk) -> None:
    desk, name = own_desk, "群" * 100
    group = desk.group(name)
    desk.attach(desk.policy(READ_TENANTS), "group", group)
    desk.add(group, "workload_identity", IDENTITIES["not-granted-yet"])
    for key in ("terraform", "tenant-writer", "tenant-reader", "viewer-dashboard"):
        desk.add(group, "api_key", KEYS[key])
    program = desk.on_terminal("group", "delete", group, columns=300)
    program.wait_for(f"Type {name} to confirm:")
    program.until_quiet(0.2, 5)
    program.write(f"{name}\r".encode())
    assert program.wait_end() == 0


def test_the_four_paged_lists_take_limit_cursor_and_all(desk: Desk) -> None:
    group, policy = desk.group(), desk.policy(READ_TENANTS)
    for key in ("terraform", "tenant-writer", "tenant-reader"):
        desk.raw("POST", f"/iam/groups/{group}/members", {"memberType": "api_key", "memberId": KEYS[key]})
        desk.attach(policy, "api_key", KEYS[key])
        desk.group()
    for listing in (
        ("group", "list"),
        ("group", "member", "list", group),
        ("policy", "list"),
        ("policy", "attachments", policy),
    ):
        first = desk.done(*listing, "--limit", "1")
        assert (len(first["items"]), bool(first["nextCursor"])) == (1, True), listing
        second = desk.done(*listing, "--limit", "1", "--cursor", first["nextCursor"])
        assert second["items"] != first["items"]
        everything = desk.done(*listing, "--all", "--limit", "2")
        assert everything["items"][:2] == first["items"] + second["items"]
        assert everything["nextCursor"] == ""


def test_the_next_command_reads_the_next_page(desk: Desk) -> None:
    made = [desk.done("group", "create", "--name", name, "--tenant", DATA_LAKE)["id"] for name in ("g 1", "g 2", "g 3")]
    words, env = ("groups", "list", "--limit", "1"), {"FROST_TENANT": DATA_LAKE}
    shown = desk.iam(*words, **env)
    for expected in made[1:]:
        assert shown.err.startswith("more: frost ")
        shown = desk.home.frost(*shlex.split(shown.err.removeprefix("more: "))[1:])
        assert [line.split()[2] for line in shown.out.splitlines()[1:]] == [expected]
    assert shown.err == ""
    assert desk.iam("-q", *words, **env).err == ""
