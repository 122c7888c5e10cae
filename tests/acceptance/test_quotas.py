"""Quotas, and requests for other limits."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.people import AURORA, DATA_LAKE, STAGING
from tests.acceptance.shell import signed_in
from tests.acceptance.tagging import Tags
from tests.homes import Result

WHY = ("--reason", "launch")


class Asking(Tags):
    """Quota requests."""

    def ask(self, *words: str) -> Result:
        return self.run("quota", "request", *words, *WHY)

    def quota(self, resource_type: str, *words: str) -> dict[str, Any]:
        return next(one for one in self.items("quota", *words) if one["resourceType"] == resource_type)

    def pending(self) -> list[dict[str, Any]]:
        requests: list[dict[str, Any]] = self.home.json("platform", "review", "list")["items"]
        return requests


@pytest.fixture(scope="module")
def asking(demo_platform: Path) -> Iterator[Asking]:
    """The owner in Web Shop; each test has resource types of its own."""
    with signed_in(demo_platform) as home:
        yield Asking(home)


def test_a_key_sees_its_own_tenant_and_not_the_organization(asking: Asking) -> None:
    key = ("--config", asking.key_file("backup-runner"))
    assert asking.run("quota", *key).code == 0
    asking.refused(4, "quota", "--tenant", STAGING, *key)
    request = ("quota", "request", "vcpu", "900", "--reason", "x", "--org")
    for words in (("quota", "--org"), request):
        asking.refused(4, *words, "--organization", AURORA, *key)
        # A scope would not help, so none is named.
        message = asking.refused(4, *words, *key)
        assert ("use an interactive login" in message, "scope" in message) == (True, False)


def test_a_raise_is_decided_at_once_and_is_the_new_limit(asking: Asking) -> None:
    limit = asking.quota("vcpu")["limit"]
    result = asking.ask("vcpu", str(limit + 5))
    assert result.code == 0
    assert "approved" in result.out
    assert f"vcpu is {limit + 5} now, was {limit}" in result.err
    assert asking.quota("vcpu")["limit"] == limit + 5
    record = asking.done("quotas", "request", "vcpu", str(limit + 6), "--yes", *WHY)
    assert (record["from"], record["limit"], record["status"]) == (limit + 5, limit + 6, "approved")
    newest = asking.done("quota", "requests", "--limit", "1")
    assert newest["items"][0]["id"] == record["id"]
    assert newest["nextCursor"]
    # There is no question, on a terminal neither.
    program = asking.on_terminal("quota", "request", "vpc", "4", *WHY)
    assert program.wait_end() == 2
    assert "[y/N]" not in program.text


def test_an_organization_request_is_decided_by_the_operator(asking: Asking) -> None:
    before = asking.quota("bucket", "--org")["limit"]
    record = asking.done("quota", "request", "bucket", str(before + 50), "--org", *WHY)
    assert record["status"] == "pending"
    refusal = asking.refused(6, "quota", "request", "bucket", str(before + 60), "--org", *WHY)
    assert record["id"] in refusal
    lower = asking.done("quota", "request", "volume", "350", "--org", *WHY)  # another type, and less than there is
    assert lower["status"] == "pending"
    assert {one["id"] for one in asking.done("quota", "requests")["items"]} >= {record["id"], lower["id"]}
    waiting = {one["id"]: one for one in asking.pending()}
    assert waiting[record["id"]]["organizationName"] == "Aurora Labs"
    assert asking.home.frost("platform", "review", "reject", record["id"], "--note", "not yet").code == 0
    assert asking.home.frost("platform", "review", "approve", lower["id"]).code == 0
    assert asking.home.frost("platform", "review", "deny", lower["id"]).code == 6
    assert asking.home.frost("platform", "review", "approve", DATA_LAKE).code == 5
    assert asking.quota("bucket", "--org")["limit"] == before
    assert asking.quota("volume", "--org")["limit"] == 350
    outcome = {one["id"]: one for one in asking.done("quota", "requests", "--org")["items"]}
    assert (outcome[record["id"]]["status"], outcome[record["id"]]["decision"]) == ("rejected", "not yet")
    assert outcome[lower["id"]]["status"] == "approved"
    again = asking.done("quota", "request", "bucket", str(before + 60), "--org", *WHY)
    assert asking.home.frost("platform", "review", "approve", again["id"]).code == 0
    assert asking.quota("bucket", "--org")["limit"] == before + 60
    assert not asking.pending()
    everything = asking.home.json("platform", "review", "list", "--status", "all")["items"]
    assert {one["id"] for one in everything} >= {record["id"], lower["id"], again["id"]}
    assert asking.ask("bucket", str(before + 60), "--org").code == 0
