"""The profile, deleting an account and bringing it back."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.account import Account, Key, days, instant
from tests.acceptance.people import ADMIN, AURORA, MEMBER, OUTSIDER, OWNER, WEB_SHOP
from tests.acceptance.shell import signed_in


@pytest.fixture
def member(demo_platform: Path) -> Iterator[Account]:
    """Somebody who can leave: not the only owner of anything."""
    with signed_in(demo_platform, MEMBER) as home:
        yield Account(home)


def test_the_profile_is_the_person_with_their_organizations(owner: Account) -> None:
    me = owner.done("profile")
    assert (me["email"], me["credential"]["kind"]) == (OWNER, "session")
    assert {one["id"]: one["role"] for one in me["organizations"]}[AURORA] == "owner"
    shown = owner.run("profile").out
    assert all(text in shown for text in (OWNER, "Astrid Lindqvist", "Aurora Labs · owner", "session"))


def test_with_an_api_key_it_is_the_owner_and_what_the_key_is_limited_to(owner: Account) -> None:
    context = owner.context("compute:read", "dns:*")
    me = owner.done("profile", FROST_CONTEXT=context)
    assert me["email"] == OWNER
    assert (me["credential"]["kind"], me["credential"]["tenantId"]) == ("api_key", WEB_SHOP)
    assert me["credential"]["scopes"] == ["compute:read", "dns:*"]
    shown = owner.run("profile", FROST_CONTEXT=context).out
    assert all(text in shown for text in ("API key", WEB_SHOP, "compute:read, dns:*"))


def test_a_deleted_account_ends_at_once_and_names_the_restore_limit(member: Account) -> None:
    key, token = Key(member, "compute:read"), member.home.token()
    gone = member.done("delete", "--yes")
    assert gone["email"] == MEMBER
    assert instant(gone["restorableUntil"]) - instant(gone["deletedAt"]) == timedelta(days=30)
    assert member.home.request("GET", "/api/v1/me", token=token).status == 401
    assert key.ask("GET", "/api/v1/me").status == 401
    assert "frost login" in member.refused(3, "profile")
    assert "unknown user" in member.home.frost("login", "--as", MEMBER).err
    assert token not in member.home.config.read_text()


def test_on_a_terminal_the_address_is_typed_and_nothing_else_will_do(member: Account) -> None:
    for typed, code in (("y", 1), (MEMBER.upper(), 1), ("", 1), (MEMBER, 0)):
        program = member.on_terminal("delete")
        program.wait_for("to confirm:")
        assert f"Delete the account {MEMBER}" in program.text
        program.until_quiet(0.2, 5)
        program.write(typed.encode() + b"\r")
        assert program.wait_end() == code, program.text
        assert ("nothing was changed" in program.text) == bool(code)
    assert days(30).strftime("%Y-%m-%d") in program.text
    member.refused(3, "profile")


def test_deleting_without_a_terminal_needs_yes(owner: Account) -> None:
    said = owner.refused(2, "delete")
    assert OWNER in said
    assert "--yes" in said
    assert owner.done("profile")["email"] == OWNER


def test_an_api_key_cannot_delete_the_account_even_unasked(owner: Account) -> None:
    context = owner.context("compute:*")
    said = owner.refused(4, "delete", "--yes", FROST_CONTEXT=context)
    assert "frost login --context NAME" in said
    assert owner.raw("GET", "").status == 200


@pytest.mark.parametrize(("later", "code"), [(timedelta(days=29, hours=23), 0), (timedelta(days=30, hours=1), 6)])
def test_within_30_days_it_comes_back_and_later_it_does_not(member: Account, later: timedelta, code: int) -> None:
    gone = member.done("delete", "--yes")
    assert member.home.frost("platform", "stop").code == 0
    clock = (instant(gone["deletedAt"]) + later).isoformat()
    # The platform is not running: it is started, with the clock of the tests.
    result = member.home.frost("platform", "account", "restore", MEMBER, env={"FROST_CLOCK": clock})
    assert result.code == code, result
    if code:
        assert gone["restorableUntil"][:10] in result.err


def test_an_account_that_is_not_deleted_or_not_there_is_not_restored(owner: Account) -> None:
    for email, code, said in (
        (ADMIN, 6, f"the account {ADMIN} is not deleted"),
        ("nobody@aurora.example", 5, "account nobody@aurora.example not found"),
        (" ", 2, "EMAIL is empty"),
        ("\x1b[31m@x", 5, "␛[31m@x"),
    ):
        result = owner.home.frost("platform", "account", "restore", email)
        assert (result.code, result.out) == (code, "")
        assert said in result.err


def test_the_last_owner_is_refused_with_the_organization_and_the_way_on(owner: Account) -> None:
    said = owner.refused(6, "delete", "--yes")
    assert "last owner of Aurora Labs" in said
    assert AURORA in said
    assert "Make another member an owner" in said
    assert owner.done("profile")["email"] == OWNER


def test_a_person_without_an_organization_may_leave(owner: Account) -> None:
    owner.home.sign_in(OUTSIDER)
    assert owner.run("delete", "--yes").code == 0
    assert owner.home.frost("platform", "account", "restore", OUTSIDER).code == 0
    owner.home.sign_in()
