"""`--dry-run` lists the effects of a change and changes nothing."""

import json

from tests.acceptance.iam import KEYS, READ_TENANTS, Desk, allow, text
from tests.acceptance.people import VIEWER

ATTACH = ("policy", "attach")
DETACH = ("policy", "detach")
REMOVE = ("group", "member", "remove")
KEY = ("--type", "api_key", "--id", KEYS["terraform"])
BACK = "last policy removed: limited only by scopes and creator's permissions"


def effects(desk: Desk, *words: str) -> str:
    """The effects that a dry run lists."""
    result = desk.iam(*words, "--dry-run")
    assert (result.code, result.err) == (0, "nothing was changed: this is a dry run\n"), result
    return result.out


def test_a_dry_run_of_an_attachment_changes_nothing(own_desk: Desk) -> None:
    desk = own_desk
    policy = desk.policy(READ_TENANTS)
    effect = effects(desk, *ATTACH, policy, *KEY)
    assert "  api_key terraform\n    -" in effect
    assert (desk.attached(policy), desk.renames("terraform")) == (set(), 200)
    desk.attach(policy, "api_key", KEYS["terraform"])
    assert BACK in effects(desk, *DETACH, policy, *KEY)
    assert desk.renames("terraform") == 403
    # The same words as those of the deletion that would do it.
    code, deleting = desk.answering("n", "policy", "delete", policy)
    assert code == 1
    assert BACK in deleting


def test_a_dry_run_of_a_deletion_deletes_nothing(own_desk: Desk) -> None:
    desk = own_desk
    group, policy = desk.group(), desk.policy(READ_TENANTS)
    desk.attach(policy, "group", group)
    desk.add(group, "api_key", KEYS["terraform"])
    for words in (("group", "delete", group), ("policy", "delete", policy)):
        assert f"  api_key terraform\n    {BACK}\n    +" in effects(desk, *words)
        assert BACK in effects(desk, *words, "--force")
        assert desk.done(words[0], "get", words[2])["id"] == words[2]
    assert desk.renames("terraform") == 403


def test_a_dry_run_of_an_update_or_rollback_saves_nothing(own_desk: Desk) -> None:
    desk = own_desk
    policy = desk.policy(allow("organizations:tenants:read", "organizations:tenants:update"))
    desk.attach(policy, "api_key", KEYS["terraform"])
    effect = effects(desk, "policy", "update", policy, "--document", text(allow("organizations:tenants:read")))
    assert "-1 lost: organizations:tenants:update" in effect
    assert effects(desk, "policy", "update", policy, "--name", "other").startswith("no key or identity")
    assert desk.done("policy", "get", policy)["version"] == 1
    desk.done("policy", "update", policy, "--document", text(allow("organizations:tenants:read")))
    effect = effects(desk, "policy", "rollback", policy, "--version", "1")
    assert "+1 gained: organizations:tenants:update" in effect
    assert desk.done("policy", "get", policy)["version"] == 2
    back = desk.iam("policy", "rollback", policy, "--version", "1")
    assert (back.code, effect.strip().splitlines()[-1] in back.err) == (0, True)
    desk.done("policy", "update", policy, "--document", text(allow("organizations:tenants:read")))
    stale = desk.iam("policy", "update", policy, "--name", "other", "--if-version", "1", "--dry-run", "-q")
    warning = "frost: warning: the current version is 4: with --if-version 1 the change would be refused\n"
    assert (stale.code, stale.err) == (0, warning)


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
        (*REMOVE, group, *KEY),
    ):
        forced = ("--force",) if "delete" in words else ()
        real, dry = desk.iam(*words, *forced), desk.iam(*words, "--dry-run")
        assert (real.code, dry.code) == (4, 4), words
        assert "api_key terraform" in dry.out or "no key or identity" in dry.out
        assert "frost: the change would be refused: " + real.err.removeprefix("frost: ") in dry.err
    shown = desk.iam("group", "delete", group, "--dry-run", "-o", "json")
    assert json.loads(shown.out)["refused"]["code"] == "PRINCIPAL_EXCEEDS_AUTHOR"
    assert (shown.code, json.loads(shown.err)["error"]["code"]) == (4, "PRINCIPAL_EXCEEDS_AUTHOR")
    # There is no question before a refused change.
    program = desk.on_terminal("group", "delete", group)
    assert program.wait_end() == 4
    assert ("the change would be refused" in program.text, "undone" in program.text) == (True, False)
