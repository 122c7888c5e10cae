"""Rotation of a key with an overlap, and a key that becomes a context."""

import os
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from tests.acceptance.account import CREATE, Account, Key, days, instant
from tests.acceptance.people import WEB_SHOP

ROTATE = ("api-key", "rotate")


def granted(owner: Account, key: Key) -> str:
    """Put a key into a group; the id of the group."""
    group = str(owner.home.json("iam", "group", "create", "--name", f"of {key.id}")["id"])
    words = ("iam", "group", "member", "add", group, "--type", "api_key", "--id", key.id)
    assert owner.home.frost(*words).code == 0
    return group


# --- rotate ----------------------------------------------------------------------------------------------------------


def test_a_rotated_key_may_do_the_same_and_the_old_one_works_until_the_overlap_is_over(owner: Account) -> None:
    key = Key(owner, "compute:read", "dns:*", more=("--description", "d", "--rate-limit", "30"))
    group = granted(owner, key)
    document = owner.done(*ROTATE, key.id, "--overlap", "7d")
    new, old = document["apiKey"], document["replaced"]
    kept = ("name", "description", "scopes", "rateLimit", "tenantId")
    assert [new[member] for member in kept] == [key.made[member] for member in kept]
    assert document["grants"] == 1
    assert old["id"] == key.id
    assert abs(instant(old["expiresAt"]) - days(7)) < timedelta(minutes=5)
    members = owner.home.json("iam", "group", "member", "list", group)["items"]
    assert {one["memberId"] for one in members} == {key.id, new["id"]}
    assert key.use("GET", "/resources/instance") == 200
    assert owner.home.request("GET", "/api/v1/me", key=document["key"]).status == 200


def test_the_secret_of_a_rotated_key_stands_on_a_line_of_its_own(owner: Account) -> None:
    key = Key(owner, "compute:read")
    granted(owner, key)
    result = owner.run(*ROTATE, key.id)
    *_, heading, secret = result.out.splitlines()
    assert "shown once" in heading
    assert owner.home.request("GET", "/api/v1/me", key=secret).status == 200
    assert f"the old key {key.id} works until {days(1).strftime('%Y-%m-%d')}" in result.err
    assert "; the new one has its 1 group or policy" in result.err


@pytest.mark.slow
def test_an_overlap_ends_by_itself(owner: Account) -> None:
    """The overlap of a test is short by the client's clock, which is behind the platform's."""
    key = Key(owner, "compute:read")
    behind = (datetime.now(UTC) - timedelta(minutes=1) + timedelta(seconds=4)).isoformat()
    assert owner.run(*ROTATE, key.id, "--overlap", "1m", FROST_CLOCK=behind).code == 0
    time.sleep(4)
    assert key.ask("GET", "/api/v1/me").status == 401
    assert owner.keys()[key.id]["status"] == "expired"


def test_without_an_overlap_the_old_key_is_revoked_at_once(owner: Account) -> None:
    key = Key(owner, "compute:read")
    document = owner.done(*ROTATE, key.id, "--overlap", "0")
    assert document["replaced"]["status"] == "revoked"
    assert key.ask("GET", "/api/v1/me").status == 401
    assert owner.home.request("GET", "/api/v1/me", key=document["key"]).status == 200


def test_a_key_that_expires_before_the_overlap_is_over_keeps_its_expiry(owner: Account) -> None:
    key = Key(owner, "compute:read", more=("--expires", days(2).isoformat()))
    document = owner.done(*ROTATE, key.id, "--overlap", "30d", "--expires", days(50).isoformat())
    assert document["replaced"]["expiresAt"] == key.made["expiresAt"]
    assert abs(instant(document["apiKey"]["expiresAt"]) - days(50)) < timedelta(minutes=5)


def test_only_an_active_key_is_rotated(owner: Account) -> None:
    key = Key(owner, "compute:read")
    owner.done("api-key", "revoke", key.id)
    assert "only an active key" in owner.refused(6, *ROTATE, key.id)


def test_a_clock_that_is_behind_is_told(owner: Account) -> None:
    key = Key(owner, "compute:read")
    behind = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    said = owner.refused(2, *ROTATE, key.id, "--overlap", "5m", FROST_CLOCK=behind)
    assert "the overlap has already ended" in said
    assert owner.keys()[key.id]["status"] == "active"


@pytest.mark.parametrize("overlap", ["", "1", "1w", "-1h", "1.5h", "soon", "٣h", "1h "])
def test_what_is_no_overlap_is_refused(owner: Account, overlap: str) -> None:
    assert "30m, 24h or 7d" in owner.refused(2, *ROTATE, "0192f7c1", f"--overlap={overlap}")


# --- a context of its own --------------------------------------------------------------------------------------------


def test_a_key_becomes_a_context_and_its_secret_is_never_shown(owner: Account) -> None:
    result = owner.run(*CREATE, "compute:read,organizations:read", "--save-context", "robot", "-d")
    assert result.code == 0
    member = yaml.safe_load(owner.home.config.read_text())["contexts"]["robot"]
    secret = member["credentials"]["api_key"]
    assert secret not in result.out + result.err
    assert (member["tenant"], member["api_endpoint"]) == (WEB_SHOP, f"unix:{owner.home.socket}")
    assert stat.S_IMODE(owner.home.config.stat().st_mode) == 0o600
    used = owner.done("profile", FROST_CONTEXT="robot")["credential"]
    assert (used["kind"], used["scopes"]) == ("api_key", ["compute:read", "organizations:read"])
    assert owner.done("profile")["credential"]["kind"] == "session"


def test_as_a_document_it_is_the_key_and_the_context(owner: Account) -> None:
    document = owner.done(*CREATE, "compute:read", "--save-context", "document")
    assert (list(document), document["context"]) == (["apiKey", "context"], "document")
    assert "fmk_" not in str(document).replace(document["apiKey"]["keyPrefix"], "")


@pytest.mark.parametrize(
    ("name", "code"), [("local", 6), ("taken", 6), ("", 2), ("a/b", 2), (" x", 2), ("x" * 65, 2), ("a\nb", 2)]
)
def test_a_context_that_is_there_or_cannot_be_makes_no_key(owner: Account, name: str, code: int) -> None:
    if name == "taken":
        owner.done(*CREATE, "compute:read", "--save-context", "taken")
    before = owner.home.config.read_text()
    said = owner.refused(code, *CREATE, "compute:read", "--save-context", name, "-d")
    assert "POST" not in said
    assert owner.home.config.read_text() == before


def test_a_key_that_cannot_be_kept_is_deleted_again_and_leaves_no_context(owner: Account) -> None:
    before = set(owner.keys())
    no_keyring = {"FROST_CREDENTIAL_STORE": "keyring", "DBUS_SESSION_BUS_ADDRESS": ""}
    said = owner.refused(3, *CREATE, "compute:read", "--save-context", "unkept", **no_keyring)
    assert "could not be stored" in said
    assert "the key was deleted" in said
    assert set(owner.keys()) == before
    assert "unkept" not in yaml.safe_load(owner.home.config.read_text())["contexts"]


def test_a_secret_that_cannot_be_written_is_told_with_what_to_do(owner: Account) -> None:
    before = set(owner.keys())
    full = os.open("/dev/full", os.O_WRONLY)
    code, said = created_into(owner, full)
    (made,) = set(owner.keys()) - before
    assert code == 1
    assert f"frost account api-key delete {made}" in said


def test_a_reader_that_has_left_is_no_reason_to_be_silent(owner: Account) -> None:
    before = set(owner.keys())
    read, write = os.pipe()
    os.close(read)
    code, said = created_into(owner, write)
    (made,) = set(owner.keys()) - before
    assert code == 141
    assert f"frost account api-key delete {made}" in said


def created_into(owner: Account, output: int) -> tuple[int, str]:
    """A key is made with standard output there; how that ended, and what was said."""
    words = [sys.executable, "-m", "tui", "account", *CREATE, "compute:read"]
    env = owner.home.environment()
    done = subprocess.run(words, env=env, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    os.close(output)
    return done.returncode, done.stderr
