"""Sessions on all devices, and commands that need a person."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.acceptance.account import TENANT, Account, Key, instant
from tests.acceptance.shell import signed_in

NEED_PERSON = [
    ("api-key", "list"),
    ("api-key", "create", "--name", "another", "--scopes", "compute:read"),
    ("session", "list"),
    ("session", "revoke-all"),
    ("delete", "--yes"),
]


@pytest.fixture
def owner(demo_platform: Path) -> Iterator[Account]:
    with signed_in(demo_platform) as home:
        yield Account(home)


@pytest.fixture(scope="module")
def kept(demo_platform: Path) -> Iterator[Account]:
    """Somebody whose sessions stay, for the tests that end none."""
    with signed_in(demo_platform) as home:
        yield Account(home)


def test_sessions_say_device_place_and_times_and_this_one_is_marked(kept: Account) -> None:
    found = kept.done("session", "list")["items"]
    assert len(found) > 2
    assert [one["current"] for one in found].count(True) == 1
    assert all(one["device"] and one["place"] and instant(one["startedAt"]) for one in found)
    seen = [instant(one["lastSeenAt"]) for one in found]
    assert seen == sorted(seen, reverse=True)
    lines = kept.run("sessions", "list").out.splitlines()
    assert lines[0].split("  ")[1].startswith("DEVICE")
    (marked,) = [line for line in lines if line.startswith("* ")]
    assert "this machine" in marked


def test_every_session_ends_this_one_too_and_the_next_command_names_login(owner: Account) -> None:
    here, elsewhere = owner.home.token(), _elsewhere(owner)
    active = len(owner.done("session", "list")["items"])
    ended = owner.run("session", "revoke-all")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.startswith(f"{active} sessions have ended, including this one")
    for words in (("session", "list"), ("profile",), ("api-key", "list")):
        assert "frost login" in owner.refused(3, *words)
    for token in (here, elsewhere):
        assert owner.home.request("GET", "/api/v1/me", token=token).status == 401
    assert here not in owner.home.config.read_text()
    owner.home.sign_in()
    assert len(owner.done("session", "list")["items"]) == 1
    assert owner.done("session", "revoke-all") == {"ended": 1}


@pytest.mark.parametrize("words", NEED_PERSON, ids=" ".join)
def test_a_key_is_refused_where_a_person_is_needed(kept: Account, words: tuple[str, ...]) -> None:
    context = kept.context("compute:*", "organizations:*")
    assert "frost login --context NAME" in kept.refused(4, *words, FROST_CONTEXT=context)


def test_a_missing_scope_is_named(kept: Account) -> None:
    key = Key(kept, "storage:read")
    answer = key.ask("GET", f"{TENANT}/resources/instance")
    assert (answer.status, answer.json()["error"]["details"]) == (403, {"scope": "compute:read"})
    context = kept.context("storage:read")
    result = kept.home.frost("tenant", "list", env={"FROST_CONTEXT": context})
    assert (result.code, result.out) == (4, "")
    assert "organizations:read" in result.err


def _elsewhere(owner: Account) -> str:
    """The access token of a session on another device of the same person."""
    name = "elsewhere"
    assert owner.home.frost("login", "--context", name, "--endpoint", f"unix:{owner.home.socket}").code == 0
    document = yaml.safe_load(owner.home.config.read_text())
    assert owner.home.frost("config", "use-context", "local").code == 0
    return str(document["contexts"][name]["credentials"]["access_token"])
