"""The draft of default tags and the progress of applies, without a screen."""

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.commands.default_tags.apply_job import preview_lines
from client.models.apply_counts import OUTCOMES
from client.models.default_tags import ApplyOperation, ApplyResult
from client.tables.columns import Record
from client.texts import apply
from tui.default_tags.apply_lists import UNTOUCHED, resource_text, untouched_rows
from tui.default_tags.apply_screen import _lines
from tui.default_tags.apply_text import (
    BAR,
    SIGNS,
    bar,
    filled,
    progress_lines,
    type_rows,
)
from tui.default_tags.screen import TAG
from tui.default_tags.versions import difference_lines
from tui.state import drafts as stored_drafts
from tui.state.drafts import TagDrafts
from tui.state.tag_draft import TagDraft

STORED = {"env": "prod", "team": "core"}


def marks(draft: TagDraft) -> dict[str, str]:
    return {row.key: row.mark for row in draft.rows()}


def test_rows_mark_added_changed_and_removed_tags() -> None:
    draft = TagDraft(STORED, 3)
    assert marks(draft) == {"env": "", "team": ""}
    draft.put("env", "dev", "env")
    draft.put("cost-center", "")
    draft.remove(["team"])
    assert marks(draft) == {"cost-center": "added", "env": "changed", "team": "removed"}
    assert next(row for row in draft.rows() if row.key == "env").was == "prod"
    assert (draft.words, draft.dirty) == ("+ 1 added  ~ 1 changed  − 1 removed", True)
    value = next(column for column in TAG.columns if column.key == "value")
    assert [value.text(row.wire()) for row in draft.rows()] == ["(empty)", "dev", "core"]
    draft = TagDraft(STORED, 3)
    draft.put("stage", "prod", "env")
    assert marks(draft) == {"env": "removed", "stage": "added", "team": ""}


def test_edits_are_undone_one_by_one() -> None:
    draft = TagDraft(STORED, 3)
    draft.put("a", "1")
    draft.remove(["env", "team"])
    draft.discard()
    draft.follow(dict(STORED), 3)  # it was read again meanwhile
    assert not draft.dirty
    for expected in ({"a": "1"}, {**STORED, "a": "1"}, STORED):
        draft.undo()
        assert draft.tags == expected
    draft.undo()
    assert (draft.tags, draft.undoable) == (STORED, False)
    draft.put("env", "prod", "env")
    draft.restore(["team"])
    assert not draft.undoable


def test_an_eleventh_and_a_repeated_tag_are_refused() -> None:
    draft = TagDraft({f"k{number}": "" for number in range(10)}, 1)
    assert draft.problem_of("more", "") == "a tenant has at most 10 default tags"
    assert draft.problem_of("k9", "new", "k9") is None
    assert draft.problem_of("other", "new", "k9") is None
    draft = TagDraft(STORED, 1)
    assert "exists already" in str(draft.problem_of("env", "x"))
    assert "exists already" in str(draft.problem_of("env", "x", "team"))
    assert draft.problem_of("env", "x", "env") is None


def test_a_draft_follows_the_stored_set_until_it_is_edited() -> None:
    draft = TagDraft(STORED, 3)
    draft.follow({"env": "dev"}, 4)
    assert (draft.tags, draft.version) == ({"env": "dev"}, 4)
    draft.put("x", "1")
    draft.follow({"env": "test"}, 5)
    assert (draft.tags, draft.version) == ({"env": "dev", "x": "1"}, 4)
    draft.follow({"env": "dev", "x": "1"}, 6)  # another user stored the same set
    assert (draft.dirty, draft.version, draft.undoable) == (False, 6, False)
    draft.put("env", "test", "env")
    draft.follow({"env": "dev", "x": "1"}, 7)
    assert (draft.version, draft.tags["env"], draft.undoable) == (7, "test", True)


def test_a_save_leaves_only_later_edits() -> None:
    draft = TagDraft(STORED, 3)
    draft.put("env", "dev", "env")
    draft.saved(dict(draft.tags), 4)
    assert not draft.dirty
    assert not draft.undoable
    draft.put("x", "1")
    draft.put("y", "1")
    draft.saved({"env": "dev", "team": "core", "x": "1"}, 5)
    assert marks(draft) == {"env": "", "team": "", "x": "", "y": "added"}
    assert draft.undoable


def test_a_merge_lays_our_changes_over_theirs() -> None:
    draft = TagDraft({"env": "prod", "team": "core", "old": "1"}, 3)
    draft.put("env", "dev", "env")
    draft.put("new", "1")
    draft.remove(["old"])
    theirs = {"env": "test", "team": "data", "old": "1", "theirs": "2"}
    assert draft.conflicts(theirs) == ["env"]
    draft.merge(theirs, 4)
    assert draft.tags == {"env": "dev", "team": "data", "theirs": "2", "new": "1"}
    assert draft.version == 4
    draft.undo()
    assert draft.dirty  # the edits are the same as before the merge


tags = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("123"))


@given(tags, tags, tags)
def test_a_merge_changes_only_what_we_changed(
    base: dict[str, str], ours: dict[str, str], theirs: dict[str, str]
) -> None:
    draft = TagDraft(base, 1)
    draft.tags = dict(ours)
    draft.merge(theirs, 2)
    for key in {*base, *ours, *theirs}:
        touched = base.get(key) != ours.get(key)
        assert draft.tags.get(key) == (ours if touched else theirs).get(key)


def drafts_of(author: str, home: Path) -> TagDrafts:
    return TagDrafts({"HOME": str(home)}, lambda: ("unix:x", author))


def test_a_draft_is_stored_for_its_author(tmp_path: Path) -> None:
    first = drafts_of("astrid", tmp_path)
    assert first.follow("t", STORED, 3) == ""
    first.of("t").put("env", "dev", "env")
    first.keep("t")
    first.wait()
    for author in ("jonas", "astrid"):
        other = drafts_of(author, tmp_path)
        assert bool(other.follow("t", STORED, 3)) is other.of("t").dirty is (author == "astrid")
    again = drafts_of("astrid", tmp_path)
    again.follow("t", {"env": "test"}, 4)  # the draft keeps the set that it began with
    draft = again.of("t")
    assert (draft.base, draft.version, draft.tags["env"]) == (STORED, 3, "dev")
    draft.discard()
    again.keep("t")
    again.wait()
    assert not list(tmp_path.glob(".cli/drafts/*"))


def test_drafts_are_written_in_order_outside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, threading.Thread]] = []
    for name in ("keep", "drop"):

        def record(*arguments: Any, name: str = name, function: Any = getattr(stored_drafts, name)) -> Any:
            calls.append((name, threading.current_thread()))
            return function(*arguments)

        monkeypatch.setattr(stored_drafts, name, record)
    drafts = drafts_of("astrid", tmp_path)
    drafts.follow("t", STORED, 3)
    for number in range(20):
        drafts.of("t").put("env", f"dev-{number}", "env")
        drafts.keep("t")
    drafts.of("t").discard()
    drafts.keep("t")
    drafts.wait()
    assert calls[-1][0] == "drop"
    assert threading.main_thread() not in {thread for _, thread in calls}
    assert not list(tmp_path.glob(".cli/drafts/*"))


@pytest.mark.parametrize("text", ["", "[]", '{"base": {}}', '{"base": {"a": 1}, "tags": {}}', "{"])
def test_a_damaged_draft_is_ignored(tmp_path: Path, text: str) -> None:
    drafts = drafts_of("astrid", tmp_path)
    stored_drafts.keep(drafts._path("t"), stored_drafts.Draft(text))
    assert drafts.follow("t", STORED, 1) == ""
    assert drafts.of("t").tags == STORED


def test_the_lines_of_a_difference_are_safe_and_carry_their_signs() -> None:
    draft = TagDraft({"env": "prod", "gone": "x"}, 1)
    draft.tags = {"env": "\x1b]52;c;x\x07", "[/x]": ""}
    plain = [line.plain for line in difference_lines(draft.changes, ["env"])]
    assert plain[0] == "+ [/x] = (empty)"
    assert plain[1].startswith("~ env = ␛]52;c;x␇  was prod")
    assert plain[1].endswith("! changed by both")
    assert plain[2] == "− gone = x"


# --- applies ---------------------------------------------------------------------------------------------------------

COUNTS = {"examined": 10, "updated": 4, "unchanged": 3, "skipped": 2, "failed": 1}
numbers = st.integers(0, 100_000)


@given(numbers, numbers, numbers, numbers, st.one_of(st.none(), numbers), st.sampled_from(["done", "running"]))
def test_a_bar_shows_every_part(
    updated: int, unchanged: int, skipped: int, failed: int, total: int | None, state: str
) -> None:
    parts = {"updated": updated, "unchanged": unchanged, "skipped": skipped, "failed": failed}
    examined = sum(parts.values())
    drawn = bar({**parts, "examined": examined, "total": total, "state": state})
    if not examined:
        assert drawn == ("none" if state == "done" else "·" * BAR)
        return
    assert len(drawn) == BAR
    if state == "done":
        assert "·" not in drawn
        assert {sign for name, sign in SIGNS.items() if parts[name]} == set(drawn)


def run_of(**members: object) -> ApplyOperation:
    """Return an operation with these members of the wire."""
    return ApplyOperation.model_validate({"operationId": "apply-default-tags-t", **members})


def test_types_are_pending_running_or_done() -> None:
    by_type = {"instance": COUNTS, "volume": {"updated": 1, "examined": 1}, "bucket": {"examined": 0}}
    counts = {"summary": COUNTS, "byType": by_type, "totals": {"instance": 10, "volume": 100, "bucket": 4}}
    rows = type_rows(run_of(status="running", currentStep="volume (2/3)", counts=counts))
    assert [(row.state, row.total) for row in rows] == [("done", 10), ("running", 100), ("pending", 4)]
    assert bar(rows[2].wire()) == "······"
    assert bar(rows[1].wire()).count("·") >= 2
    assert {row.state for row in type_rows(run_of(status="completed", counts=counts))} == {"done"}
    by_type = {"a": {"examined": 0}, "b": {"examined": 3}, "c": {"examined": 1}}
    rows = type_rows(run_of(status="running", currentStep="c (2/3)", counts={"summary": COUNTS, "byType": by_type}))
    assert [(row.state, row.total) for row in rows] == [("pending", None), ("done", None), ("running", None)]


@pytest.mark.parametrize("step", [None, "", "instance", "instance (x/y)", "instance (1)", "(1/2", 7])
def test_unknown_steps_and_reasons(step: object) -> None:
    assert apply.parse_step(step) in (None, ("", 1, 2))
    assert apply.parse_step("instance (8/14)") == ("instance", 8, 14)
    assert apply.reason_text("quantum_flux") == "quantum_flux"
    assert apply.short_reason("quantum_flux") == "quantum_flux"
    assert set(apply.SHORT) == set(apply.REASONS)
    assert "over its tag limit" in apply.reason_text("tag_budget")


def test_failures_come_first() -> None:
    result = {
        "failures": [{"resourceType": "bucket", "resourceId": "", "reason": "backend_unavailable"}],
        "skipped": [{"resourceType": "volume", "resourceId": "v-1", "resourceName": "root", "reason": "boot_volume"}],
    }
    rows = untouched_rows(ApplyResult.model_validate({"summary": COUNTS, **result}))
    texts = [(row.outcome, resource_text(row.wire())) for row in rows]
    assert texts == [("failed", "(the whole type)"), ("skipped", "root")]
    assert len(set(map(UNTOUCHED.id_of, rows))) == 2
    assert untouched_rows(None) == []


def test_the_duration_of_a_run() -> None:
    begun = {"startedAt": "2026-11-21T10:00:00Z"}
    assert apply.elapsed(begun, datetime(2026, 11, 21, 10, 0, 42, tzinfo=UTC)) == "0:42"
    assert apply.elapsed({**begun, "completedAt": "2026-11-21T12:03:04Z"}) == "2:03:04"
    assert apply.elapsed({}) == ""
    assert apply.elapsed({**begun, "completedAt": "2026-11-21T09:00:00Z"}) == "under 1 s"  # clocks differ
    assert apply.elapsed(begun, datetime(2026, 11, 21, 10, tzinfo=UTC)) == "0:00"


def lines(operation: Record, cells: int = 62, **more: object) -> str:
    return "\n".join(line.plain for line in progress_lines(run_of(**operation), cells, **more))


STEP = "kubernetes_cluster (38/44)"
RUNNING = {"status": "running", "progress": 57, "currentStep": STEP, "counts": {"summary": COUNTS}}


@pytest.mark.parametrize("cells", [30, 40, 62, 77, 120])
def test_progress_lines_fit(cells: int) -> None:
    large = {name: 100_000 + index for index, name in enumerate(OUTCOMES)}
    many = {**RUNNING, "counts": {"summary": {**large, "examined": sum(large.values())}}}
    for operation in (RUNNING, many):
        for line in progress_lines(run_of(**operation), cells, lost="no answer " * 9, waits=True, key="o"):
            assert line.cell_length <= max(cells, 36), line.plain
    assert "57%" in lines(RUNNING, cells)
    for name, number in many["counts"]["summary"].items():
        assert name == "examined" or f"{number:,} {name}" in lines(many, cells)


def test_progress_lines_of_each_state() -> None:
    text = lines(RUNNING)
    for words in ("applying", "57%", STEP, "4 updated", "3 unchanged", "2 skipped", "1 failed"):
        assert words in text
    failed = {"status": "failed", "error": "the tags could not be read", "errorCode": "Unavailable"}
    assert "! the tags could not be read [Unavailable]" in lines(failed)
    assert "apply again shortly" in lines(failed)
    message, is_problem = apply.completion_message(failed, "Web Shop")
    assert (is_problem, "apply again shortly" in message) == (True, True)
    text = lines({"status": "completed"}, 120)
    assert "completed without a result" in text
    assert "! ended" in text
    assert apply.completion_message({"status": "completed"}, "Web Shop")[1]
    text = " ".join(lines(RUNNING, lost="the platform does not answer", waits=True, key="o").split())
    assert "This is the last known state" in text
    assert "Your apply starts when this one has finished · o to cancel" in text
    undo = lines({**RUNNING, "operationId": "undo-default-tags-t"})
    assert ("undoing" in undo, "4 lost tags" in undo) == (True, True)


@given(st.floats(0, 1), st.integers(8, 30))
def test_the_bar_of_a_run_has_its_width(share: float, width: int) -> None:
    assert len(filled(share, width)) == width


def test_commands_and_screens_preview_a_type_with_the_same_words() -> None:
    result = {
        "byType": {
            "image": {"examined": 3, "updated": 0, "skipped": 3, "failed": 0},
            "secret": {"examined": 0, "updated": 0, "skipped": 0, "failed": 0, "unlisted": 1},
            "volume": {"examined": 1202, "updated": 1200, "skipped": 0, "failed": 2},
        },
        "skipped": [{"resourceType": "image", "resourceId": "i", "reason": "image"}] * 3,
        "failures": [
            {"resourceType": "secret", "reason": "backend_unavailable"},
            {"resourceType": "volume", "resourceId": "v", "reason": "invalid_state"},
        ],
    }
    lines = [
        "  image: 3 skipped (image)",
        "  secret: not examined, because the type could not be listed (service unreachable)",
        "  volume: 1,200 would change, 2 would fail (invalid state)",
    ]
    assert preview_lines(result) == lines
    preview = ApplyResult.model_validate({"summary": COUNTS, **result})
    shown = [" ".join(line.plain.split()) for line in _lines(preview, "would change")]
    assert shown == [" ".join(line.translate(str.maketrans("", "", ":()")).split()) for line in lines]
