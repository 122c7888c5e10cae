"""Answers of commands about the changed object, and refusals of one value."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.account import CREATE, Account, Key
from tests.acceptance.iam import IDENTITIES, KEYS, NO_ID, Desk
from tests.acceptance.people import AURORA, DATA_LAKE, STAGING, WEB_SHOP
from tests.acceptance.shell import signed_in
from tests.homes import Home
from tests.service.planned import until
from tests.terminal import Program

GROUP = "142c8364-7806-4577-93e7-83e7eb04b39b"
FORMAT_CHARACTERS = ("\u202e", "\u200b", "\u2066", "\ufeff", "\u00ad", "\u2028")


def on_terminal(home: Home, *words: str) -> Program:
    return Program([sys.executable, "-m", "tui", *words], columns=160, rows=30, env=home.environment(), inherit=False)


def flat(program: Program) -> str:
    return " ".join(program.text.split())


def test_every_change_names_the_tenant_that_it_changed(desk: Desk) -> None:
    home = desk.home
    web_shop = f"tenant: Web Shop ({WEB_SHOP})\n"
    made = home.frost("iam", "group", "create", "--name", "named tenant", "-o", "json")
    assert made.err == web_shop
    group = made.json()["id"]
    changes = [
        ("iam", "group", "update", group, "--name", "named tenant 2"),
        ("iam", "group", "member", "add", group, "--type", "api_key", "--id", KEYS["terraform"]),
        ("iam", "group", "member", "remove", group, "--type", "api_key", "--id", KEYS["terraform"]),
        ("iam", "group", "delete", group, "--force"),
        ("tenant", "default-tags", "set", "--tag", "named=yes", "--merge"),
        ("tenant", "quota", "request", "secret", "201", "--reason", "named", "--yes"),
        ("account", *CREATE, "compute:read"),
    ]
    for words in changes:
        assert home.frost(*words).err.endswith(web_shop), words
    tags = ("tenant", "default-tags", "set", "--tag", "a=1", "--tenant", DATA_LAKE)
    assert home.frost(*tags).err.endswith(f"tenant: Data Lake ({DATA_LAKE})\n")
    assert home.frost("tenant", "rename", STAGING, "--name", "Staging 2").err == f"tenant: Staging 2 ({STAGING})\n"
    created = home.frost("tenant", "create", "--name", "New One", "--organization", AURORA, "-o", "json")
    assert created.err.endswith(f"tenant: New One ({created.json()['id']})\n")


def test_no_tenant_is_named_where_nothing_was_changed(desk: Desk) -> None:
    group = desk.group("unchanged")
    document = '{"schemaVersion":"1","rules":[{"access":"allow","operations":["compute:*"],"targets":["*"]}]}'
    for words in (
        ("group", "get", group),
        ("group", "update", group, "--name", "unchanged"),
        ("group", "delete", group, "--dry-run"),
        ("simulate", "--document", document, "--operation", "compute:instances:read", "--target", "*"),
        ("policy", "check", "--document", document),
    ):
        assert "tenant: " not in desk.iam(*words).err, words
    assert desk.home.frost("tenant", "default-tags", "apply", "--dry-run").err.count("tenant: ") == 0
    assert desk.iam("group", "update", group, "--name", "changed", "-q").err == ""


def test_a_tenant_whose_name_may_not_be_read_is_named_by_its_id(desk: Desk, owner: Account) -> None:
    key = Key(owner, "organizations:write")
    home = owner.home
    home.frost("config", "set", "region", "se-sto-1")
    config = home.path / "key.yaml"
    config.write_text(f"api_endpoint: unix:{home.socket}\napi_key: {key.secret}\n")
    config.chmod(0o600)
    done = home.frost("--config", str(config), "tenant", "default-tags", "set", "--tag", "by=key")
    assert (done.code, done.err.splitlines()[-1]) == (0, f"tenant: {WEB_SHOP}")


@pytest.mark.parametrize("word", ["revoke", "delete"])
def test_on_a_terminal_ending_a_key_is_asked_about(owner: Account, word: str) -> None:
    used, unused = Key(owner, "compute:read"), Key(owner, "compute:read")
    owner.home.request("GET", "/api/v1/me", key=used.secret)
    # Written in batches.
    until(lambda: owner.keys()[used.id]["lastUsedAt"] is not None)
    program = owner.on_terminal("api-key", word, used.id)
    program.wait_for("[y/N]")
    question = flat(program)
    assert f'key "test key" ({used.id}) of tenant Web Shop, last used 20' in question
    program.write(b"n\n")
    assert program.wait_end() == 1
    assert "nothing was changed" in program.text
    assert owner.keys()[used.id]["status"] == "active"
    program = owner.on_terminal("api-key", word, unused.id)
    program.wait_for("never used")
    program.write(b"y\n")
    assert program.wait_end() == 0
    assert owner.keys().get(unused.id, {"status": "revoked"})["status"] == "revoked"
    program = owner.on_terminal("api-key", word, used.id, "--yes")
    assert program.wait_end() == 0
    assert "[y/N]" not in program.text


def test_wide_adds_facts_of_a_key_and_of_the_profile(owner: Account) -> None:
    key = Key(owner, "compute:read")
    for words, more in ((("api-key", "get", key.id), "creator"), (("profile",), "credential id")):
        table, wide = owner.run(*words).out, owner.run(*words, "-o", "wide").out
        assert more not in table
        assert more in wide
        assert len(wide.splitlines()) > len(table.splitlines())


def test_a_group_is_shown_with_its_members(desk: Desk) -> None:
    group = desk.group("with members")
    assert desk.done("group", "get", group)["members"] == []
    desk.add(group, "api_key", KEYS["terraform"])
    desk.add(group, "workload_identity", next(iter(IDENTITIES.values())))
    found = desk.done("group", "get", group)
    assert {(one["type"], one["id"]) for one in found["members"]} == desk.members(group)
    assert found["membersTruncated"] is False
    table = desk.iam("group", "get", group).out
    assert "members:" in table
    assert KEYS["terraform"] in table
    assert "terraform" in table


@pytest.mark.parametrize("name", [*(f"a{one}b" for one in FORMAT_CHARACTERS), "unassigned \u0378"])
def test_an_invalid_name_is_refused_by_its_flag(desk: Desk, name: str) -> None:
    """The last name is refused by the platform only."""
    for words in (
        ("tenant", "create", "--name", name, "--organization", AURORA),
        ("tenant", "rename", STAGING, "--name", name),
        ("iam", "group", "create", "--name", name),
        ("iam", "group", "update", GROUP, "--name", name),
    ):
        refused = desk.home.frost(*words)
        assert refused.code == 2, words
        assert refused.err.startswith("frost: --name "), words
        assert "displayName" not in refused.err
        if not name.startswith("unassigned"):
            assert "must not contain control or formatting characters" in refused.err


def test_renaming_an_unknown_tenant_names_its_id(desk: Desk) -> None:
    refused = desk.home.frost("tenant", "rename", NO_ID, "--name", "x")
    assert refused.code in (4, 5)
    assert refused.err.startswith(f"frost: TENANT_ID {NO_ID}: ")
    assert "frost tenant list --all" in refused.err


@pytest.mark.parametrize(
    "words",
    [
        ("tenant", "--organization", AURORA, "list"),
        ("tenant", "--organization", AURORA, "quota"),
        ("tenant", "--organization", AURORA, "quota", "requests"),
        ("tenant", "default-tags", "--organization", AURORA, "get"),
        ("tenants", f"--organization={AURORA}", "current"),
    ],
)
def test_an_organization_may_be_named_before_the_last_word(desk: Desk, words: tuple[str, ...]) -> None:
    assert desk.home.frost(*words).code == 0
    other = [word.replace(AURORA, NO_ID) for word in words]
    refused = desk.home.frost(*other)
    assert refused.code in (4, 5)
    assert "--organization" in desk.home.frost(*words[:1], "--help").out


@pytest.fixture
def own_home(demo_platform: Path) -> Iterator[Home]:
    with signed_in(demo_platform) as home:
        yield home


@pytest.mark.parametrize("value", ["web-shop", "../x", "\u202eevil"])
def test_a_stored_tenant_that_is_no_id_is_named_with_its_place(own_home: Home, value: str) -> None:
    own_home.frost("tenant", "use", DATA_LAKE)
    text = own_home.config.read_text()
    assert DATA_LAKE in text
    own_home.config.write_text(re.sub(f"tenant: .*{DATA_LAKE}.*", lambda _: f"tenant: {json.dumps(value)}", text))
    refused = own_home.frost("tenant", "current")
    assert refused.code == 2
    shown = value.replace("\u202e", "‹U+202E›")
    assert f"tenant of context local in {own_home.config}: '{shown}' is not a tenant's id" in refused.err
    assert "frost tenant use NAME" in refused.err
    for words in (("whoami",), ("tenant", "list", "--all")):
        done = own_home.frost(*words)
        assert done.code == 0, (words, done)
        assert "is not a tenant's id" in done.err
    assert own_home.frost("tenant", "use", "web shop").code == 0
    assert own_home.frost("tenant", "current").code == 0


def test_an_empty_key_leads_back_to_the_session(own_home: Home) -> None:
    own_home.frost("config", "set", "api_key", "fmk_" + "a" * 36)
    assert own_home.frost("whoami").code == 3
    cleared = own_home.frost("config", "set", "api_key", "")
    assert (cleared.code, "not set" in cleared.err) == (0, True)
    assert "fmk_" not in own_home.config.read_text()
    assert own_home.json("whoami")["credential"]["kind"] == "session"
    own_home.frost("config", "set", "api_key", "fmk_" + "b" * 36)
    assert own_home.frost("config", "set", "api_key", "-", stdin="\n").code == 2  # an empty file is a mistake
    assert "fmk_" in own_home.config.read_text()


def test_login_into_a_context_with_a_key_asks_which_to_use(own_home: Home) -> None:
    own_home.frost("config", "set", "api_key", "fmk_" + "a" * 36)
    refused = own_home.frost("login")
    assert refused.code == 2
    assert "has an API key, which takes precedence over a session" in refused.err
    assert 'frost config set api_key ""' in refused.err
    assert "--context NAME --endpoint URL" in refused.err
    program = on_terminal(own_home, "login")
    program.wait_for("[y/N]")
    program.write(b"n\n")
    assert program.wait_end() == 1
    assert "fmk_" in own_home.config.read_text()
    program = on_terminal(own_home, "login")
    program.wait_for("[y/N]")
    program.write(b"y\n")
    assert program.wait_end() == 0
    assert "signed in as" in program.text
    assert "fmk_" not in own_home.config.read_text()
    assert own_home.json("whoami")["credential"]["kind"] == "session"
