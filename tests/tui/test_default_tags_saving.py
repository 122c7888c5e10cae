"""Storing default tags from the screens: difference, conflicts and undo."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import signed_in
from tests.homes import Home
from tests.people import ADMIN, AURORA, DATA_LAKE, WEB_SHOP
from tests.tui.editing import hung
from tests.tui.screens import SMALL, Ui

ROUTE = "/api/v1/tenants/{}/default-tags"
BEGIN = {"env": "prod", "team": "core", "old": "1"}
EDITED = {"env": "dev", "team": "core", "new": "1"}


@pytest.fixture(scope="module")
def own(demo_platform: Path) -> Iterator[Home]:
    """A platform for this module; each test stores the set it begins with."""
    with signed_in(demo_platform) as home:
        yield home


@pytest.fixture
def begin() -> dict[str, str]:
    return BEGIN


@pytest.fixture(autouse=True)
def stored_set(own: Home, begin: dict[str, str]) -> None:
    """The stored set that a test begins with, and no draft of another test."""
    shutil.rmtree(own.path / ".cli" / "drafts", ignore_errors=True)
    store(own, begin)


def stored(home: Home, tenant: str = WEB_SHOP) -> dict[str, str]:
    tags: dict[str, str] = home.request("GET", ROUTE.format(tenant), token=home.token()).json()["tags"]
    return tags


def store(home: Home, tags: dict[str, str], tenant: str = WEB_SHOP) -> None:
    answer = home.request("PUT", ROUTE.format(tenant), token=home.token(), body={"tags": tags})
    assert answer.status == 200, answer


async def open_tags(ui: Ui, count: int) -> None:
    await ui.expect_head("Web Shop")
    ui.app.frame.go("default-tags")
    await ui.expect(f"{count}/10 tags")


async def edited(ui: Ui) -> None:
    """Open the tags with a draft: env changed, old removed, new added."""
    await open_tags(ui, 3)
    draft = ui.app.workspace.tag_drafts.of(WEB_SHOP)
    assert draft.tags == BEGIN
    draft.put("env", "dev", "env")
    draft.remove(["old"])
    ui.app.frame.perform("default-tags.add", "new=1")
    await ui.expect("+ new", "~ env", "− old")


@pytest.mark.slow
async def test_saving_shows_the_difference_and_can_be_undone(own: Home, ui: Ui) -> None:
    await edited(ui)
    await ui.press("w", shows=("Save default tags?", "Web Shop", "3 now, 3 after"))
    await ui.expect("~ env = dev  was prod", "+ new = 1", "− old = 1", "until an apply")
    await ui.answer("enter", to="Save default tags?")  # Cancel has the focus, as a tag is removed
    assert stored(own) == BEGIN
    await ui.expect("Not saved")
    await ui.press("w")
    await ui.answer("y", to="Save default tags?")
    await ui.expect_toast("Saved the default tags of Web Shop: 1 added, 1 changed, 1 removed · z to undo")
    assert stored(own) == EDITED
    await ui.gone("Not saved")
    await ui.press("z", toast="Undone")
    assert stored(own) == BEGIN
    await ui.until(lambda: "old" in ui.text and "Not saved" not in ui.text, "the former set")


@pytest.mark.slow
async def test_a_newer_set_is_shown_and_merged(own: Home, ui: Ui) -> None:
    await edited(ui)
    own.sign_in(ADMIN)
    store(own, {"env": "test", "team": "data", "old": "1"})
    own.sign_in()
    await ui.press("r", shows="was stored after your draft was started; saving")
    await ui.press("w")  # shows the newer set first, because a question about the older one has wrong figures
    await ui.expect("Newer version on the platform", "admin@aurora.example", "~ team = data  was core")
    await ui.expect("~ env = test  was prod  ! changed by both", "~ env = dev  was prod  ! changed by both")
    assert stored(own)["team"] == "data"
    await ui.answer("m", to="Their changes", shows=("Save default tags?", "~ env = dev  was test"))
    await ui.answer("y", to="Save default tags?", toast="Saved the default tags")
    assert stored(own) == {**EDITED, "team": "data"}


@pytest.mark.slow
@SMALL
async def test_a_newer_set_is_overwritten_on_request_only(own: Home, ui: Ui) -> None:
    await edited(ui)
    theirs = {"theirs": "1"}
    await ui.press("w", shows="Save default tags?")
    store(own, theirs)
    await ui.answer("y", to="Save default tags?")
    await ui.answer("enter", to="Their changes")  # Keep editing has the focus
    assert stored(own) == theirs
    await ui.expect("Not saved", "+ new")
    await ui.press("w")
    await ui.answer("o", to="Their changes", shows=("Overwrites", "− theirs = 1"))
    await ui.answer("enter", to="Save default tags?")
    assert stored(own) == theirs
    await ui.press("w", shows="− theirs = 1")
    await ui.answer("y", to="Save default tags?", toast="Saved the default tags")
    assert stored(own) == EDITED


@pytest.mark.slow
async def test_a_save_belongs_to_its_tenant_after_a_switch(own: Home, ui: Ui) -> None:
    store(own, {"lake": "1"}, DATA_LAKE)
    await edited(ui)
    await ui.press("w", shows="Save default tags?")
    theirs = {**BEGIN, "theirs": "1"}
    store(own, theirs)
    with hung(own):
        await ui.answer("y", to="Save default tags?")
        await ui.switch("data lake")
    await ui.expect("Newer version on the platform", "of Web Shop was stored", "+ theirs = 1")
    await ui.answer("m", to="Their changes", shows=("Save default tags?", "Web Shop", "4 now, 4 after"))
    await ui.answer("y", to="Save default tags?", toast="Saved the default tags of Web Shop")
    assert stored(own) == {**EDITED, "theirs": "1"}
    assert stored(own, DATA_LAKE) == {"lake": "1"}
    await ui.expect_head("Data Lake")
    await ui.switch("web shop")


@pytest.mark.slow
@pytest.mark.parametrize("conflict", [False, True])
async def test_a_draft_is_not_saved_for_another_user(own: Home, ui: Ui, conflict: bool) -> None:
    await edited(ui)
    workspace = ui.app.workspace
    path = workspace.tag_drafts._path(WEB_SHOP)
    await ui.until(path.exists, "the draft on disk")
    question = "Newer version on the platform" if conflict else "Save default tags?"
    before = {**BEGIN, "theirs": "1"} if conflict else BEGIN
    if conflict:
        store(own, before)
        await ui.press("r", shows="was stored after your draft was started")
    await ui.press("w", shows=question)
    own.sign_in(ADMIN)
    try:
        await workspace.invalidate_credential()
        await ui.until(lambda: workspace.tag_drafts._path(WEB_SHOP) != path, "the other user")
        if conflict:
            await ui.answer("m", to=question, toast="Not saved: the user has changed")
        else:
            await ui.see(gone=question, toast="Closed without an answer")
        assert stored(own) == before
        assert path.exists()
    finally:
        own.sign_in()


@pytest.mark.slow
async def test_a_refused_save_keeps_the_draft_and_the_same_set_leaves_nothing_to_save(own: Home, ui: Ui) -> None:
    await edited(ui)
    await ui.press("w", shows="Save default tags?")
    set_role("member", own)
    try:
        await ui.answer("y", to="Save default tags?")
        await ui.until(lambda: any("permission" in toast or "owner" in toast for toast in ui.toasts), "the refusal")
        await ui.expect("+ new", "~ env", "Not saved")
    finally:
        set_role("owner", own)
    assert stored(own) == BEGIN
    await ui.press("r")  # the role may have been read while it was another
    workspace = ui.app.workspace
    await ui.until(
        lambda: (
            not workspace._refresh._loading.running
            and workspace.tenant is not None
            and workspace.tenant.role == "owner"
        ),
        "the role of an owner",
    )
    await ui.press("w", shows="Save default tags?")
    store(own, EDITED)
    await ui.answer("y", to="Save default tags?", toast="No changes to save: the stored version", gone="Not saved")


@pytest.mark.parametrize("begin", [{"env": "prod"}])
async def test_a_cleared_set_leaves_nothing_to_apply(own: Home, ui: Ui) -> None:
    await open_tags(ui, 1)
    await ui.press("delete", "w", shows=("none: all default tags are removed", "− env = prod"))
    await ui.answer("y", to="Save default tags?")
    await ui.expect("No default tags. New resources get no tags. n: New tag", "0/10 tags")
    await ui.until(lambda: stored(own) == {}, "the cleared set")
    await ui.press("a", toast="no default tags to apply")


@pytest.mark.slow
@pytest.mark.parametrize("begin", [{"a": "1"}])
async def test_a_former_set_is_compared_and_put_back(own: Home, ui: Ui) -> None:
    second, third = {"a": "2", "b": "1"}, {"a": "2", "b": "1", "c": "1"}
    store(own, second)
    await open_tags(ui, 2)
    await ui.press("v", shows=("history", "► ", "a=2, b=1"))
    await ui.press("b", toast="this is the current version")
    await ui.press("j", "enter", shows=("+ b = 1", "~ a = 2  was 1"))
    await ui.press("escape", "b", shows=("Restore this version?", "− b = 1"))
    store(own, third)
    await ui.answer("y", to="Restore this version?", toast="Not restored: a newer version was stored")
    assert stored(own) == third
    await ui.expect("c=1")
    await ui.press("g", "j", "b", shows="− c = 1")
    await ui.answer("y", to="Restore this version?", toast="Saved the default tags")
    assert stored(own) == second
    await ui.press("z", toast="Undone")
    assert stored(own) == third


def set_role(name: str, home: Home) -> None:
    """Give the owner of Aurora Labs another role there."""
    person = "(SELECT id FROM users WHERE email = 'owner@aurora.example')"
    with sqlite3.connect(home.platform_dir / "platform.db", timeout=20) as database:
        statement = f"UPDATE memberships SET role = ? WHERE organization_id = ? AND user_id = {person}"
        assert database.execute(statement, (name, AURORA)).rowcount == 1
    database.close()
