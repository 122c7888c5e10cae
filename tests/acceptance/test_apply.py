"""Applying default tags to the resources that exist, from the command to the rows and back."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.people import DATA_LAKE, SANDBOX, STAGING
from tests.acceptance.tagging import Tags
from tests.conftest import opened


@pytest.fixture(scope="module")
def tags(demo_platform: Path) -> Iterator[Tags]:
    """The owner in Web Shop; each test sets keys that no resource has yet."""
    home = opened(demo_platform, FROST_PLATFORM_PROVISIONING_PACE="600")
    home.sign_in()
    yield Tags(home)
    home.remove()


def lacking(before: dict[str, Any], after: dict[str, Any], keys: set[str]) -> set[str]:
    """Which resources got keys; each all that it lacked, none anything else."""
    got = set()
    for identifier, then in before.items():
        now = after[identifier]
        added = {key: now["tags"][key] for key in set(now["tags"]) - set(then["tags"])}
        assert {key: value for key, value in now["tags"].items() if key in then["tags"]} == then["tags"]
        assert set(added) in (set(), keys - set(then["tags"]))
        if added:
            got.add(identifier)
        else:
            assert now["updated_at"] == then["updated_at"]
    return got


def test_what_is_missing_is_added_counted_and_not_added_again(tags: Tags) -> None:
    tags.set("zone=north", "env=other")
    before = tags.resources()
    operation = tags.apply()
    after = tags.resources()
    result = operation["result"]
    got = lacking(before, after, {"zone", "env"})
    assert len(got) == result["summary"]["updated"] > 0
    assert result["appliedTags"] == {"env": "other", "zone": "north"}
    assert operation["operationId"] == f"apply-default-tags-{tags.tenant}"
    for name in ("updated", "unchanged", "skipped", "failed"):
        assert result["summary"][name] == sum(counts[name] for counts in result["byType"].values())
    assert result["summary"]["skipped"] == len(result["skipped"]) or result["skippedTruncated"]
    again = tags.apply()["result"]
    assert again["summary"]["updated"] == 0
    assert again["summary"]["failed"] == result["summary"]["failed"]
    assert lacking(after, tags.resources(), {"zone", "env"}) == set()


def test_what_is_skipped_and_what_is_included_by_type(tags: Tags) -> None:
    tags.set("kinds=1")
    before = tags.resources()
    result = tags.apply()["result"]
    after = tags.resources()
    got = {one for one in before if "kinds" in after[one]["tags"] and "kinds" not in before[one]["tags"]}
    by_kind: dict[str, int] = {}
    for one in got:
        by_kind[before[one]["kind"]] = by_kind.get(before[one]["kind"], 0) + 1
    for kind in ("image", "instance_snapshot", "lb_listener", "lb_pool", "lb_health_monitor"):
        counts = result["byType"][kind]
        assert counts["updated"] == 0
        assert counts["skipped"] == len(tags.resources(kind)) > 0
    for kind, counts in result["byType"].items():
        assert counts["updated"] == by_kind.get(kind, 0), kind
    assert result["byType"]["kubernetes_cluster"]["updated"]
    assert result["byType"]["node_pool"]["updated"]
    reasons = {(one["resourceType"], one["reason"]) for one in result["skipped"]}
    assert {
        ("security_group", "platform_managed"),
        ("load_balancer", "platform_managed"),
        ("public_ip", "platform_managed"),
        ("volume", "boot_volume"),
        ("instance", "inside_managed_service"),
    } <= reasons
    assert not got & {one["resourceId"] for one in (*result["skipped"], *result["failures"])}
    listed = Tags(tags.home, STAGING)
    listed.set("kinds=1")
    types = listed.apply()["result"]["byType"]
    assert any(not any(counts.values()) for counts in types.values())
    assert set(types) >= {kind for kind, counts in result["byType"].items() if counts["updated"]}


def test_the_table_lists_types_failures_and_skips_and_the_command_succeeds(tags: Tags) -> None:
    tags.set("plain=1")
    result = tags.run("default-tags", "apply", "--yes")
    assert result.code == 0
    for word in ("TYPE", "UPDATED", "UNCHANGED", "SKIPPED", "FAILED", "EXAMINED", "total", "failed:", "skipped:"):
        assert word in result.out
    for reason in ("invalid_state", "backend_unavailable", "platform_managed", "boot_volume", "instance_snapshot"):
        assert reason in result.out
    assert "container_registry" in result.out
    assert "failed" in result.err
    assert "\r" not in result.err + result.out  # progress on a terminal only


def test_yaml_is_the_same_value(tags: Tags) -> None:
    tags.set("plain=1")
    document = yaml.safe_load(tags.run("default-tags", "apply", "--yes", "-o", "yaml").out)
    assert document["status"] == "completed"
    assert document["result"]["summary"]["updated"] == 0


def test_a_preview_is_what_the_apply_then_does_and_changes_nothing(tags: Tags) -> None:
    tags.set("preview=1")
    before = tags.resources()
    foreseen = tags.done("default-tags", "apply", "--preview")
    assert tags.resources() == before
    assert foreseen.pop("preview") is True
    foreseen.pop("affected")
    assert tags.apply()["result"] == foreseen
    assert "WOULD CHANGE" in tags.run("default-tags", "apply", "--preview").out


@pytest.mark.slow
def test_the_question_shows_what_would_change_and_no_is_the_answer_to_enter(tags: Tags) -> None:
    tags.set("asked=1")
    runs = len(tags.runs())
    for typed in ("", "n"):
        ended, shown = tags.answering(typed, "[y/N]", "default-tags", "apply")
        assert ended == 1
    assert "would change" in shown
    assert "boot_volume" in shown
    assert "would fail" in shown
    assert " failed" not in shown
    assert len(tags.runs()) == runs
    ended, shown = tags.answering("y", "[y/N]", "default-tags", "apply")
    assert ended == 0
    assert len(tags.runs()) == runs + 1 or len(tags.runs()) == 10


def test_a_tenant_that_is_not_ready_cannot_be_applied_to(tags: Tags) -> None:
    sandbox = Tags(tags.home, SANDBOX)
    sandbox.set("a=1")
    assert "still being set up" in sandbox.refused(1, "default-tags", "apply", "--yes")


def test_nothing_runs_unasked_or_without_tags(tags: Tags) -> None:
    data_lake = Tags(tags.home, DATA_LAKE)
    assert "--yes" in data_lake.refused(2, "default-tags", "apply")
    data_lake.set()
    result = data_lake.run("default-tags", "apply", "--yes")
    assert (result.code, result.out) == (0, "")
    assert "nothing to apply" in result.err
    assert data_lake.runs() == []


def test_an_apply_is_taken_back_where_nobody_changed_what_it_added(tags: Tags) -> None:
    staging = Tags(tags.home, STAGING)
    staging.set("undone=1")
    before = staging.resources()
    run = staging.apply()
    changed = next(
        identifier
        for identifier, one in staging.resources("bucket").items()
        if "undone" in one["tags"] and "undone" not in before[identifier]["tags"]
    )
    body = {"tags": {**staging.resources()[changed]["tags"], "undone": "2"}}
    assert staging.raw("PATCH", f"/resources/bucket/{changed}", body).status in (200, 204)
    assert "--yes" in staging.refused(2, "default-tags", "undo", run["runId"])
    foreseen = staging.done("default-tags", "undo", run["runId"], "--preview")
    assert foreseen["summary"]["updated"] == run["result"]["summary"]["updated"] - 1
    undone = staging.done("default-tags", "undo", run["runId"], "--yes")
    assert undone["operationId"].startswith("undo-default-tags-")
    assert undone["result"]["summary"] == foreseen["summary"]
    after = staging.resources()
    assert after[changed]["tags"]["undone"] == "2"
    assert all(after[one]["tags"] == before[one]["tags"] for one in before if one != changed)
    assert staging.run("default-tags", "undo", run["runId"], "--yes").code == 6
    for way in ("--yes", "--preview"):
        unknown = staging.refused(5, "default-tags", "undo", SANDBOX, way)
        assert SANDBOX in unknown
        assert "frost tenant default-tags history" in unknown
    listed = {one["runId"]: one for one in staging.runs()}
    assert listed[run["runId"]]["undoneBy"] == undone["runId"]
    assert "apply (undone)" in staging.run("default-tags", "history").out


# --- one at a time ---------------------------------------------------------------------------------------------------


@pytest.fixture
def slow(demo_platform: Path) -> Iterator[Tags]:
    """The same on a platform of its own where an apply takes some ten seconds: four commands find it going on."""
    home = opened(demo_platform, FROST_PLATFORM_PROVISIONING_PACE="600", FROST_PLATFORM_APPLY_PACE="0.25")
    home.sign_in()
    yield Tags(home)
    home.remove()


@pytest.mark.slow
def test_a_second_apply_waits_and_then_runs_with_the_defaults_as_they_are_then(slow: Tags) -> None:
    slow.set("first=1")
    first = slow.done("default-tags", "apply", "--yes", "--no-wait")
    assert set(first) >= {"operationId", "status", "started"}
    assert "result" not in first
    slow.set("second=2")
    reported = slow.done("default-tags", "apply", "--yes", "--no-wait")
    assert (reported["runId"], reported["started"]) == (first["runId"], False)
    result = slow.run("default-tags", "apply", "--yes", "-o", "json")
    assert result.code == 0
    assert "waiting for it" in result.err
    assert result.json()["result"]["appliedTags"] == {"second": "2"}
    newest, oldest = slow.runs()
    assert (oldest["runId"], oldest["appliedTags"]) == (first["runId"], {"first": "1"})
    assert newest["startedAt"] >= oldest["completedAt"]


@pytest.mark.slow
def test_clients_run_one_after_the_other_in_a_tenant_and_tenants_at_the_same_time(slow: Tags) -> None:
    slow.set("a=1")
    other = Tags(slow.home, STAGING)
    other.set("b=2")
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda one: one.run("default-tags", "apply", "--yes"), [slow, slow, slow, other]))
    assert {result.code for result in ended} == {0}, ended
    runs = sorted(slow.runs(), key=lambda one: str(one["startedAt"]))
    assert len(runs) == 3
    for earlier, later in pairwise(runs):
        assert earlier["completedAt"] <= later["startedAt"]
    elsewhere = other.runs()[0]
    assert elsewhere["startedAt"] < runs[-1]["startedAt"]


@pytest.mark.slow
def test_a_platform_killed_in_the_middle_goes_on_and_the_client_waits_through_it(slow: Tags) -> None:
    slow.set("kept=1")
    program = slow.on_terminal("default-tags", "apply", "--yes")
    program.wait_for("updated")
    slow.home.kill_platform()
    assert program.wait_end(90) == 0
    assert slow.runs()[0]["status"] == "completed"
    after = slow.resources()
    assert slow.done("default-tags", "apply", "--preview")["summary"]["updated"] == 0
    assert any("kept" in one["tags"] for one in after.values())
