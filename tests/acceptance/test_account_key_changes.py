"""Rotation and expiry of a key, and a key that becomes a context."""

import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from tests.acceptance.account import CREATE, Account, Key, days, instant
from tests.acceptance.people import WEB_SHOP

ROTATE = ("api-key", "rotate")


def test_the_secret_of_a_rotated_key_is_the_last_line(owner: Account) -> None:
    key = Key(owner, "compute:read")
    group = owner.home.json("iam", "group", "create", "--name", "of a rotated key")["id"]
    owner.home.json("iam", "group", "member", "add", group, "--type", "api_key", "--id", key.id)
    result = owner.run(*ROTATE, key.id, "--overlap", "7d")
    *_, heading, secret = result.out.splitlines()
    assert "shown once" in heading
    for works in (key.secret, secret):
        assert owner.home.request("GET", "/api/v1/me", key=works).status == 200
    assert f"the old key {key.id} works until {days(7).strftime('%Y-%m-%d')}" in result.err
    assert "; the new one has its 1 group or policy" in result.err


def test_a_malformed_or_past_time_is_refused(owner: Account) -> None:
    for overlap in ("", "1", "1w", "-1h", "1.5h", "soon", "٣h", "1h "):
        assert "30m, 24h or 7d" in owner.refused(2, *ROTATE, "0192f7c1", f"--overlap={overlap}")
    expiry = owner.refused(2, *CREATE, "compute:read", "--expires", "01/02/2027", "-d")
    assert ("YYYY-MM-DD" in expiry, "POST" in expiry) == (True, False)
    key = Key(owner, "compute:read")
    behind = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    slow_clock = owner.refused(2, *ROTATE, key.id, "--overlap", "5m", FROST_CLOCK=behind)
    assert "the overlap has already ended" in slow_clock
    assert owner.keys()[key.id]["status"] == "active"


def test_a_key_becomes_a_context_and_its_secret_is_never_shown(owner: Account) -> None:
    result = owner.run(*CREATE, "compute:read,organizations:read", "--save-context", "robot", "-d")
    assert result.code == 0
    member = yaml.safe_load(owner.home.config.read_text())["contexts"]["robot"]
    assert member["credentials"]["api_key"] not in result.out + result.err
    assert (member["tenant"], member["api_endpoint"]) == (WEB_SHOP, f"unix:{owner.home.socket}")
    assert stat.S_IMODE(owner.home.config.stat().st_mode) == 0o600
    used = owner.done("profile", FROST_CONTEXT="robot")["credential"]
    assert (used["kind"], used["scopes"]) == ("api_key", ["compute:read", "organizations:read"])
    assert owner.done("profile")["credential"]["kind"] == "session"
    document = owner.done(*CREATE, "compute:read", "--save-context", "document")
    assert (list(document), document["context"]) == (["apiKey", "context"], "document")
    assert "fmk_" not in str(document).replace(document["apiKey"]["keyPrefix"], "")


def test_a_taken_or_invalid_context_name_creates_no_key(owner: Account) -> None:
    owner.done(*CREATE, "compute:read", "--save-context", "taken")
    before = owner.home.config.read_text()
    for name, code in (("local", 6), ("taken", 6), ("", 2), ("a/b", 2), (" x", 2), ("x" * 65, 2), ("a\nb", 2)):
        assert "POST" not in owner.refused(code, *CREATE, "compute:read", "--save-context", name, "-d")
    assert owner.home.config.read_text() == before


def test_a_key_that_cannot_be_stored_is_deleted_again_and_leaves_no_context(owner: Account) -> None:
    before = set(owner.keys())
    no_keyring = {"FROST_CREDENTIAL_STORE": "keyring", "DBUS_SESSION_BUS_ADDRESS": ""}
    message = owner.refused(3, *CREATE, "compute:read", "--save-context", "unstored", **no_keyring)
    assert "could not be stored" in message
    assert "the key was deleted" in message
    assert set(owner.keys()) == before
    assert "unstored" not in yaml.safe_load(owner.home.config.read_text())["contexts"]


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


def test_a_late_expiry_is_refused_with_the_latest_date(owner: Account) -> None:
    far = days(3 * 365).date().isoformat()
    result = owner.run(*CREATE, "compute:read", "--expires", far, "-o", "json", TZ="Pacific/Auckland")
    assert (result.code, result.error()["code"]) == (2, "API_KEY_LIFETIME_EXCEEDS_MAX")
    latest = result.error()["message"].rpartition(" ")[2]
    next_day = (instant(f"{latest}T00:00:00+00:00") + timedelta(days=1)).date().isoformat()
    for day, code in ((latest, 0), (next_day, 2)):
        result = owner.run(*CREATE, "compute:read", "--expires", day, "-o", "json", TZ="Pacific/Auckland")
        assert (result.code, f"the end of {day}" in result.err) == (code, not code)
