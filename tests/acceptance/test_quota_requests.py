"""Asking for other limits, with the real platform deciding."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.people import ADMIN, DATA_LAKE, MEMBER, OWNER, VIEWER
from tests.acceptance.recording import Recorder
from tests.acceptance.tagging import Tags
from tests.conftest import opened
from tests.homes import Result

WHY = ("--reason", "launch")


class Asking(Tags):
    """Quota requests."""

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
    home = opened(demo_platform, FROST_PLATFORM_PROVISIONING_PACE="600")
    home.sign_in()
    yield Asking(home)
    home.remove()


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


def test_memory_is_asked_in_megabytes_and_told_in_both(asking: Asking) -> None:
    result = asking.ask("ram", "786432")
    assert result.code == 0
    assert "786432 MB (768 GB)" in result.out
    assert "786432 MB (768 GB)" in result.err
    assert asking.quota("ram")["limit"] == 786432


def test_above_the_bound_nothing_reaches_the_service_and_at_the_bound_it_does(asking: Asking) -> None:
    bound = asking.quota("snapshot")["requestable"]
    with Recorder(asking.home.socket) as recorder:
        name = "recorded"
        login = asking.home.frost("login", "--context", name, "--endpoint", f"unix:{recorder.path}", "--as", OWNER)
        assert login.code == 0, login
        assert asking.home.frost("config", "use-context", "local").code == 0
        recorder.heard.clear()
        env = {"FROST_CONTEXT": name}
        for words in (["snapshot", str(bound + 1)], ["snapshot", str(2**53)], ["image", "1"], ["image", "1", "--org"]):
            result = asking.run("quota", "request", *words, *WHY, **env)
            assert result.code in (1, 2)
            assert recorder.sent() == []
        refusal = asking.run("quota", "request", "snapshot", str(bound + 1), *WHY, **env).err
        assert str(bound) in refusal
        assert "--org" in refusal
        assert asking.run("quota", "request", "snapshot", str(bound), *WHY, **env).code == 0
        assert recorder.sent() == [f"POST /api/v1/tenants/{asking.tenant}/quota-requests"]
    assert asking.quota("snapshot")["limit"] == bound


def test_lowering_needs_yes_and_stops_at_what_is_in_use(asking: Asking) -> None:
    quota = asking.quota("instance")
    used, limit = quota["used"], quota["limit"]
    assert quota["creating"] > 0
    assert "--yes" in asking.refused(2, "quota", "request", "instance", str(used), *WHY)
    assert asking.quota("instance")["limit"] == limit
    denied = asking.refused(1, "quota", "request", "instance", str(used - 1), "--yes", *WHY)
    assert f"{used} in use, {quota['creating']} in creation" in denied
    assert asking.ask("instance", str(used), "--yes").code == 0
    assert asking.quota("instance")["limit"] == used
    again = asking.ask("instance", str(used), "--yes")
    assert (again.code, again.out) == (0, "")
    assert f"already {used}" in again.err
    assert "is unknown" in asking.refused(1, "quota", "request", "registry_storage", "100", "--yes", *WHY)
    assert asking.ask("gpu", "2").code == 0
    assert asking.ask("gpu", "0", "--yes").code == 0


def test_no_question_is_asked_even_on_a_terminal(asking: Asking) -> None:
    program = asking.on_terminal("quota", "request", "vpc", "4", *WHY)
    assert program.wait_end() == 2
    assert "[y/N]" not in program.text


def test_an_organizations_request_waits_for_the_staff_who_decide_it(asking: Asking) -> None:
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


def test_a_key_needs_the_scope_of_quotas(asking: Asking) -> None:
    limit = asking.quota("secret")["limit"] + 1
    ask = ("tenant", "quota", "request", "secret", str(limit), *WHY, "--config")
    refused = asking.home.frost(*ask, asking.key_file("deploy-pipeline"))  # compute:* among others
    assert (refused.code, refused.out) == (4, "")
    assert "quotas:write" in refused.err
    assert asking.home.frost(*ask, asking.key_file("quota-bot")).code == 0
    assert asking.quota("secret")["limit"] == limit


def test_a_plain_member_may_not_request(asking: Asking) -> None:
    limit = asking.quota("subnet")["limit"] + 1
    try:
        for person, code in ((MEMBER, 4), (VIEWER, 4), (ADMIN, 0)):
            asking.home.sign_in(person)
            assert asking.ask("subnet", str(limit)).code == code, person
    finally:
        asking.home.sign_in(OWNER)


def test_creating_stops_at_the_limit_also_where_the_use_is_unknown(asking: Asking) -> None:
    region = next(iter(asking.resources("bucket").values()))["region"]
    with sqlite3.connect(asking.home.platform_dir / "platform.db", timeout=20) as database:
        database.execute(
            "UPDATE tenant_quotas SET \"limit\" = 0 WHERE tenant_id = ? AND resource_type = 'registry_storage'",
            [asking.tenant],
        )
    body = {"name": "one more", "region": region, "attributes": {"sizeGb": 5}}
    answer = asking.raw("POST", "/resources/container_registry", body)
    assert answer.status == 403, answer
    assert answer.json()["error"]["code"] == "QUOTA_EXCEEDED"
    assert answer.json()["error"]["details"]["used"] is None
