"""Asking for other limits, with the real platform deciding."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.people import DATA_LAKE
from tests.acceptance.shell import signed_in
from tests.acceptance.tagging import Tags
from tests.homes import Result

WHY = ("--reason", "launch")


class Asking(Tags):
    """Requests for other limits."""

    def ask(self, *words: str) -> Result:
        return self.run("quota", "request", *words, *WHY)

    def quota(self, resource_type: str, *words: str) -> dict[str, Any]:
        found = self.done("quota", *words)["items"]
        return next(one for one in found if one["resourceType"] == resource_type)

    def pending(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.home.json("platform", "review", "list")["items"]
        return found


@pytest.fixture(scope="module")
def asking(demo_platform: Path) -> Iterator[Asking]:
    """The owner in Web Shop; each test has resource types of its own."""
    with signed_in(demo_platform) as home:
        yield Asking(home)


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


def test_no_question_is_asked_even_on_a_terminal(asking: Asking) -> None:
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


def test_of_two_at_the_same_moment_exactly_one_waits(asking: Asking) -> None:
    limit = asking.quota("function", "--org")["limit"] + 10
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda _: asking.ask("function", str(limit), "--org"), range(4)))
    assert sorted(result.code for result in ended) == [0, 6, 6, 6]
    assert [one["resourceType"] for one in asking.pending()].count("function") == 1
