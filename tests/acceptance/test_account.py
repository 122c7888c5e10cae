"""API keys, sessions and the account of a person."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.acceptance.account import CREATE, Account, Key, days
from tests.conftest import signed_in
from tests.people import AURORA, MEMBER, OUTSIDER, OWNER, WEB_SHOP

ROTATE = ("api-key", "rotate")


def test_a_key_comes_with_its_secret_shown_only_now(owner: Account) -> None:
    result = owner.run("api-key", "create", "--name", "ci", "--scopes", "compute:read")
    *table, empty, heading, secret = result.out.splitlines()
    assert (result.code, len(table), empty) == (0, 2, "")
    assert "shown once" in heading
    assert secret not in "".join(table) + result.err
    assert owner.home.request("GET", "/api/v1/me", key=secret).status == 200
    # Quiet, the secret is alone and can be piped.
    quiet = owner.run("-q", *CREATE, "compute:read")
    me = owner.home.request("GET", "/api/v1/me", key=quiet.out.strip())
    rotated = owner.run("api-key", "rotate", me.json()["credential"]["id"], "-q")
    for result in (quiet, rotated):
        secret, *more = result.out.splitlines()
        assert (result.code, result.err, more) == (0, "", [])
        assert owner.home.request("GET", "/api/v1/me", key=secret).status == 200
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        result = owner.run(*CREATE, "compute:read", "-o", form, "-q")
        document = read(result.out)
        assert (result.code, result.err, list(document)) == (0, "", ["apiKey", "key"])
        assert document["apiKey"]["name"] == "test key"
        assert document["key"].startswith(document["apiKey"]["keyPrefix"])


@pytest.mark.parametrize("closed", ["2>/dev/full", "2>&-"])
def test_a_log_that_cannot_be_written_does_not_lose_the_secret(owner: Account, closed: str) -> None:
    words = ("account", *CREATE, "compute:read", "-q", "-o", "json", "--debug")
    shell = ["/bin/sh", "-c", f'exec "$0" -m tui "$@" {closed}', sys.executable, *words]
    environment = owner.home.environment()
    done = subprocess.run(shell, env=environment, cwd=owner.home.path, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done
    assert owner.home.request("GET", "/api/v1/me", key=json.loads(done.stdout)["key"]).status == 200


def test_a_key_is_read_and_revoked_without_its_secret_and_invalid_times_are_refused(owner: Account) -> None:
    key = Key(owner, "compute:read", "dns:read", more=("--description", "for the tests", "--rate-limit", "42"))
    assert owner.done("api-key", "get", key.id) == key.made
    shown = owner.run("api-keys", "get", key.id).out
    for text in ("for the tests", "compute:read, dns:read", "42 requests per minute", "active", key.made["keyPrefix"]):
        assert text in shown
    assert {"created", "expires", "last used"} <= {line.split("  ")[0] for line in shown.splitlines()}
    for words in (("get", key.id), ("list", "-o", "wide"), ("revoke", key.id), ("get", key.id, "-o", "yaml")):
        result = owner.run("api-key", *words, "-d")
        assert (key.id in result.out + result.err, key.secret[12:] in result.out + result.err) == (True, False)
    again = owner.run("api-key", "revoke", key.id)
    assert (again.code, again.err) == (0, "already revoked\n")
    # Times are those of the platform's clock.
    for overlap in ("", "1", "1w", "-1h", "1.5h", "٣h", "1h "):
        assert "30m, 24h or 7d" in owner.refused(2, *ROTATE, "0192f7c1", f"--overlap={overlap}")
    expiry = owner.refused(2, *CREATE, "compute:read", "--expires", "01/02/2027", "-d")
    assert ("YYYY-MM-DD" in expiry, "POST" in expiry) == (True, False)
    behind = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    key = Key(owner, "compute:read")
    slow_clock = owner.refused(2, *ROTATE, key.id, "--overlap", "5m", FROST_CLOCK=behind)
    assert "the overlap has already ended" in slow_clock
    assert owner.keys()[key.id]["status"] == "active"


def test_scopes_are_listed_added_up_warned_of_and_refused(owner: Account) -> None:
    lines = owner.run("api-key", "scopes").out.splitlines()
    assert lines[0] == "SCOPE"
    assert {"compute:read", "compute:*", "sessions:pty", "organizations:write"} <= set(lines)
    assert all(len(line.split(":")) == 2 for line in lines[1:])
    assert [one["scope"] for one in owner.done("api-key", "scopes")["items"]] == lines[1:]
    made = owner.done(*CREATE, "compute:*,storage:read", "--scopes", "dns:read", "--scopes=compute:*")["apiKey"]
    assert (made["scopes"], made["rateLimit"]) == (["compute:*", "storage:read", "dns:read"], 600)
    for scopes, warning in (
        ("compute:instances:start", "compute:instances:start: every request of this key is denied"),
        ("compute:start", "compute:start: every request of this key is denied"),
        ("compute:read,compute:start,dns:zones:read", "compute:start, dns:zones:read: these scopes allow nothing"),
        ("compute:*,storage:write,sessions:*", ""),
    ):
        result = owner.run(*CREATE, scopes, "-q", "-o", "json")
        assert result.json()["apiKey"]["scopes"] == scopes.split(",")
        assert f"warning: no service enforces {warning}" in result.err if warning else result.err == ""
    result = owner.run(*CREATE, "compte:read", "-o", "json")
    assert (result.code, result.out, result.error()["code"]) == (2, "", "INVALID_SCOPE")
    assert "compute:read" in result.error()["message"]
    for given in ((), ("--scopes", ""), ("--scopes=", "--scopes=,,")):
        message = owner.refused(2, "api-key", "create", "--name", "no scopes", *given)
        assert "at least one scope" in message
        assert "frost account api-key scopes" in message


def test_a_refused_key_in_a_context_is_named_with_the_next_step(owner: Account) -> None:
    unenforced = owner.context("compute:instances:start")
    for words in (("api-key", "get", next(iter(owner.keys()))), ("profile",)):
        assert "no scope that a service enforces" in owner.refused(4, *words, FROST_CONTEXT=unenforced)
    reader = owner.context("storage:read")
    result = owner.home.frost("tenant", "list", env={"FROST_CONTEXT": reader})
    assert (result.code, result.out, "organizations:read" in result.err) == (4, "", True)
    itself = owner.done("profile", FROST_CONTEXT=reader)["credential"]["id"]
    for words in (
        ("api-key", "list"),
        (*CREATE, "compute:read"),
        ("session", "list"),
        ("session", "revoke-all"),
        ("delete", "--yes"),
    ):
        assert "frost login --context NAME" in owner.refused(4, *words, FROST_CONTEXT=reader)
    assert owner.run("api-key", "revoke", itself).code == 0
    for words in (("profile",), ("api-key", "get", itself), ("session", "list")):
        message = owner.refused(3, *words, FROST_CONTEXT=reader)
        assert f"rejects the API key of context {reader}: it or the account" in message
        assert "frost config set api_key" in message
        assert "frost login" not in message


def test_a_rotated_key_has_its_groups_and_updates_or_names_its_contexts(owner: Account) -> None:
    def key_of(context: str) -> str:
        return str(owner.done("profile", FROST_CONTEXT=context)["credential"]["id"])

    for name in ("old key", "second"):
        owner.done(*CREATE, "compute:read", "--save-context", name)
    key, before = key_of("old key"), owner.home.config.read_text()
    for code, words in (
        (5, (key, "--update-context", "missing")),
        (6, (key, "--update-context", "local")),
        (6, (Key(owner, "compute:read").id, "--update-context", "old key")),
    ):
        assert "POST" not in owner.refused(code, *ROTATE, *words, "-d")
    assert owner.home.config.read_text() == before
    # Into a context, without showing the secret.
    document = owner.done(*ROTATE, key, "--update-context", "old key", "--overlap", "0")
    assert (document["contexts"], document["replaced"]["status"], "key" in document) == (["old key"], "revoked", False)
    key = document["apiKey"]["id"]
    assert key_of("old key") == key
    config = yaml.safe_load(owner.home.config.read_text())
    config["contexts"] |= dict.fromkeys(("second", "third"), config["contexts"]["old key"])
    owner.home.config.write_text(json.dumps(config))
    result = owner.run(*ROTATE, key, "--update-context", "old key", "--update-context", "second")
    assert [key_of(name) == key for name in ("old key", "second", "third")] == [False, False, True]
    assert "context third still has the old key; create another key for it" in result.err
    assert "context old key has the key" in result.err
    assert "fmk_" not in (result.out + result.err).replace(document["apiKey"]["keyPrefix"], "").replace("fmk_…", "")
    # Printed once, with the contexts that still have the old key.
    owner.done(*CREATE, "compute:read", "--save-context", "a fourth")
    key, group = key_of("a fourth"), owner.home.json("iam", "group", "create", "--name", "of a rotated key")["id"]
    owner.home.json("iam", "group", "member", "add", group, "--type", "api_key", "--id", key)
    result = owner.run(*ROTATE, key, "--overlap", "7d")
    *_, heading, secret = result.out.splitlines()
    assert "shown once" in heading
    assert f"the old key {key} works until {days(7).strftime('%Y-%m-%d')}" in result.err
    assert "; the new one has its 1 group or policy" in result.err
    store = "FROST_CONTEXT='a fourth' frost config set api_key -"
    assert f"context a fourth still has the old key; store the new one: {store}" in result.err
    assert key_of("a fourth") == key
    assert owner.home.request("GET", "/api/v1/me", key=secret).status == 200
    assert "context" not in owner.run(*ROTATE, Key(owner, "compute:read").id).err


def test_a_key_that_cannot_be_stored_is_deleted_again_or_printed(owner: Account) -> None:
    no_keyring = {"FROST_CREDENTIAL_STORE": "keyring", "DBUS_SESSION_BUS_ADDRESS": ""}
    before = set(owner.keys())
    message = owner.refused(3, *CREATE, "compute:read", "--save-context", "unstored", **no_keyring)
    assert ("could not be stored" in message, "the key was deleted" in message) == (True, True)
    assert set(owner.keys()) == before
    assert "unstored" not in yaml.safe_load(owner.home.config.read_text())["contexts"]
    context = owner.context("compute:read")
    key = owner.done("profile", FROST_CONTEXT=context)["credential"]["id"]
    result = owner.run(*ROTATE, key, "--update-context", context, "--overlap", "0", **no_keyring)
    assert (result.code, f"could not be stored in context {context}" in result.err) == (3, True)
    assert owner.home.request("GET", "/api/v1/me", key=result.out.splitlines()[-1]).status == 200
    assert owner.done("profile", FROST_CONTEXT=context)["credential"]["id"] == key


def test_a_key_becomes_a_context_of_a_new_name_and_its_secret_is_never_shown(owner: Account) -> None:
    result = owner.run(*CREATE, "compute:read,organizations:read", "--save-context", "robot", "-d")
    assert result.code == 0
    before = owner.home.config.read_text()
    member = yaml.safe_load(before)["contexts"]["robot"]
    assert member["credentials"]["api_key"] not in result.out + result.err
    assert (member["tenant"], member["api_endpoint"]) == (WEB_SHOP, f"unix:{owner.home.socket}")
    used = owner.done("profile", FROST_CONTEXT="robot")["credential"]
    assert (used["kind"], used["scopes"]) == ("api_key", ["compute:read", "organizations:read"])
    assert owner.done("profile")["credential"]["kind"] == "session"
    for name, code in (("local", 6), ("robot", 6), ("", 2), ("a/b", 2)):
        assert "POST" not in owner.refused(code, *CREATE, "compute:read", "--save-context", name, "-d")
    assert owner.home.config.read_text() == before
    document = owner.done(*CREATE, "compute:read", "--save-context", "document")
    assert (list(document), document["context"]) == (["apiKey", "context"], "document")
    assert "fmk_" not in str(document).replace(document["apiKey"]["keyPrefix"], "")


@pytest.mark.parametrize("reader", ["full disk", "reader gone"])
def test_a_secret_that_cannot_be_written_is_reported_with_its_key(owner: Account, reader: str) -> None:
    before = set(owner.keys())
    if reader == "full disk":
        output = os.open("/dev/full", os.O_WRONLY)
    else:
        read, output = os.pipe()
        os.close(read)
    words = [sys.executable, "-m", "tui", "account", *CREATE, "compute:read"]
    env = owner.home.environment()
    done = subprocess.run(words, env=env, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    os.close(output)
    (made,) = set(owner.keys()) - before
    assert done.returncode == (1 if reader == "full disk" else 141)
    assert f"frost account api-key delete {made}" in done.stderr


@pytest.fixture
def member(demo_platform: Path) -> Iterator[Account]:
    """A person who can leave: not the only owner of an organization."""
    with signed_in(demo_platform, MEMBER) as home:
        yield Account(home)


def test_the_tenant_is_named_beside_its_id_if_the_name_may_be_read(owner: Account) -> None:
    named = f"Web Shop · {WEB_SHOP}"
    assert named in owner.home.frost("whoami").out
    assert named in owner.run("profile").out
    unreadable = {"FROST_CONTEXT": owner.context("storage:read")}
    for words in (("whoami",), ("account", "profile")):
        shown = owner.home.frost(*words, env=unreadable)
        assert (shown.code, WEB_SHOP in shown.out, "Web Shop" in shown.out, shown.err) == (0, True, False, ""), words


def test_the_profile_is_the_person_and_the_credential(owner: Account) -> None:
    me = owner.done("profile")
    assert (me["email"], me["credential"]["kind"]) == (OWNER, "session")
    shown = owner.run("profile").out
    assert all(text in shown for text in (OWNER, "Astrid Lindqvist", "Aurora Labs · owner", "session"))
    shown = owner.run("profile", FROST_CONTEXT=owner.context("compute:read", "dns:*")).out
    assert all(text in shown for text in (OWNER, "API key", WEB_SHOP, "compute:read, dns:*"))


@pytest.mark.slow
def test_an_account_is_deleted_by_typing_its_address_and_restored_for_30_days(member: Account) -> None:
    home, token, until = member.home, member.home.token(), days(30).strftime("%Y-%m-%d")
    for typed, code in (("y", 1), (MEMBER.upper(), 1), ("", 1), (MEMBER, 0)):
        ended, shown = member.answered(typed, "to confirm:", "delete")
        assert (ended, f"Delete the account {MEMBER}" in shown) == (code, True), shown
        assert ("nothing was changed" in shown) == bool(code)
    assert until in shown
    assert home.request("GET", "/api/v1/me", token=token).status == 401
    assert "frost login" in member.refused(3, "profile")
    assert "unknown user" in home.frost("login", "--as", MEMBER).err
    assert token not in home.config.read_text()
    assert home.frost("platform", "stop").code == 0
    # The platform is not running: the command starts it, with the clock of the tests.
    clock = days(30.1).isoformat()
    result = home.frost("platform", "account", "restore", MEMBER, env={"FROST_CLOCK": clock})
    assert (result.code, until in result.err) == (6, True), result
    assert home.frost("platform", "stop").code == 0
    assert home.frost("platform", "account", "restore", MEMBER).code == 0
    for email, code, message in (
        (MEMBER, 6, f"the account {MEMBER} is not deleted"),
        ("nobody@aurora.example", 5, "account nobody@aurora.example not found"),
        (" ", 2, "EMAIL is empty"),
        ("\x1b[31m@x", 5, "␛[31m@x"),
    ):
        result = home.frost("platform", "account", "restore", email)
        assert (result.code, result.out, message in result.err) == (code, "", True), result
    home.sign_in(MEMBER)
    assert member.done("delete", "--yes")["email"] == MEMBER


def test_deletion_is_refused_unasked_for_a_key_and_for_the_last_owner(owner: Account) -> None:
    unasked = owner.refused(2, "delete")
    assert OWNER in unasked
    assert "--yes" in unasked
    by_key = owner.refused(4, "delete", "--yes", FROST_CONTEXT=owner.context("compute:*"))
    assert "frost login --context NAME" in by_key
    last = owner.refused(6, "delete", "--yes")
    for text in ("last owner of Aurora Labs", AURORA, "Make another member an owner"):
        assert text in last
    assert owner.done("profile")["email"] == OWNER
    # A person without an organization may leave.
    owner.home.sign_in(OUTSIDER)
    assert owner.run("delete", "--yes").code == 0
    owner.home.sign_in()


def test_every_session_ends_this_one_too_and_the_next_command_names_login(member: Account) -> None:
    home, here = member.home, member.home.token()
    assert home.frost("login", "--context", "elsewhere", "--endpoint", f"unix:{home.socket}", "--as", MEMBER).code == 0
    assert home.frost("config", "use-context", "local").code == 0
    elsewhere = yaml.safe_load(home.config.read_text())["contexts"]["elsewhere"]["credentials"]["access_token"]
    sessions = member.done("session", "list")["items"]
    assert len(sessions) >= 2
    assert [one["current"] for one in sessions].count(True) == 1
    lines = member.run("sessions", "list").out.splitlines()
    assert lines[0].split("  ")[1].startswith("DEVICE")
    (marked,) = [line for line in lines if line.startswith("* ")]
    assert "this machine" in marked
    ended = member.run("session", "revoke-all")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.startswith(f"{len(sessions)} sessions have ended, including this one")
    for words in (("session", "list"), ("profile",), ("api-key", "list")):
        assert "frost login" in member.refused(3, *words)
    for token in (here, elsewhere):
        assert home.request("GET", "/api/v1/me", token=token).status == 401
    assert here not in home.config.read_text()
    home.sign_in(MEMBER)
    assert member.done("session", "revoke-all") == {"ended": 1}
