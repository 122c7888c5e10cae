"""`frost tenant default-tags` against scripted responses."""

import json
import operator
from collections.abc import Iterator
from typing import Any

import pytest

from client.commands.default_tags.apply_job import progress_line
from client.models.apply_counts import OUTCOMES, separate_unlisted
from client.operations import Intervals
from client.tables.columns import cells
from client.tables.default_tags import RUN as RUN_KIND
from client.texts.apply import result_sentence
from tests.client.scripted import BASE, Scripted, refused
from tests.client.wire import Heard, answer

TAGS = "/default-tags"
RUN = "0192f7c1-5a3e-7b60-9d2f-3c5a8e7b1d04"
STARTED = {"operationId": "apply-default-tags-t", "runId": RUN, "status": "pending"}
COUNTS = {"examined": 3, "updated": 1, "unchanged": 0, "skipped": 1, "failed": 1}
RESULT: dict[str, Any] = {
    "appliedTags": {"env": "prod"},
    "summary": COUNTS,
    "byType": {"volume": COUNTS, "bucket": dict.fromkeys(COUNTS, 0)},
    "failures": [
        {"resourceType": "volume", "resourceId": "v1", "reason": "moon_phase\x1b[31m", "message": "wait"},
        {"resourceType": "secret", "resourceId": "", "reason": "backend_unavailable", "message": "later"},
    ],
    "failuresTruncated": False,
    "skipped": [{"resourceType": "volume", "resourceId": "v2", "resourceName": "root", "reason": "boot_volume"}],
    "skippedTruncated": False,
}
COMPLETED = {**STARTED, "status": "completed", "result": RESULT}


@pytest.fixture
def applying(platform: Scripted) -> Scripted:
    """A platform with one default tag on which an apply completes, with short waits."""
    platform.intervals = Intervals(poll=0.01, coalesce=0.0)
    platform.on(f"GET {TAGS}", {"tags": {"env": "prod"}})
    platform.on(f"POST {TAGS}/apply", answer(202, STARTED))
    platform.on(f"GET /operations/{RUN}", {**STARTED, "status": "running"}, COMPLETED)
    return platform


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["set"], "clear"),
        (["set", "--merge"], "--tag"),
        (["set", "--tag", "a"], "key=value"),
        (["set", "--tag", "a=1,b"], "key=value"),
        (["set", "--tag", ""], "key=value"),
        (["set", "--tag", "=v"], "key=value"),
        (["set", "--tag", "a=1", "--tag", "a=2"], "different values"),
        (["set", "--tag", ",".join(f"k{number}=v" for number in range(11))], "at most 10"),
        (["set", "--tag", "OS_Type=x", "--merge"], "reserved"),
        (["set", "--tag", "good=1,my key=2"], "letters a-z"),
        (["clear"], "--yes"),
        (["apply"], "--yes"),
        (["apply", "--no-wait"], "--yes"),
        (["undo", RUN], "--yes"),
        (["undo", RUN, "--version", "2"], "exclude"),
        (["undo", "--no-wait"], "RUN_ID"),
    ],
)
def test_an_invalid_command_is_not_sent(platform: Scripted, words: list[str], message: str) -> None:
    ended = platform.run("tenant", "default-tags", *words)
    assert (ended.code, ended.out, platform.sent()) == (2, "", [])
    assert message in ended.err


def test_tags_are_checked_as_the_platform_does_and_may_hold_an_equals_sign(platform: Scripted) -> None:
    error = platform.run("tenant", "default-tags", "set", "--tag", "my key=x", "-o", "json").error()
    assert error["code"] == "INVALID_INPUT"
    assert error["details"] == {"member": "tags", "key": "my key", "reason": "key_charset", "index": 2}
    platform.on(f"GET {TAGS}", {"tags": {}})
    platform.on(f"PUT {TAGS}", {"tags": {"eq": "x=y+z"}})
    platform.run("tenant", "default-tags", "set", "--tag", "eq=x=y+z,eq=x=y+z")
    assert json.loads(platform.heard[-1].body) == {"tags": {"eq": "x=y+z"}}


def test_a_merge_with_a_stale_version_is_repeated(platform: Scripted) -> None:
    first, later = {"b": "2"}, {"b": "2", "c": "3"}
    platform.on(f"GET {TAGS}", answer(200, {"tags": first}, ETag='"4"'), answer(200, {"tags": later}, ETag='"5"'))
    platform.on(f"PUT {TAGS}", refused(412, "STALE_VERSION"), answer(200, {"tags": {"a": "1", "b": "2", "c": "3"}}))
    ended = platform.run("tenant", "default-tags", "set", "--tag", "a=1", "--merge")
    assert (ended.code, ended.out) == (0, "+ a=1\n")
    first, second = (heard for heard in platform.heard if heard.method == "PUT")
    assert (first.headers["if-match"], second.headers["if-match"]) == ('"4"', '"5"')
    assert json.loads(second.body) == {"tags": {"a": "1", "b": "2", "c": "3"}}


def test_a_merge_that_reaches_eleven_is_refused_and_writes_nothing(platform: Scripted) -> None:
    platform.on(f"GET {TAGS}", {"tags": {f"k{number}": "v" for number in range(10)}})
    ended = platform.run("tenant", "default-tags", "set", "--tag", "new=1", "--merge")
    assert (ended.code, platform.sent()) == (2, [f"GET {TAGS}"])
    assert "at most 10" in ended.err
    assert "not 11" in ended.err


def test_a_key_that_may_write_and_not_read_replaces_and_clears_the_set(platform: Scripted) -> None:
    platform.on(f"GET {TAGS}", refused(403, "INSUFFICIENT_SCOPE"))
    platform.on(f"PUT {TAGS}", {"tags": {"a": "1"}})
    ended = platform.run("tenant", "default-tags", "set", "--tag", "a=1")
    assert (ended.code, ended.out) == (0, "a=1\n")
    assert "may not read" in ended.err
    assert "if-match" not in platform.heard[-1].headers
    assert platform.run("tenant", "default-tags", "clear", "--yes").code == 0
    assert platform.run("tenant", "default-tags", "set", "--tag", "a=1", "--merge").code == 4


def test_a_value_from_the_platform_cannot_act_on_the_terminal(platform: Scripted) -> None:
    platform.on(f"GET {TAGS}", {"tags": {"a": "\x1b]52;c;eA==\x07", "b\x1b[2J": "x"}})
    ended = platform.run("tenant", "default-tags", "get")
    assert "\x1b" not in ended.out
    assert platform.document("tenant", "default-tags", "get")["a"] == "\x1b]52;c;eA==\x07"


def test_the_result_of_one_resource_has_the_singular() -> None:
    for examined, words in ((1, "1 of 1 resource updated"), (2_000, "1 of 2,000 resources updated")):
        assert result_sentence({"result": {"summary": {"examined": examined, "updated": 1}}}) == words


def test_the_result_is_printed_with_what_failed_and_was_skipped(applying: Scripted) -> None:
    code, out, err = applying.run("tenant", "default-tags", "apply", "--yes")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    for row in (
        ["bucket", "0", "0", "0", "0", "0"],
        ["volume", "1", "0", "1", "1", "3"],
        ["total", "1", "0", "1", "1", "3"],
        ["volume", "root", "v2", "boot_volume"],
        ["secret", "backend_unavailable", "later"],
    ):
        assert row in lines
    assert ("moon_phase" in out, "\x1b" in out) == (True, False)
    assert ("1 of 3 resources updated" in err, "%" in err) == (True, False)  # progress is for terminals
    # Types that could not be listed are apart from failed resources.
    assert "listed:\n  secret  backend_unavailable  later\n" in out
    assert "secret" not in out.rsplit("\nfailed:", 1)[-1]
    text = " ".join(applying.run("tenant", "default-tags", "apply", "--help").out.split())
    assert "`unlisted` counts such types" in text
    applying.on(f"GET /operations/{RUN}", COMPLETED)
    assert applying.document("tenant", "default-tags", "apply", "--yes") == COMPLETED


NUMBERS = {"examined": 934, "updated": 720, "unchanged": 0, "skipped": 195, "failed": 19, "unlisted": 1}


def test_the_counts_of_a_result_add_up_and_a_type_that_could_not_be_listed_is_apart() -> None:
    assert separate_unlisted(NUMBERS) == NUMBERS
    earlier = {**{name: NUMBERS[name] for name in ("examined", *OUTCOMES)}, "failed": 20}
    assert separate_unlisted(earlier) == NUMBERS
    for others in ({"failed": 3}, {"examined": 3, "failed": 3}, {"examined": 9, "updated": 1}, {"examined": None}):
        assert separate_unlisted(others) == others
    for summary in (NUMBERS, earlier):
        words = "720 of 934 resources updated; 19 failed; 1 type could not be listed"
        assert result_sentence({"result": {"summary": summary}}) == words
        progress = {"progress": 99, "counts": {"summary": summary}}
        assert progress_line(progress).endswith("720 updated, 0 unchanged, 195 skipped, 19 failed, 1 not listed")
        assert cells(RUN_KIND, {"summary": summary})[4:7] == ["720", "19", "1"]


def test_the_total_of_an_apply_is_the_sum_of_its_counts(applying: Scripted) -> None:
    secret = {"examined": 0, "updated": 0, "unchanged": 0, "skipped": 0, "failed": 1}
    total = {name: COUNTS[name] + secret[name] for name in COUNTS}
    listing = {"resourceType": "secret", "resourceId": "", "reason": "backend_unavailable"}
    result = {**RESULT, "summary": total, "byType": {"volume": COUNTS, "secret": secret}, "failures": [listing]}
    applying.on(f"GET /operations/{RUN}", {**COMPLETED, "result": result})
    ended = applying.run("tenant", "default-tags", "apply", "--yes")
    lines = [line.split() for line in ended.out.splitlines()]
    assert ["total", "1", "0", "1", "1", "3"] in lines
    assert ["secret", "0", "0", "0", "0", "0"] in lines
    assert "1 of 3 resources updated; 1 failed; 1 type could not be listed; run the command again" in ended.err


def test_a_cut_list_is_marked_and_has_at_most_two_hundred_lines(applying: Scripted) -> None:
    many = [{"resourceType": "volume", "resourceId": f"id{number}", "reason": "image"} for number in range(300)]
    summary = {"summary": {**COUNTS, "skipped": 1204}}
    result = RESULT | summary | {"skipped": many, "skippedTruncated": True, "failures": []}
    applying.on(f"GET /operations/{RUN}", {**COMPLETED, "result": result})
    ended = applying.run("tenant", "default-tags", "apply", "--yes")
    assert "skipped, the first 200 of 1,204:" in ended.out
    assert "id199" in ended.out
    assert "id200" not in ended.out


FAILED = {**STARTED, "status": "failed", "error": "not read", "errorCode": "Unavailable"}
NO_IDS = ("", "  ", None, 7, True, ["apply"], {"id": "apply"})


@pytest.mark.parametrize(
    ("started", "message"),
    [
        (answer(200, STARTED), "HTTP 200 instead of 202"),
        (answer(202, {"status": "pending"}), "no usable 'operationId'"),
        *((answer(202, {**STARTED, "operationId": wrong}), "no usable 'operationId'") for wrong in NO_IDS),
        (refused(409, "APPLY_IN_PROGRESS", "in progress"), "in progress"),
        (refused(409, "RESOURCE_IN_USE", "busy", operationId="x"), "busy"),
        (refused(400, "TENANT_NOT_PROVISIONED", "still being set up"), "still being set up"),
        (refused(503, "SERVICE_UNAVAILABLE", "down"), "down"),
    ],
)
def test_a_malformed_start_of_a_run_fails(applying: Scripted, started: bytes, message: str) -> None:
    applying.on(f"POST {TAGS}/apply", started)
    for more in ([], ["--no-wait"]):
        ended = applying.run("tenant", "default-tags", "apply", "--yes", *more)
        assert ended.code not in (0, 2, 130)
        assert (ended.out, message in ended.err) == ("", True)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (FAILED, "failed [Unavailable]: not read"),
        ({**STARTED, "status": "cancelled"}, "cancelled"),
        ({**STARTED, "status": "completed"}, "without a result"),
        ({**STARTED, "status": "completed", "result": {}}, "without a result"),
    ],
)
def test_a_failed_or_cancelled_run_is_reported(applying: Scripted, operation: Any, message: str) -> None:
    applying.on(f"GET /operations/{RUN}", operation)
    ended = applying.run("tenant", "default-tags", "apply", "--yes")
    assert (ended.code, ended.out, message in ended.err) == (1, "", True)


def test_it_waits_behind_every_run_in_the_way_and_then_starts_its_own(applying: Scripted) -> None:
    first, second = (
        {"operationId": "apply-default-tags-t", "runId": f"0192f7c1-0000-4000-8000-00000000000{n}"} for n in "12"
    )
    for other in (first, second):
        applying.on(f"GET /operations/{other['runId']}", {**other, "status": "running"}, {**other, "status": "failed"})
    applying.on(
        f"POST {TAGS}/apply",
        refused(409, "APPLY_IN_PROGRESS", **first),
        refused(409, "APPLY_IN_PROGRESS", **second),
        answer(202, STARTED),
    )
    ended = applying.run("tenant", "default-tags", "apply", "--yes")
    assert ended.code == 0
    assert ended.err.count("is already in progress") == 2
    requests = [one for one in applying.sent() if not one.endswith("/events")]
    starts = [place for place, one in enumerate(requests) if one == f"POST {TAGS}/apply"]
    assert len(starts) == 3
    assert requests[starts[1] - 1] == f"GET /operations/{first['runId']}"
    assert requests[starts[2] - 1] == f"GET /operations/{second['runId']}"


def test_a_start_is_sent_once_for_each_run_that_ended(applying: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operation id names the latest run; a platform may still return the run before it."""
    operation = "apply-default-tags-t"
    runs = [{"operationId": operation, "runId": f"0192f7c1-0000-4000-8000-00000000000{n}"} for n in "123"]
    shown = [{**runs[0], "status": "completed"}] * 12
    for one in runs[1:]:
        shown += [{**one, "status": "running"}] * 5 + [{**one, "status": "completed"}] * 5
    readings = iter(shown)
    in_progress = refused(409, "APPLY_IN_PROGRESS", operationId=operation)
    scripted = applying._answer

    def answered(heard: Heard) -> Iterator[bytes]:
        target = heard.target.removeprefix(BASE)
        if target == f"/operations/{operation}":
            yield answer(200, next(readings))
        elif target == f"{TAGS}/apply":
            yield in_progress if operator.length_hint(readings) > 4 else answer(202, STARTED)
        else:
            yield from scripted(heard)

    monkeypatch.setattr(applying, "_answer", answered)
    ended = applying.run("tenant", "default-tags", "apply", "--yes")
    assert ended.code == 0
    assert applying.sent().count(f"POST {TAGS}/apply") == len(runs) + 1


def test_a_run_that_is_never_shown_is_waited_for_with_a_pause(applying: Scripted) -> None:
    applying.intervals = applying.intervals._replace(unchanged=1.0)
    operation = "apply-default-tags-t"
    applying.on(f"GET /operations/{operation}", {"operationId": operation, "runId": "r", "status": "completed"})
    in_progress = refused(409, "APPLY_IN_PROGRESS", operationId=operation)
    applying.on(f"POST {TAGS}/apply", in_progress, in_progress, answer(202, STARTED))
    assert applying.run("tenant", "default-tags", "apply", "--yes").code == 0
    sent = applying.sent()
    starts = [place for place, one in enumerate(sent) if one == f"POST {TAGS}/apply"]
    assert len(starts) == 3
    assert starts[2] - starts[1] > 3


def test_not_waiting_prints_the_operation_that_goes_on(applying: Scripted) -> None:
    ended = applying.run("tenant", "default-tags", "apply", "--yes", "--no-wait")
    assert (ended.code, ended.out) == (0, "apply-default-tags-t\n")
    document = applying.document("tenant", "default-tags", "apply", "--yes", "--no-wait")
    assert document == {**STARTED, "started": True}
    applying.on(f"POST {TAGS}/apply", refused(409, "APPLY_IN_PROGRESS", operationId="apply-x", runId="r"))
    document = applying.document("tenant", "default-tags", "apply", "--yes", "--no-wait")
    assert document == {"operationId": "apply-x", "runId": "r", "status": "running", "started": False}
    assert applying.sent().count(f"POST {TAGS}/apply") == 1


def test_nothing_is_started_without_tags(platform: Scripted) -> None:
    platform.on(f"GET {TAGS}", {"tags": {}})
    ended = platform.run("tenant", "default-tags", "apply", "--yes")
    assert ended.code == 0
    assert "nothing to apply" in ended.err
    assert platform.sent() == [f"GET {TAGS}"]
    platform.on(f"GET {TAGS}", refused(403, "INSUFFICIENT_SCOPE"))
    platform.on(f"POST {TAGS}/apply", refused(400, "NOTHING_TO_APPLY"))
    assert platform.document("tenant", "default-tags", "apply", "--yes") == {"status": "nothing_to_apply"}


def test_an_unchanged_set_has_nothing_to_undo(platform: Scripted) -> None:
    only = {"version": 1, "tags": {}, "changedAt": "2026-01-02T03:04:05Z", "changedBy": None}
    for versions in ([], [only]):
        platform.on(f"GET {TAGS}/history", {"versions": versions})
        ended = platform.run("tenant", "default-tags", "undo")
        assert (ended.code, ended.out) == (1, "")
        assert "nothing to undo" in ended.err


def test_a_set_of_another_person_is_undone_only_by_version(platform: Scripted) -> None:
    at = {"changedAt": "2026-01-02T03:04:05Z"}
    versions: list[dict[str, Any]] = [
        {"version": 3, "tags": {"a": "3"}, "changedBy": {"id": "u2", "email": "b@x"}, **at},
        {"version": 2, "tags": {"a": "2"}, "changedBy": {"id": "u1"}, **at},
    ]
    platform.on(f"GET {TAGS}/history", {"versions": versions})
    platform.on(f"PUT {TAGS}", {"tags": {"a": "2"}})
    platform.on("GET /api/v1/me", {"id": "u1", "tenantId": "t"})
    ended = platform.run("tenant", "default-tags", "undo")
    assert ended.code == 6
    assert "b@x" in ended.err
    assert "frost tenant default-tags undo --config" in ended.err
    assert "--version 2 restores" in ended.err
    assert f"PUT {TAGS}" not in platform.sent()
    assert platform.run("tenant", "default-tags", "undo", "--version", "2").out == "~ a=2 (was 3)\n"
    assert platform.heard[-1].headers["if-match"] == '"3"'
    assert platform.run("tenant", "default-tags", "undo", "--version", "9").code == 5
    versions[0]["changedBy"] = {"id": "u1"}
    platform.on(f"GET {TAGS}/history", {"versions": versions})
    assert platform.run("tenant", "default-tags", "undo", "--preview").out == "~ a=2 (was 3)\n"
    assert f"PUT {TAGS}" not in platform.sent()
    assert platform.run("tenant", "default-tags", "undo").code == 0
