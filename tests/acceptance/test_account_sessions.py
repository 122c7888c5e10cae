"""Sessions on all devices."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.acceptance.account import Account, instant
from tests.acceptance.shell import signed_in


@pytest.fixture
def owner(demo_platform: Path) -> Iterator[Account]:
    with signed_in(demo_platform) as home:
        yield Account(home)


def test_every_session_ends_this_one_too_and_the_next_command_names_login(owner: Account) -> None:
    here = owner.home.token()
    login = owner.home.frost("login", "--context", "elsewhere", "--endpoint", f"unix:{owner.home.socket}")
    assert login.code == 0
    assert owner.home.frost("config", "use-context", "local").code == 0
    contexts = yaml.safe_load(owner.home.config.read_text())["contexts"]
    sessions = owner.done("session", "list")["items"]
    assert len(sessions) > 2
    assert [one["current"] for one in sessions].count(True) == 1
    assert all(one["device"] and one["place"] and instant(one["startedAt"]) for one in sessions)
    seen = [instant(one["lastSeenAt"]) for one in sessions]
    assert seen == sorted(seen, reverse=True)
    lines = owner.run("sessions", "list").out.splitlines()
    assert lines[0].split("  ")[1].startswith("DEVICE")
    (marked,) = [line for line in lines if line.startswith("* ")]
    assert "this machine" in marked
    ended = owner.run("session", "revoke-all")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.startswith(f"{len(sessions)} sessions have ended, including this one")
    for words in (("session", "list"), ("profile",), ("api-key", "list")):
        assert "frost login" in owner.refused(3, *words)
    for token in (here, contexts["elsewhere"]["credentials"]["access_token"]):
        assert owner.home.request("GET", "/api/v1/me", token=token).status == 401
    assert here not in owner.home.config.read_text()
    owner.home.sign_in()
    assert len(owner.done("session", "list")["items"]) == 1
    assert owner.done("session", "revoke-all") == {"ended": 1}
