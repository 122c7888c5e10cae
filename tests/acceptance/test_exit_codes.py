"""The same kind of refusal ends every command in the same way, and unknown ids are refused with the next step."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.iam import KEYS, NO_ID, READ_TENANTS, Desk, allow, text
from tests.acceptance.people import DATA_LAKE, OWNER, WEB_SHOP
from tests.conftest import opened

READ = text(allow("dns:zones:read"))
SAVED = "de1b1471-320a-48ea-b7a7-88d106762832"
"""A policy of the demo world in its third version."""
GROUP = "142c8364-7806-4577-93e7-83e7eb04b39b"
API_KEY = ("--type", "api_key", "--id")
PAIR = (*API_KEY, KEYS["terraform"])
TRIED = ("--operation", "dns:zones:read", "--target", "*")
OTHER_ID = NO_ID.replace("7b60", "7b61")
LONG = "x" * 1_100

NAMED = [
    ("group", "get", NO_ID),
    ("group", "update", NO_ID, "--name", "n"),
    ("group", "delete", NO_ID, "--force"),
    ("group", "member", "list", NO_ID),
    ("group", "member", "add", NO_ID, *PAIR),
    ("group", "member", "remove", NO_ID, *PAIR),
    ("policy", "get", NO_ID),
    ("policy", "update", NO_ID, "--document", READ),
    ("policy", "delete", NO_ID, "--force"),
    ("policy", "attach", NO_ID, *PAIR),
    ("policy", "detach", NO_ID, *PAIR),
    ("policy", "attachments", NO_ID),
    ("policy", "history", NO_ID),
    ("policy", "diff", NO_ID),
    ("policy", "rollback", NO_ID, "--version", "1"),
    ("access", "api_key", NO_ID),
]
UNNAMED = [
    ("group", "list"),
    ("group", "create", "--name", "n"),
    ("policy", "list"),
    ("policy", "create", "--name", "n", "--document", READ),
    ("policy", "check", "--document", READ),
    ("simulate", "--document", READ, *TRIED),
    ("who", *TRIED),
]
DOCUMENTED = [
    ("policy", "create", "--name", "n"),
    ("policy", "update", SAVED),
    ("policy", "check"),
    ("simulate", *TRIED),
]


@pytest.fixture(scope="module")
def machine(demo_platform: Path) -> Iterator[Desk]:
    """A machine with an API key of the tenant and no session."""
    home = opened(demo_platform, FROST_PLATFORM_PROVISIONING_PACE="600")
    home.start()
    assert home.frost("config", "set", "api_key", home.world_key("terraform")).code == 0
    yield Desk(home)
    home.remove()


@pytest.mark.parametrize("words", NAMED, ids=" ".join)
def test_an_unknown_id_ends_with_5(desk: Desk, words: tuple[str, ...]) -> None:
    desk.refused(5, *words)


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


@pytest.mark.parametrize("words", [*NAMED, *UNNAMED], ids=lambda words: " ".join(words[:3]))
def test_a_key_and_a_stranger_end_with_4(machine: Desk, desk: Desk, words: tuple[str, ...]) -> None:
    assert "interactive session" in machine.refused(4, *words)
    # In `simulate` the flag is a fact of the request.
    assert "tenant access denied" in desk.refused(4, *words, FROST_TENANT=NO_ID)


@pytest.mark.parametrize("words", DOCUMENTED, ids=lambda words: " ".join(words[:2]))
def test_an_invalid_document_ends_with_2(desk: Desk, words: tuple[str, ...]) -> None:
    duplicate = '{"schemaVersion":"1","schemaVersion":"1"}'
    for document in ("", "{", "[]", duplicate, text(allow("no:such:op")), "@none"):
        desk.refused(2, *words, "--document", document)


def test_an_invalid_value_ends_with_2(desk: Desk) -> None:
    for words in (
        ("group", "create", "--name", " "),
        ("group", "create", "--name", LONG),
        ("group", "create", "--name", "a\u202eb"),
        ("group", "create", "--name", "n", "--description", LONG),
        ("group", "update", GROUP, "--description", LONG),
        ("policy", "create", "--name", "n", "--description", LONG, "--document", READ),
        ("policy", "update", SAVED, "--name", LONG),
        ("policy", "update", SAVED, "--name", "a\u202eb"),
        ("group", "list", "--cursor", ""),
        ("group", "list", "--cursor", "x"),
        ("policy", "list", "--limit", "201"),
        ("group", "list", "--tenant", DATA_LAKE, "--cursor", "%00"),
        ("policy", "update", SAVED),
        ("who", "--operation", "dns:zones", "--target", "*"),
        ("who", "--operation", "dns:zones:nothing", "--target", "*"),
        ("simulate", "--document", READ, "--operation", "dns:zones:nothing", "--target", "*"),
        ("group", "update", GROUP),
        ("policy", "get", SAVED, "--version", "0"),
        ("group", "delete", GROUP),
        ("policy", "delete", SAVED),
    ):
        desk.refused(2, *words)


def test_a_policy_beyond_its_author_ends_with_4(own_desk: Desk) -> None:
    strong = own_desk.policy(allow("*"))
    own_desk.home.sign_in("viewer@aurora.example")
    beyond = text(allow("organizations:tenants:update"))
    for words in (
        ("policy", "update", own_desk.policy(allow("compute:instances:read")), "--document", beyond),
        ("policy", "attach", strong, *PAIR),
        ("policy", "rollback", SAVED, "--version", "1"),
    ):
        own_desk.refused(4, *words)


def test_a_conflict_ends_with_6(desk: Desk) -> None:
    group, other = desk.group("conflicting"), desk.group()
    for words in (
        ("group", "create", "--name", "conflicting"),
        ("group", "update", other, "--name", "conflicting"),
        ("group", "update", group, "--name", "n", "--if-version", "9"),
        ("policy", "update", SAVED, "--name", "n", "--if-version", "9"),
    ):
        desk.refused(6, *words)


def test_a_session_that_is_over_ends_with_3(own_desk: Desk) -> None:
    assert own_desk.home.frost("logout").code == 0
    assert own_desk.home.frost("config", "set", "api_key", f"fmk_{'a' * 36}").code == 0
    for words in ("iam catalog", "iam group list", "tenant list", "whoami", f"tenant rename {WEB_SHOP} --name n"):
        assert own_desk.home.frost(*words.split()).code == 3, words
    assert own_desk.home.frost("iam", "who", *TRIED).code == 3


@pytest.mark.slow
def test_a_platform_out_of_reach_ends_with_7(own_desk: Desk) -> None:
    key = own_desk.home.world_key("terraform")
    assert own_desk.home.frost("config", "set", "api_endpoint", "http://127.0.0.1:9/api").code == 0
    assert own_desk.home.frost("config", "set", "api_key", key).code == 0
    for words in (("iam", "catalog"), ("iam", "group", "list"), ("tenant", "list"), ("whoami",)):
        assert own_desk.home.frost(*words, timeout=120).code == 7, words
