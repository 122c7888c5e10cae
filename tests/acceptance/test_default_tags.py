"""Default tags, their applies and the undo of both, and quotas."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.tagging import Tags, flat
from tests.conftest import signed_in
from tests.homes import Home, Result
from tests.people import ADMIN, AURORA, DATA_LAKE, MEMBER, OWNER, SANDBOX, STAGING
from tests.terminal import screens

STORED = {"cost-center": "eu.team:42", "env": "prod", "owner": "owner@aurora.example", "team": "storefront"}


def test_a_set_is_printed_a_tag_a_line_sorted_or_as_one_flat_map(tags: Tags) -> None:
    tags.set(*(f"{key}={value}" for key, value in STORED.items()))
    plain = tags.run("default-tags", "get")
    assert plain.out.splitlines() == [f"{key}={value}" for key, value in sorted(STORED.items())]
    assert tags.done("default-tag", "get") == STORED
    assert list(tags.done("default-tags", "get")) == sorted(STORED)
    assert yaml.safe_load(tags.run("default-tags", "get", "-o", "yaml").out) == STORED
    tags.set()
    assert tags.run("default-tags", "get").out == ""
    assert tags.run("default-tags", "get", "-o", "json").out == "{}\n"


def test_a_merge_keeps_the_rest_and_lists_the_changes_and_a_dry_run_writes_nothing(tags: Tags) -> None:
    tags.set("a=0", "b=2")
    result = tags.run("default-tags", "set", "--tag", "a=1,c=3", "--merge")
    assert result.out.splitlines() == ["~ a=1 (was 0)", "+ c=3"]
    assert tags.stored() == {"a": "1", "b": "2", "c": "3"}
    document = tags.done("default-tags", "set", "--tag", "b=2")
    assert document == {"tags": {"b": "2"}, "added": {}, "changed": {}, "removed": {"a": "1", "c": "3"}}
    assert "nothing changed" in tags.run("default-tags", "set", "--tag", "b=2").err
    assert tags.run("default-tags", "set", "--tag", "a=1", "--dry-run").out.splitlines() == ["+ a=1", "- b=2"]
    document = tags.done("default-tags", "set", "--tag", "a=1", "--merge", "--dry-run")
    assert (document["dryRun"], document["tags"]) == (True, {"a": "1", "b": "2"})
    assert tags.stored() == {"b": "2"}


def test_clearing_asks_and_leaves_resources_as_they_are(tags: Tags) -> None:
    tags.set("a=1", "b=2")
    before = tags.resources()
    assert "--yes" in tags.refused(2, "default-tags", "clear")
    ended, shown = tags.answered("n", "[y/N]", "default-tags", "clear")
    assert ended == 1
    assert "2 default tags" in shown
    assert "Web Shop" in shown
    assert tags.stored() == {"a": "1", "b": "2"}
    assert tags.answered("y", "[y/N]", "default-tags", "clear")[0] == 0
    assert tags.stored() == {}
    tags.set("a=1")
    assert tags.run("default-tags", "clear", "--yes").out == "- a=1\n"
    assert tags.run("default-tags", "clear", "--yes").code == 0
    assert tags.resources() == before


def test_a_former_set_is_listed_and_restored(tags: Tags) -> None:
    tags.set("a=1")
    tags.set("a=2", "b=3")
    versions = tags.done("default-tags", "history", "--limit", "2")
    assert [one["tags"] for one in versions["items"]] == [{"a": "2", "b": "3"}, {"a": "1"}]
    assert versions["nextCursor"]
    assert versions["items"][0]["changedBy"]["email"] == OWNER
    assert tags.run("default-tags", "undo", "--preview").out.splitlines() == ["~ a=1 (was 2)", "- b=3"]
    assert tags.run("default-tags", "undo").out.splitlines() == ["~ a=1 (was 2)", "- b=3"]
    assert tags.stored() == {"a": "1"}
    tags.home.sign_in(ADMIN)
    try:
        assert OWNER in tags.refused(6, "default-tags", "undo")
        number = versions["items"][0]["version"]
        assert tags.run("default-tags", "undo", "--version", str(number)).code == 0
    finally:
        tags.home.sign_in(OWNER)
    assert tags.stored() == {"a": "2", "b": "3"}


def test_a_member_reads_default_tags_and_may_not_change_them(demo: Home) -> None:
    demo.sign_in(MEMBER)
    mine = Tags(demo)
    assert mine.run("default-tags", "get").code == 0
    for words in (("set", "--tag", "a=1"), ("clear", "--yes")):
        mine.refused(4, "default-tags", *words)
    refused = mine.refused(4, "default-tags", "apply", "--yes")
    assert "must be an owner or admin" in refused
    assert "Ask an owner or admin" in refused


def test_the_table_lists_types_failures_and_skips_and_the_command_succeeds(tags: Tags) -> None:
    tags.set("plain=1")
    result = tags.run("default-tags", "apply", "--yes")
    assert result.code == 0
    heads = ("TYPE", "UPDATED", "UNCHANGED", "SKIPPED", "FAILED", "EXAMINED", "total", "failed:", "skipped:")
    reasons = ("invalid_state", "backend_unavailable", "platform_managed", "boot_volume", "instance_snapshot")
    assert [word for word in (*heads, *reasons, "container_registry") if word not in result.out] == []
    assert "WOULD CHANGE" in tags.run("default-tags", "apply", "--preview").out
    assert "failed" in result.err
    assert "\r" not in result.err + result.out  # progress on a terminal only
    data_lake = Tags(tags.home, DATA_LAKE)
    assert "--yes" in data_lake.refused(2, "default-tags", "apply")
    data_lake.set()
    result = data_lake.run("default-tags", "apply", "--yes")
    assert (result.code, result.out, "nothing to apply" in result.err) == (0, "", True)
    assert data_lake.runs() == []


@pytest.mark.slow
def test_the_question_shows_the_changes_and_defaults_to_no(tags: Tags) -> None:
    tags.set("asked=1")
    runs = len(tags.runs())
    for typed in ("", "n"):
        ended, shown = tags.answered(typed, "[y/N]", "default-tags", "apply")
        assert ended == 1
    assert "would change" in shown
    assert "boot volume" in shown
    assert "would fail" in shown
    assert " failed" not in shown
    assert len(tags.runs()) == runs
    ended, shown = tags.answered("y", "[y/N]", "default-tags", "apply")
    assert ended == 0
    assert len(tags.runs()) == runs + 1 or len(tags.runs()) == 10


def test_an_undo_is_previewed_done_once_and_listed(tags: Tags) -> None:
    staging = Tags(tags.home, STAGING)
    staging.set("undone=1")
    before = staging.resources()
    run = staging.apply()
    assert "--yes" in staging.refused(2, "default-tags", "undo", run["runId"])
    foreseen = staging.done("default-tags", "undo", run["runId"], "--preview")
    assert foreseen["summary"]["updated"] == run["result"]["summary"]["updated"] > 0
    undone = staging.done("default-tags", "undo", run["runId"], "--yes")
    assert undone["operationId"].startswith("undo-default-tags-")
    assert undone["result"]["summary"] == foreseen["summary"]
    assert {one: row["tags"] for one, row in staging.resources().items()} == {
        one: row["tags"] for one, row in before.items()
    }
    assert staging.run("default-tags", "undo", run["runId"], "--yes").code == 6
    for way in ("--yes", "--preview"):
        unknown = staging.refused(5, "default-tags", "undo", SANDBOX, way)
        assert all(text in unknown for text in (SANDBOX, "frost tenant default-tags history"))
    assert "apply (undone)" in staging.run("default-tags", "history").out


@pytest.fixture
def paused(demo_platform: Path) -> Iterator[Tags]:
    """Applies that wait ten minutes after their first portion."""
    with signed_in(demo_platform, FROST_PLATFORM_APPLY_PACE="600") as home:
        tags = Tags(home)
        tags.set("a=1")
        yield tags


@pytest.mark.slow
def test_a_waiting_apply_reports_that_it_was_cancelled_and_exits_with_1(paused: Tags) -> None:
    program = paused.on_terminal("default-tags", "apply", "--yes", columns=200)
    program.wait_for("apply started")
    listed = paused.home.json("platform", "operations")["items"]
    (run,) = [one for one in listed if one["kind"] == "apply_default_tags" and one["status"] in ("pending", "running")]
    done = paused.home.frost("platform", "operations", "cancel", run["operationId"])
    assert done.code == 0, done
    assert run["runId"] in done.err + done.out
    assert program.wait_end() == 1
    shown = flat(program.text)
    assert f"operation {run['operationId']} cancelled [cancelled]: cancelled by an operator of the platform" in shown
    assert "Traceback" not in shown
    assert paused.runs()[0]["status"] == "cancelled"
    assert "cancelled" in paused.home.frost("platform", "operations").out
    again = paused.home.frost("platform", "operations", "cancel", run["runId"])
    assert again.code == 6
    assert "already" in again.err
    unknown = paused.home.frost("platform", "operations", "cancel", "no-such")
    assert (unknown.code, "operation no-such not found" in unknown.err) == (5, True), unknown.err
    with screens(paused.home) as program:
        program.wait_for("Web Shop")
        program.write(b":default-tags.runs\r")
        program.wait_for("Recent runs in Web Shop")
        program.wait_for("cancelled")


WHY = ("--reason", "launch")


class Asking(Tags):
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
