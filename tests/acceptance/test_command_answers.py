"""Answers of commands about the changed object, exit codes, and refusals with the next step."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.acceptance.account import CREATE, Account, Key
from tests.acceptance.iam import KEYS, NO_ID, READ_TENANTS, Desk, allow, text
from tests.homes import Home
from tests.people import AURORA, DATA_LAKE, OWNER, STAGING, WEB_SHOP
from tests.terminal import on_terminal
from tests.waiting import until

GROUP = "142c8364-7806-4577-93e7-83e7eb04b39b"


def answer_login(home: Home, answer: bytes) -> tuple[int, str]:
    program = on_terminal(home, "login", columns=160)
    program.wait_for("[y/N]")
    program.write(answer)
    return program.wait_end(), program.text


def test_every_change_names_the_tenant_that_it_changed(desk: Desk) -> None:
    home, group = desk.home, desk.group()
    web_shop = f"tenant: Web Shop ({WEB_SHOP})\n"
    for words in (
        ("iam", "group", "create", "--name", "named tenant", "-o", "json"),
        ("iam", "group", "update", group, "--name", "named tenant 2"),
        ("iam", "group", "member", "add", group, "--type", "api_key", "--id", KEYS["terraform"]),
        ("iam", "group", "member", "remove", group, "--type", "api_key", "--id", KEYS["terraform"]),
        ("iam", "group", "delete", group, "--force"),
        ("tenant", "default-tags", "set", "--tag", "named=yes", "--merge"),
        ("tenant", "quota", "request", "secret", "201", "--reason", "named", "--yes"),
        ("account", *CREATE, "compute:read"),
    ):
        assert home.frost(*words).err.endswith(web_shop), words
    tags = ("tenant", "default-tags", "set", "--tag", "a=1", "--tenant", DATA_LAKE)
    assert home.frost(*tags).err.endswith(f"tenant: Data Lake ({DATA_LAKE})\n")
    assert home.frost("tenant", "rename", STAGING, "--name", "Staging 2").err == f"tenant: Staging 2 ({STAGING})\n"
    created = home.frost("tenant", "create", "--name", "New One", "--organization", AURORA, "-o", "json")
    assert created.err.endswith(f"tenant: New One ({created.json()['id']})\n")
    group = desk.group("unchanged")
    for words in (
        ("iam", "group", "get", group),
        ("iam", "group", "update", group, "--name", "unchanged"),
        ("iam", "group", "delete", group, "--dry-run"),
        ("iam", "policy", "check", "--document", text(allow("compute:*"))),
        ("tenant", "default-tags", "apply", "--dry-run"),
    ):
        assert "tenant: " not in home.frost(*words).err, words
    assert desk.iam("group", "update", group, "--name", "changed", "-q").err == ""


def test_a_tenant_whose_name_may_not_be_read_is_named_by_its_id(owner: Account) -> None:
    context = owner.context("organizations:write")
    done = owner.home.frost("tenant", "default-tags", "set", "--tag", "by=key", env={"FROST_CONTEXT": context})
    assert (done.code, done.err.splitlines()[-1]) == (0, f"tenant: {WEB_SHOP}")


def test_on_a_terminal_a_key_is_ended_after_a_question(owner: Account) -> None:
    used = Key(owner, "compute:read")
    owner.home.request("GET", "/api/v1/me", key=used.secret)
    # Written in batches.
    until(lambda: owner.keys()[used.id]["lastUsedAt"] is not None)
    for word in ("revoke", "delete"):
        unused = Key(owner, "compute:read")
        code, shown = owner.answered("n", "[y/N]", "api-key", word, used.id)
        question = f'Permanently {word} key "test key" ({used.id}, tenant Web Shop, last used 20'
        assert question in " ".join(shown.split())
        assert (code, "nothing was changed" in shown) == (1, True)
        assert owner.keys()[used.id]["status"] == "active"
        assert owner.answered("y", "never used", "api-key", word, unused.id)[0] == 0
        assert owner.keys().get(unused.id, {"status": "revoked"})["status"] == "revoked"
    program = owner.on_terminal("api-key", "delete", used.id, "--yes")
    assert program.wait_end() == 0
    assert "[y/N]" not in program.text


def test_without_a_terminal_an_answer_that_would_not_be_read_is_refused(owner: Account, tmp_path: Path) -> None:
    key = Key(owner, "compute:read")
    answers, empty = tmp_path / "answers", tmp_path / "empty"
    answers.write_text("n\nn\n")
    empty.touch()
    environment = owner.home.environment()

    def run(word: str, source: int, *more: str) -> tuple[int, str]:
        words = [sys.executable, "-m", "tui", "account", "api-key", word, key.id, *more]
        done = subprocess.run(words, stdin=source, capture_output=True, env=environment, text=True, timeout=120)
        return done.returncode, done.stderr

    for word in ("revoke", "delete"):
        for path in (answers, empty):
            with path.open("rb") as file:
                code, message = run(word, file.fileno())
                assert (code, "--yes" in message, os.lseek(file.fileno(), 0, os.SEEK_CUR)) == (2, True, 0), message
        reader, writer = os.pipe()
        os.write(writer, b"n\n")  # before the start, so that a busy machine cannot be late
        code, message = run(word, reader)
        assert (code, "--yes" in message, os.read(reader, 9)) == (2, True, b"n\n"), message
        os.close(reader)
        os.close(writer)
    assert owner.keys()[key.id]["status"] == "active"
    with answers.open("rb") as file:
        assert run("revoke", file.fileno(), "--yes")[0] == 0
    reader, writer = os.pipe()  # open and silent
    assert run("revoke", reader) == (0, "already revoked\n")
    os.close(writer)  # at its end
    assert run("delete", reader)[0] == 0
    os.close(reader)
    assert key.id not in {one["id"] for one in owner.items("api-key", "list")}


def test_ctrl_d_in_a_question_leaves_the_error_on_its_own_line(owner: Account) -> None:
    key = Key(owner, "compute:read")
    program = owner.on_terminal("api-key", "revoke", key.id)
    program.wait_for("[y/N]")
    program.press("ctrl+d")
    assert program.wait_end() == 1
    assert "frost: not confirmed; nothing was changed" in program.text.splitlines()
    assert owner.keys()[key.id]["status"] == "active"


SAVED = "de1b1471-320a-48ea-b7a7-88d106762832"
"""A policy of the demo world in its third version."""
LONG = "x" * 1_100


def test_an_invalid_value_is_refused_by_its_flag_and_a_refusal_ends_with_its_code(desk: Desk) -> None:
    for name in ("a\u202eb", "unassigned \u0378"):
        for words in (
            ("tenant", "create", "--name", name, "--organization", AURORA),
            ("tenant", "rename", STAGING, "--name", name),
            ("iam", "group", "create", "--name", name),
            ("iam", "group", "update", GROUP, "--name", name),
        ):
            refused = desk.home.frost(*words)
            assert (refused.code, refused.err.startswith("frost: --name ")) == (2, True), words
            assert "displayName" not in refused.err
            # The last name is refused by the platform only.
            is_known = "must not contain control or formatting characters" in refused.err
            assert is_known or name.startswith("unassigned")
    for code, *words in (
        (2, "group", "create", "--name", "n", "--description", LONG),
        (2, "policy", "update", SAVED, "--name", LONG),
        (2, "group", "list", "--cursor", ""),
        (2, "policy", "list", "--limit", "201"),
        (2, "policy", "update", SAVED),
        (2, "group", "update", GROUP),
        (2, "policy", "get", SAVED, "--version", "0"),
        (2, "group", "delete", GROUP),
        (6, "group", "create", "--name", "deployers"),
        (6, "group", "update", GROUP, "--name", "n", "--if-version", "9"),
        (6, "policy", "update", SAVED, "--name", "n", "--if-version", "9"),
    ):
        desk.refused(int(code), *map(str, words))
    unknown = desk.home.frost("tenant", "rename", NO_ID, "--name", "x")
    assert (unknown.code, unknown.err.startswith(f"frost: TENANT_ID {NO_ID}: ")) == (4, True)
    assert "frost tenant list --all" in unknown.err


def test_a_stored_tenant_that_is_no_id_is_named_with_its_place(own_desk: Desk) -> None:
    home = own_desk.home
    for value in ("web-shop", "\u202eevil"):
        home.frost("tenant", "use", DATA_LAKE)
        before, _, rest = home.config.read_text().partition("tenant: ")
        assert DATA_LAKE in rest.splitlines()[0]
        home.config.write_text(f"{before}tenant: {json.dumps(value)}\n{rest.partition(chr(10))[2]}")
        refused = home.frost("tenant", "current")
        assert refused.code == 2
        shown = value.replace("\u202e", "‹U+202E›")
        assert f"tenant of context local in {home.config}: '{shown}' is not a tenant's id" in refused.err
        assert "frost tenant use NAME" in refused.err
        for words in (("whoami",), ("tenant", "list", "--all")):
            done = home.frost(*words)
            assert (done.code, "is not a tenant's id" in done.err) == (0, True), (words, done)
        assert home.frost("tenant", "use", "web shop").code == 0
        assert home.frost("tenant", "current").code == 0


def test_a_key_is_replaced_by_a_session_with_an_empty_key_or_a_login(own_desk: Desk) -> None:
    home = own_desk.home
    home.frost("config", "set", "api_key", "fmk_" + "a" * 36)
    assert home.frost("whoami").code == 3
    cleared = home.frost("config", "set", "api_key", "")
    assert (cleared.code, "not set" in cleared.err) == (0, True)
    assert "fmk_" not in home.config.read_text()
    assert home.json("whoami")["credential"]["kind"] == "session"
    home.frost("config", "set", "api_key", "fmk_" + "b" * 36)
    assert home.frost("config", "set", "api_key", "-", stdin="\n").code == 2  # an empty file is a mistake
    assert "fmk_" in home.config.read_text()
    refused = home.frost("login")
    assert refused.code == 2
    for part in (
        "has an API key, which takes precedence over a session",
        'frost config set api_key ""',
        "--context NAME --endpoint URL",
    ):
        assert part in refused.err
    assert answer_login(home, b"n\n")[0] == 1
    assert "fmk_" in home.config.read_text()
    code, shown = answer_login(home, b"y\n")
    assert (code, "signed in as" in shown) == (0, True)
    assert "fmk_" not in home.config.read_text()
    assert home.json("whoami")["credential"]["kind"] == "session"


API_KEY = ("--type", "api_key", "--id")
PAIR = (*API_KEY, KEYS["terraform"])
OTHER_ID = NO_ID.replace("7b60", "7b61")


def test_an_unknown_id_is_refused_with_the_list(desk: Desk) -> None:
    for kind in ("policy", "group"):
        message = desk.refused(5, kind, "get", NO_ID)
        assert f"{kind} {NO_ID} not found in this tenant. List the " in message
        assert message.endswith(f": frost iam {kind} list --all\n")
    there = desk.refused(5, "policy", "get", NO_ID, "--tenant", DATA_LAKE)
    assert there.endswith(f": frost iam policy list --tenant {DATA_LAKE} --all\n")
    assert WEB_SHOP not in there
    assert "frost completion --help" in desk.refused(5, "access", "api_key", NO_ID)
    message = desk.refused(5, "access", "user", OWNER)
    assert f"user takes an id, {OWNER} is an address. List users with: frost iam who " in message
    assert "tenant access denied" in desk.refused(4, "group", "list", FROST_TENANT=NO_ID)


def test_the_missing_one_of_policy_and_principal_is_named(desk: Desk) -> None:
    policy, group = desk.policy(READ_TENANTS), desk.group()
    for command in ("attach", "detach"):
        message = desk.refused(5, "policy", command, NO_ID, *API_KEY, OTHER_ID)
        assert (f"policy {NO_ID} not found in this tenant" in message, "api_key" in message) == (True, False)
        message = desk.refused(5, "policy", command, policy, *API_KEY, OTHER_ID)
        assert (f"policy {policy} not found" in message, f"api_key {OTHER_ID}" in message) == (False, True)
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
        assert "has no version 9: the newest is version 1" in desk.refused(5, "policy", *words)
    for operation in ("compute:instances:read", "compute:instances:list"):
        desk.done("policy", "update", policy, "--document", text(allow(operation)))
    for words in commands:
        message = desk.refused(5, "policy", *words)
        assert "the newest is version 3. List them: frost iam policy history" in message
        assert " or " not in message
    assert f"policy {NO_ID} not found" in desk.refused(5, "policy", "rollback", NO_ID, "--version", "9")
