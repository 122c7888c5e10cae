"""`frost platform operations cancel`: the operator ends a run, and the command that waits for it says so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.shell import signed_in
from tests.acceptance.tagging import Tags, flat
from tests.terminal import screens


@pytest.fixture
def paused(demo_platform: Path) -> Iterator[Tags]:
    """Applies that wait ten minutes after their first portion."""
    with signed_in(demo_platform, FROST_PLATFORM_APPLY_PACE="600") as home:
        tags = Tags(home)
        tags.set("a=1")
        yield tags


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
        program.wait_for("Applies in Web Shop")
        program.wait_for("cancelled")
