"""The private names of Textual: listed once, present in the installed version, and each patched defect is still there.

If a test of a defect fails, Textual has fixed it: remove the patch.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from textual import _styles_cache
from textual._compositor import Compositor
from textual.app import App, ComposeResult
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets._toast import ToastHolder

import tui
from tui.terminal.textual_patches import (
    PRIVATE_NAMES,
    WORK_AROUNDS,
    PatchedApp,
    PrivateName,
    WorkAround,
    fix_style_cache_leak,
    paint_changed_lines,
)

ROOT = Path(tui.__file__).parent.parent
textual_get_renders = Compositor._get_renders


def ours() -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        if module.name != "tui.__main__":
            yield importlib.import_module(module.name)


@cache
def own_private_names(kind: type) -> set[str]:
    """Return the private names that a class of Textual defines itself; of another class, none."""
    if kind.__module__.partition(".")[0] not in ("textual", "textual_serve"):
        return set()
    methods = [inspect.unwrap(one) for one in vars(kind).values() if inspect.isfunction(one)]
    names = {*vars(kind), *(name for method in methods for name in method.__code__.co_names)}
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def private_names(kind: type) -> set[str]:
    """Return the private names that a class has from Textual."""
    return set().union(*map(own_private_names, kind.__mro__))


def used(module: ModuleType) -> Iterator[str]:
    """Yield the private names that a module uses: imported ones, and those of the base classes of its classes."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textual") and "._" in str(node.module):
            yield from (alias.name for alias in node.names)
    for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        names = private_names(getattr(module, kind.name))
        for node in ast.walk(kind):
            name = getattr(node, "attr", "") or getattr(node, "name", "")
            own = not isinstance(node, ast.Attribute) or isinstance(node.value, ast.Name | ast.Call)
            if isinstance(name, str) and own and name in names:
                yield name


def lowest_python() -> str:
    """Return the lowest supported version of Python: a work-around for it is needed, also on a later one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (bound,) = Requirement(f"python{project['requires-python']}").specifier
    assert bound.operator == ">="
    return bound.version


def in_use(package: str) -> Version:
    return Version(lowest_python() if package == "python" else version(package))


def is_outdated(work_around: WorkAround) -> bool:
    return in_use(work_around.package) > Version(work_around.last)


@pytest.mark.parametrize("work_around", WORK_AROUNDS, ids=lambda work_around: work_around.place)
def test_a_work_around_exists_and_is_needed(work_around: WorkAround) -> None:
    """Fail with a later version: check whether it has the defect. Then remove the work-around, or name the version."""
    file, _, name = work_around.place.partition(":")
    assert name in (ROOT / file).read_text()
    assert not is_outdated(work_around), f"is it needed? {work_around.package} {work_around.reason}"


def test_a_later_version_makes_a_work_around_outdated() -> None:
    for package, before in (("python", "3.10"), ("textual", "8.2.7")):
        assert is_outdated(WorkAround("", package, before, ""))
        assert not is_outdated(WorkAround("", package, str(in_use(package)), ""))


def test_every_comment_about_a_version_of_python_is_in_the_list() -> None:
    comment = re.compile(r"\b(?:Python|CPython) 3\.\d+")
    listed = {work_around.place.partition(":")[0] for work_around in WORK_AROUNDS if work_around.package == "python"}
    named = {
        str(path.relative_to(ROOT))
        for package in ("client", "tui", "service")
        for path in (ROOT / package).rglob("*.py")
        if comment.search(path.read_text())
    }
    assert named - listed == set()


def test_the_list_has_each_private_name_that_is_used_and_no_other() -> None:
    uses = {name: module.__name__ for module in ours() for name in used(module)}
    names = {private.name for private in PRIVATE_NAMES}
    listed = names | {private.owner.rpartition(":")[2] for private in PRIVATE_NAMES}
    assert {name: module for name, module in uses.items() if name not in listed} == {}
    unused = {"", "_toast_id", "get_inner_outer", "_get_renders", "_modal_binding_chain", "_on_resize"}
    assert names - uses.keys() - unused == set()


@pytest.mark.parametrize("private", PRIVATE_NAMES, ids=lambda private: f"{private.owner}.{private.name}")
def test_a_private_name_exists_in_textual(private: PrivateName) -> None:
    owner: Any = resolve_name(private.owner)
    assert not private.name or private.name in private_names(owner) or hasattr(owner, private.name)


@pytest.mark.parametrize(("kind", "left"), [(App[None], 1), (PatchedApp, 0)])
async def test_the_holder_of_a_withdrawn_toast_stays_without_the_patch(kind: type[App[None]], left: int) -> None:
    fix_style_cache_leak()
    app = kind()
    async with app.run_test(notifications=True) as pilot:
        app.notify("withdrawn", timeout=600)
        await pilot.pause()
        assert len(app.screen.query(ToastHolder)) == 1
        app.clear_notifications()
        await pilot.pause()
        await pilot.pause()
        assert len(app.screen.query(ToastHolder)) == left


def test_the_patched_defects_are_in_textual() -> None:
    cache = r"@lru_cache\([^)]*\)\n    def get_inner_outer\(\n?\s*cls\b"
    assert re.search(cache, inspect.getsource(_styles_cache))
    assert "show_locals=True" in inspect.getsource(App._fatal_error)
    assert list(inspect.signature(Screen._on_resize).parameters) == ["self", "event"]
    assert "event.size" in inspect.getsource(Screen._on_resize)
    assert "shutil.get_terminal_size()" in inspect.getsource(LinuxDriver._get_terminal_size)


class Lines(Widget):
    """Counts the lines that it is asked to paint."""

    DEFAULT_CSS = "Lines { height: 5; }"
    painted = 0

    def render(self) -> str:
        return "a\nb\nc\nd\ne"

    def render_lines(self, crop: Region) -> list[Strip]:
        self.painted += crop.height
        return super().render_lines(crop)


class Stacked(App[None]):
    def compose(self) -> ComposeResult:
        yield Lines(id="one")
        yield Lines(id="other")


async def painted_lines() -> tuple[int, int]:
    """Return the lines that two widgets painted after one line of the first has changed."""
    app = Stacked()
    async with app.run_test(size=(20, 10)) as pilot:
        await pilot.pause()
        one, other = app.query(Lines)
        one.painted = other.painted = 0
        one.refresh(Region(0, 2, 20, 1))
        await pilot.pause()
        while not one.painted:
            await pilot.pause(0.01)
        return one.painted, other.painted


async def test_a_changed_line_paints_all_lines_without_the_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compositor, "_get_renders", textual_get_renders)
    assert await painted_lines() == (5, 5)
    paint_changed_lines()
    assert await painted_lines() == (1, 0)
