"""Unknown ids are refused with the next step."""

from tests.acceptance.iam import KEYS, NO_ID, READ_TENANTS, Desk, allow, text
from tests.acceptance.people import DATA_LAKE, OWNER, WEB_SHOP

PAIR = ("--type", "api_key", "--id")
OTHER_ID = NO_ID.replace("7b60", "7b61")


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


def test_the_missing_one_of_policy_and_principal_is_named(desk: Desk) -> None:
    policy, group, pair = desk.policy(READ_TENANTS), desk.group(), (*PAIR, KEYS["terraform"])
    for command in ("attach", "detach"):
        for principal in (KEYS["terraform"], OTHER_ID):
            message = desk.refused(5, "policy", command, NO_ID, *PAIR, principal)
            assert f"policy {NO_ID} not found in this tenant" in message
            assert "api_key" not in message
        message = desk.refused(5, "policy", command, policy, *PAIR, OTHER_ID)
        assert f"policy {policy} not found" not in message
        assert f"api_key {OTHER_ID}" in message
    message = desk.refused(5, "policy", "detach", policy, *pair)
    assert f"policy {policy} is not attached to api_key {KEYS['terraform']}" in message
    assert f"frost iam policy attachments {policy}" in message
    message = desk.refused(5, "group", "member", "remove", group, *pair)
    assert f"api_key {KEYS['terraform']} is not a member of group {group}" in message
    assert f"frost iam group member list {group}" in message
    assert f"api_key {NO_ID} not found" in desk.refused(5, "group", "member", "add", group, *PAIR, NO_ID)


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
