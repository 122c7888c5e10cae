"""Default tags, their applies and the undo of both, and quotas."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.acceptance.tagging import Tags, flat
from tests.conftest import signed_in
from tests.homes import Home
from tests.people import AURORA, DATA_LAKE, MEMBER, OWNER, SANDBOX, STAGING


def test_a_set_is_printed_merged_previewed_cleared_after_a_question_and_restored(tags: Tags) -> None:
    stored = {"a": "0", "b": "2"}
    tags.set("b=2", "a=0")
    assert tags.run("default-tags", "get").out.splitlines() == ["a=0", "b=2"]
    assert tags.done("default-tag", "get") == stored
    assert yaml.safe_load(tags.run("default-tags", "get", "-o", "yaml").out) == stored
    result = tags.run("default-tags", "set", "--tag", "a=1,c=3", "--merge")
    assert result.out.splitlines() == ["~ a=1 (was 0)", "+ c=3"]
    document = tags.done("default-tags", "set", "--tag", "b=2")
    assert document == {"tags": {"b": "2"}, "added": {}, "changed": {}, "removed": {"a": "1", "c": "3"}}
    assert "nothing changed" in tags.run("default-tags", "set", "--tag", "b=2").err
    assert tags.run("default-tags", "set", "--tag", "a=1", "--dry-run").out.splitlines() == ["+ a=1", "- b=2"]
    document = tags.done("default-tags", "set", "--tag", "a=1", "--merge", "--dry-run")
    assert (document["dryRun"], document["tags"]) == (True, {"a": "1", "b": "2"})
    assert tags.stored() == {"b": "2"}
    before = tags.resources()
    ended, shown = tags.answered("n", "[y/N]", "default-tags", "clear")
    assert (ended, "1 default tag" in shown, "Web Shop" in shown) == (1, True, True)
    assert tags.stored() == {"b": "2"}
    assert tags.answered("y", "[y/N]", "default-tags", "clear")[0] == 0
    assert (tags.run("default-tags", "get").out, tags.stored()) == ("", {})
    assert tags.resources() == before
    tags.set("a=1")
    assert tags.run("default-tags", "clear", "--yes").out == "- a=1\n"
    assert tags.run("default-tags", "clear", "--yes").code == 0
    versions = tags.done("default-tags", "history", "--limit", "2")
    assert [one["tags"] for one in versions["items"]] == [{}, {"a": "1"}]
    assert versions["nextCursor"]
    assert versions["items"][0]["changedBy"]["email"] == OWNER
    assert tags.run("default-tags", "undo", "--preview").out == tags.run("default-tags", "undo").out == "+ a=1\n"
    assert tags.stored() == {"a": "1"}


def test_a_member_may_not_change_default_tags(demo: Home) -> None:
    demo.sign_in(MEMBER)
    mine = Tags(demo)
    assert mine.run("default-tags", "get").code == 0
    mine.refused(4, "default-tags", "set", "--tag", "a=1")
    refused = mine.refused(4, "default-tags", "apply", "--yes")
    assert "must be an owner or admin" in refused
    assert "Ask an owner or admin" in refused


@pytest.mark.slow
def test_the_table_lists_types_failures_and_skips_and_the_command_succeeds(tags: Tags) -> None:
    tags.set("plain=1")
    assert "WOULD CHANGE" in tags.run("default-tags", "apply", "--preview").out
    before = len(tags.runs())
    for typed in ("", "n"):
        ended, shown = tags.answered(typed, "[y/N]", "default-tags", "apply")
        assert (ended, " failed" in shown) == (1, False)
    for text in ("would change", "boot volume", "would fail"):
        assert text in shown
    assert len(tags.runs()) == before
    result = tags.run("default-tags", "apply", "--yes")
    assert result.code == 0
    heads = ("TYPE", "UPDATED", "UNCHANGED", "SKIPPED", "FAILED", "EXAMINED", "total", "failed:", "skipped:")
    reasons = ("invalid_state", "backend_unavailable", "platform_managed", "boot_volume", "instance_snapshot")
    assert [word for word in (*heads, *reasons, "container_registry") if word not in result.out] == []
    assert "failed" in result.err
    assert "\r" not in result.err + result.out  # progress on a terminal only
    assert tags.answered("y", "[y/N]", "default-tags", "apply")[0] == 0
    assert len(tags.runs()) == before + 2


@pytest.mark.slow
def test_an_undo_is_previewed_done_once_and_listed(tags: Tags) -> None:
    staging = Tags(tags.home, STAGING)
    staging.set("undone=1")
    before = staging.resources()
    run = staging.done("default-tags", "apply", "--yes")
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


@pytest.fixture(scope="module")
def quotas(demo_platform: Path) -> Iterator[Tags]:
    """The owner in Web Shop; each test has resource types of its own."""
    with signed_in(demo_platform) as home:
        yield Tags(home)


def limit_of(quotas: Tags, resource_type: str, *words: str) -> int:
    return int(next(one["limit"] for one in quotas.items("quota", *words) if one["resourceType"] == resource_type))


def test_a_key_sees_its_own_tenant_and_not_the_organization(quotas: Tags) -> None:
    key = ("--config", quotas.key_file("backup-runner"))
    assert quotas.run("quota", *key).code == 0
    quotas.refused(4, "quota", "--tenant", STAGING, *key)
    request = ("quota", "request", "vcpu", "900", "--reason", "x", "--org")
    for words in (("quota", "--org"), request):
        quotas.refused(4, *words, "--organization", AURORA, *key)
        # A scope would not help, so none is named.
        message = quotas.refused(4, *words, *key)
        assert ("use an interactive login" in message, "scope" in message) == (True, False)


WHY = ("--reason", "launch")


def test_a_raise_is_decided_at_once_and_is_the_new_limit(quotas: Tags) -> None:
    limit = limit_of(quotas, "vcpu")
    result = quotas.run("quota", "request", "vcpu", str(limit + 5), *WHY)
    assert (result.code, "approved" in result.out) == (0, True)
    assert f"vcpu is {limit + 5} now, was {limit}" in result.err
    record = quotas.done("quotas", "request", "vcpu", str(limit + 6), "--yes", *WHY)
    assert (record["from"], record["limit"], record["status"]) == (limit + 5, limit + 6, "approved")
    newest = quotas.done("quota", "requests", "--limit", "1")
    assert (newest["items"][0]["id"], bool(newest["nextCursor"])) == (record["id"], True)
    # There is no question, not even on a terminal.
    program = quotas.on_terminal("quota", "request", "vpc", "4", *WHY)
    assert (program.wait_end(), "[y/N]" in program.text) == (2, False)


def test_an_organization_request_is_decided_by_the_operator(quotas: Tags) -> None:
    def review(*words: str) -> int:
        return quotas.home.frost("platform", "review", *words).code

    request, before = ("quota", "request", "bucket"), limit_of(quotas, "bucket", "--org")
    first = quotas.done(*request, str(before + 50), "--org", *WHY)
    assert first["status"] == "pending"
    assert first["id"] in quotas.refused(6, *request, str(before + 60), "--org", *WHY)
    (waiting,) = quotas.home.json("platform", "review", "list")["items"]
    assert (waiting["id"], waiting["organizationName"]) == (first["id"], "Aurora Labs")
    assert review("reject", first["id"], "--note", "not yet") == 0
    assert [review("deny", first["id"]), review("approve", DATA_LAKE)] == [6, 5]
    (outcome,) = quotas.items("quota", "requests", "--org", "--limit", "1")
    assert (outcome["status"], outcome["decision"]) == ("rejected", "not yet")
    again = quotas.done(*request, str(before + 60), "--org", *WHY)
    assert review("approve", again["id"]) == 0
    assert limit_of(quotas, "bucket", "--org") == before + 60
    assert quotas.home.json("platform", "review", "list")["items"] == []
    everything = quotas.home.json("platform", "review", "list", "--status", "all")["items"]
    assert {one["id"] for one in everything} >= {first["id"], again["id"]}
    assert quotas.run(*request, str(before + 60), "--org", *WHY).code == 0
