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
    """A person who can leave: not the only owner of an organization."""
    with signed_in(demo_platform, MEMBER) as home:
        yield Account(home)


def test_the_profile_is_the_person_and_the_credential(owner: Account) -> None:
    me = owner.done("profile")
    assert (me["email"], me["credential"]["kind"]) == (OWNER, "session")
    assert {one["id"]: one["role"] for one in me["organizations"]}[AURORA] == "owner"
    shown = owner.run("profile").out
    assert all(text in shown for text in (OWNER, "Astrid Lindqvist", "Aurora Labs · owner", "session"))
    context = owner.context("compute:read", "dns:*")
    me = owner.done("profile", FROST_CONTEXT=context)
    assert me["email"] == OWNER
    assert (me["credential"]["kind"], me["credential"]["tenantId"]) == ("api_key", WEB_SHOP)
    assert me["credential"]["scopes"] == ["compute:read", "dns:*"]
    shown = owner.run("profile", FROST_CONTEXT=context).out
    assert all(text in shown for text in ("API key", WEB_SHOP, "compute:read, dns:*"))


def test_an_account_is_deleted_by_typing_its_address_and_ends_at_once(member: Account) -> None:
    key, token = Key(member, "compute:read"), member.home.token()
    for typed, code in (("y", 1), (MEMBER.upper(), 1), ("", 1), (MEMBER, 0)):
        ended, shown = member.answered(typed, "to confirm:", "delete")
        assert (ended, f"Delete the account {MEMBER}" in shown) == (code, True), shown
        assert ("nothing was changed" in shown) == bool(code)
    assert days(30).strftime("%Y-%m-%d") in shown
    assert member.home.request("GET", "/api/v1/me", token=token).status == 401
    assert key.ask("GET", "/api/v1/me").status == 401
    assert "frost login" in member.refused(3, "profile")
    assert "unknown user" in member.home.frost("login", "--as", MEMBER).err
    assert token not in member.home.config.read_text()


def test_after_30_days_an_account_is_not_restored(member: Account) -> None:
    gone = member.done("delete", "--yes")
    assert gone["email"] == MEMBER
    assert instant(gone["restorableUntil"]) - instant(gone["deletedAt"]) == timedelta(days=30)
    assert member.home.frost("platform", "stop").code == 0
    clock = (instant(gone["deletedAt"]) + timedelta(days=30, hours=1)).isoformat()
    # The platform is not running: the command starts it, with the clock of the tests.
    result = member.home.frost("platform", "account", "restore", MEMBER, env={"FROST_CLOCK": clock})
    assert (result.code, gone["restorableUntil"][:10] in result.err) == (6, True), result


def test_an_account_that_is_not_deleted_or_unknown_is_not_restored(owner: Account) -> None:
    for email, code, message in (
        (ADMIN, 6, f"the account {ADMIN} is not deleted"),
        ("nobody@aurora.example", 5, "account nobody@aurora.example not found"),
        (" ", 2, "EMAIL is empty"),
        ("\x1b[31m@x", 5, "␛[31m@x"),
    ):
        result = owner.home.frost("platform", "account", "restore", email)
        assert (result.code, result.out, message in result.err) == (code, "", True), result


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


def test_a_person_without_an_organization_may_leave(owner: Account) -> None:
    owner.home.sign_in(OUTSIDER)
    assert owner.run("delete", "--yes").code == 0
    assert owner.home.frost("platform", "account", "restore", OUTSIDER).code == 0
    owner.home.sign_in()
