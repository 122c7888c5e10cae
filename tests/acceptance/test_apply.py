"""Applying default tags to the resources that exist, from the command to the rows and back."""

import pytest

from tests.acceptance.people import DATA_LAKE, SANDBOX, STAGING
from tests.acceptance.tagging import Tags


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


def test_an_undo_removes_tags_unchanged_since_the_apply(tags: Tags) -> None:
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
