"""Applies from the screens: preview, progress, conflicts and undo."""

import asyncio
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import signed_in
from tests.homes import Home
from tests.people import ADMIN, DATA_LAKE, WEB_SHOP
from tests.tui.editing import hung
from tests.tui.screens import SMALL, Ui, opened
from tui.launch import Launch

PACE = "FROST_PLATFORM_APPLY_PACE"


@pytest.fixture
def paced(demo_platform: Path) -> Iterator[Home]:
    """A platform whose applies stop before their first batch, until `go_on`."""
    with signed_in(demo_platform, **{PACE: "600"}) as home:
        yield home


def go_on(home: Home, pace: str = "0") -> None:
    """Kill the platform and start it with another pause between batches: its applies continue."""
    home.variables[PACE] = os.environ[PACE] = pace  # the screens may start it first; `opened` restores the environment
    home.kill_platform()
    home.start()


def tags(home: Home, method: str, route: str, tenant: str = WEB_SHOP, body: Any = None) -> Any:
    """Send a request about the default tags of a tenant; return its response."""
    answer = home.request(method, f"/api/v1/tenants/{tenant}/default-tags{route}", token=home.token(), body=body)
    assert answer.status in (200, 202), answer
    return answer.json()


def runs(home: Home) -> list[dict[str, Any]]:
    return list(tags(home, "GET", "/runs")["runs"])


def left_to_update(home: Home) -> int:
    return int(tags(home, "POST", "/preview", body={})["summary"]["updated"])


def lacking(home: Home) -> int:
    """The resources that an apply would change, by the database alone."""
    with sqlite3.connect(f"file:{home.platform_dir / 'platform.db'}?mode=ro", uri=True) as database:
        query = "SELECT count(*) FROM resources WHERE tenant_id = ? AND json_extract(tags, '$.\"cost-center\"') IS NULL"
        return int(database.execute(query, (WEB_SHOP,)).fetchone()[0])


async def in_tags(ui: Ui) -> Ui:
    await ui.expect_head("Web Shop")
    ui.app.frame.go("default-tags")
    return await ui.expect("4/10 tags", "eu.team:42")


async def start_apply(ui: Ui) -> None:
    """Start an apply from the tags, and wait for its progress."""
    await in_tags(ui)
    await ui.press("a")
    await ui.answer("y", to="Apply default tags?")
    await ui.expect("Apply in Web Shop", "applying", "updated", "instance")


@pytest.mark.slow
async def test_an_apply_asks_with_its_counts_and_enter_means_no(shared: Home, ui: Ui) -> None:
    await in_tags(ui)
    await ui.press("a")
    preview = shared.json("tenant", "default-tags", "apply", "--preview")["summary"]
    await ui.expect("Apply default tags?", "Web Shop", "cost-center=eu.team:42", "removes no tag")
    await ui.expect(f"{preview['updated']:,} of {preview['examined']:,} resources", f"{preview['skipped']:,} skipped")
    await ui.expect("would change", "y apply · n or Esc cancel")
    await ui.answer("enter", to="Apply default tags?", shows="4/10 tags")
    assert runs(shared) == []


@pytest.mark.slow
async def test_a_run_is_followed_again_at_the_next_start_and_its_result_stays(
    paced: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lacking(paced)
    async with opened(paced, monkeypatch) as ui:
        await start_apply(ui)
        await asyncio.to_thread(go_on, paced, "3")
        await ui.expect("/44)", "started by owner@aurora.example", "······")
        await ui.press("3", shows="groups", head="◐ applying")
        await ui.press("left_square_bracket", shows="Apply in Web Shop")
    async with opened(paced, monkeypatch) as ui:
        await ui.expect_head("◐ applying")
        await ui.command("apply", shows="Apply in Web Shop")
        await asyncio.to_thread(go_on, paced)
        await ui.expect_toast("Web Shop: default tags applied:")
        (run,) = paced.json("tenant", "default-tags", "history")["runs"]
        assert run["status"] == "completed"
        result = run["summary"]
        words = f"{result['updated']:,} updated · {result['unchanged']:,} unchanged · {result['skipped']:,} skipped"
        await ui.expect("✓ applied", words, f"{result['failed']:,} failed")
        await ui.until(lambda: "applying" not in ui.head, "the header without it")
        assert before - lacking(paced) > 0
        await ui.press("g", "f")
        untouched = result["skipped"] + result["failed"]
        types, rows = result["unlisted"], untouched + result["unlisted"]
        await ui.expect("Failures and skips in Web Shop", f"{untouched} resources · {types} type")
        await ui.filter("what:failed", shows=(f"{result['failed'] + types} of {rows}", "×"))
        await ui.press("g", "d", shows=("invalid_state", "Message"))
        resource, texts = ui.screen.record.resource, ui.screen.copies()
        assert texts["ID"] == resource.resource_id
        assert json.loads(texts["JSON"]) == {**resource.wire(), "what": "failed"}
        await ui.press("escape", "escape", "escape", shows="✓ applied")
        await ui.press("g", "enter", shows=("Failures and skips in Web Shop", "type:instance"))
        by_type = tags(paced, "POST", "/preview", body={})["byType"]["instance"]
        await ui.expect(f"{by_type['skipped'] + by_type['failed']} of {rows}")
    async with opened(paced, monkeypatch) as ui:
        await ui.expect_head("Web Shop")
        await ui.command("apply", shows=("✓ applied", words))


@pytest.mark.slow
@pytest.mark.parametrize("launch", [Launch(tenant=DATA_LAKE)])
async def test_a_run_of_another_user_and_tenant_is_shown(paced: Home, ui: Ui) -> None:
    await ui.expect_head("Data Lake")
    await ui.expect("6 tenants")
    paced.sign_in(ADMIN)
    tags(paced, "POST", "/apply", DATA_LAKE)
    paced.sign_in()
    await ui.expect_head("◐ applying")
    await ui.command("apply", shows=("Apply in Data Lake", "started by admin@aurora.example"))
    await ui.app.workspace.use_tenant(WEB_SHOP)
    await ui.expect_head("applying")
    await ui.until(lambda: "in Data Lake" in ui.head, "where it is")
    await asyncio.to_thread(go_on, paced)
    await ui.expect_toast("Data Lake: default tags applied:")


@pytest.mark.slow
async def test_an_own_run_begins_after_the_one_that_runs_or_is_cancelled(paced: Home, ui: Ui) -> None:
    await in_tags(ui)
    tags(paced, "POST", "/apply")
    await ui.expect_head("◐ applying")
    await ui.press("a", shows=("An apply is running in Web Shop", "Show progress, and start my apply afterwards"))
    await ui.answer("o", shows=("Apply in Web Shop", "Your apply starts when this one has finished · o to cancel"))
    await ui.press("o")
    await ui.until(lambda: "Your apply starts when" not in ui.text.split("▌ Your apply")[0], "no apply afterwards")
    await ui.press("o", shows="Your apply starts when this one has finished")
    tags(paced, "PUT", "", body={"tags": {"late": "1"}})
    await asyncio.to_thread(go_on, paced)
    await ui.expect_toast("Web Shop: default tags applied:")
    await ui.until(lambda: len(runs(paced)) == 2, "the own run")
    await ui.until(lambda: runs(paced)[0]["status"] == "completed", "its end")
    assert runs(paced)[0]["appliedTags"] == {"late": "1"}
    await ui.until(lambda: "Your apply starts" not in ui.text and "late=1" in ui.text, "the own run shown")
    await ui.until(lambda: "applying" not in ui.head, "the header without it")
    await ui.press("o", toast="no apply is running")
    assert len(runs(paced)) == 2


@pytest.mark.slow
@SMALL
async def test_a_run_continues_after_the_platform_has_stopped(paced: Home, ui: Ui) -> None:
    await start_apply(ui)
    paced.variables[PACE] = os.environ[PACE] = "0"
    assert paced.frost("platform", "stop").code == 0
    await ui.expect("! No response:", "last known state", "updated")
    await ui.expect_head("stopped · r start")
    await ui.press("r", toast="Web Shop: default tags applied:", gone="No response")
    (run,) = runs(paced)
    assert (run["status"], left_to_update(paced)) == ("completed", 0)


@pytest.mark.slow
async def test_a_conflict_names_the_tenant_of_the_apply_after_a_switch(paced: Home, ui: Ui) -> None:
    await in_tags(ui)
    await ui.press("a", shows="Apply default tags?")
    tags(paced, "POST", "/apply")
    with hung(paced):
        await ui.answer("y", to="Apply default tags?")
        await ui.app.workspace.use_tenant(DATA_LAKE)
    await ui.expect("An apply is running in Web Shop")
    await ui.answer("f", toast="Apply running in Web Shop: switch to Web Shop to follow it", head="Data Lake")
    assert ui.screen.NAME == "default-tags"
    assert len(runs(paced)) == 1


@pytest.mark.slow
async def test_an_undo_is_reviewed_and_removes_only_added_tags(paced: Home, ui: Ui) -> None:
    before = lacking(paced)
    await start_apply(ui)
    await asyncio.to_thread(go_on, paced)
    await ui.expect("✓ applied")
    updated = runs(paced)[0]["summary"]["updated"]
    await asyncio.to_thread(go_on, paced, "600")
    await ui.press("u", shows=("Recent runs in Web Shop", "completed", f"{updated}"))
    await ui.press("b")
    await ui.expect("Undo this run?", f"{updated:,} resources", "would lose tags", "cost-center=eu.team:42")
    await ui.answer("enter", to="Undo this run?")
    assert len(runs(paced)) == 1
    await ui.press("b")
    await ui.answer("y", to="Undo this run?", shows=("undoing", "lost tags"), head="◐ undoing")
    await asyncio.to_thread(go_on, paced)
    await ui.expect_toast("default tags undone")
    await ui.press("u", shows=("apply, undone", "undo"))
    await ui.press("G", "b", toast="already undone")
    assert lacking(paced) == before
