"""Exit codes of refusals, and unknown ids that are refused with the next step."""

import pytest

from tests.acceptance.iam import KEYS, NO_ID, READ_TENANTS, Desk, allow, text
from tests.acceptance.people import DATA_LAKE, OWNER, WEB_SHOP

READ = text(allow("dns:zones:read"))
SAVED = "de1b1471-320a-48ea-b7a7-88d106762832"
"""A policy of the demo world in its third version."""
GROUP = "142c8364-7806-4577-93e7-83e7eb04b39b"
API_KEY = ("--type", "api_key", "--id")
PAIR = (*API_KEY, KEYS["terraform"])
TRIED = ("--operation", "dns:zones:read", "--target", "*")
OTHER_ID = NO_ID.replace("7b60", "7b61")
LONG = "x" * 1_100
REFUSED = {
    2: (
        ("group", "create", "--name", "n", "--description", LONG),
        ("policy", "update", SAVED, "--name", LONG),
        ("policy", "update", SAVED, "--name", "a\u202eb"),
        ("group", "list", "--cursor", ""),
        ("group", "list", "--tenant", DATA_LAKE, "--cursor", "%00"),
        ("policy", "list", "--limit", "201"),
        ("policy", "update", SAVED),
        ("group", "update", GROUP),
        ("who", "--operation", "dns:zones:nothing", "--target", "*"),
        ("simulate", "--document", READ, "--operation", "dns:zones:nothing", "--target", "*"),
        ("simulate", "--document", text(allow("no:such:op")), *TRIED),
        ("policy", "get", SAVED, "--version", "0"),
        ("group", "delete", GROUP),
    ),
    6: (
        ("group", "create", "--name", "deployers"),
        ("group", "update", GROUP, "--name", "n", "--if-version", "9"),
        ("policy", "update", SAVED, "--name", "n", "--if-version", "9"),
    ),
}


@pytest.mark.parametrize("code", REFUSED)
def test_a_refusal_ends_with_its_code(desk: Desk, code: int) -> None:
    for words in REFUSED[code]:
        desk.refused(code, *words)


def test_an_unknown_id_is_refused_with_the_list(desk: Desk) -> None:
    for kind in ("policy", "group"):
        message = desk.refused(5, kind, "get", NO_ID)
        assert f"{kind} {NO_ID} not found in this tenant. List the " in message
        assert message.endswith(f": frost iam {kind} list --all\n")
    there = desk.refused(5, "policy", "get", NO_ID, "--tenant", DATA_LAKE)
    assert there.endswith(f": frost iam policy list --all --tenant {DATA_LAKE}\n")
    assert WEB_SHOP not in there
    assert "frost completion --help" in desk.refused(5, "access", "api_key", NO_ID)
    message = desk.refused(5, "access", "user", OWNER)
    assert f"user takes an id, {OWNER} is an address. List users with: frost iam who " in message
    assert "tenant access denied" in desk.refused(4, "group", "list", FROST_TENANT=NO_ID)


def test_the_missing_one_of_policy_and_principal_is_named(desk: Desk) -> None:
    policy, group = desk.policy(READ_TENANTS), desk.group()
    for command in ("attach", "detach"):
        for principal in (KEYS["terraform"], OTHER_ID):
            message = desk.refused(5, "policy", command, NO_ID, *API_KEY, principal)
            assert f"policy {NO_ID} not found in this tenant" in message
            assert "api_key" not in message
        message = desk.refused(5, "policy", command, policy, *API_KEY, OTHER_ID)
        assert f"policy {policy} not found" not in message
        assert f"api_key {OTHER_ID}" in message
    message = desk.refused(5, "policy", "detach", policy, *PAIR)
    assert f"policy {policy} is not attached to api_key {KEYS['terraform']}" in message
    assert f"frost iam policy attachments {policy}" in message
    message = desk.refused(5, "group", "member", "remove", group, *PAIR)
    assert f"api_key {KEYS['terraform']} is not a member of group {group}" in message
    assert f"frost iam group member list {group}" in message
    assert f"api_key {NO_ID} not found" in desk.refused(5, "group", "member", "add", group, *API_KEY, NO_ID)


def test_an_unknown_version_is_refused_with_the_known_ones(desk: Desk) -> None:
    policy = desk.policy(READ_TENANTS)
    commands = (
        ("get", policy, "--version", "9"),
        ("rollback", policy, "--version", "9"),
        ("diff", policy, "--to", "9"),
    )
    for words in commands:
        assert "has no version 9, only version 1" in desk.refused(5, "policy", *words)
    for operation in ("compute:instances:read", "compute:instances:list"):
        desk.done("policy", "update", policy, "--document", text(allow(operation)))
    for words in commands:
        message = desk.refused(5, "policy", *words)
        assert "only versions 1 to 3. List them: frost iam policy history" in message
        assert " or " not in message
    assert f"policy {NO_ID} not found" in desk.refused(5, "policy", "rollback", NO_ID, "--version", "9")


def test_a_key_without_a_session_ends_with_4_and_an_unknown_one_with_3(own_desk: Desk) -> None:
    home = own_desk.home
    assert home.frost("logout").code == 0
    for key, code in ((home.world_key("terraform"), 4), (f"fmk_{'a' * 36}", 3)):
        assert home.frost("config", "set", "api_key", key).code == 0
        for words in (("group", "list"), ("policy", "create", "--name", "n", "--document", READ), ("who", *TRIED)):
            refusal = own_desk.refused(code, *words)
            assert code == 3 or "interactive session" in refusal
