"""Text from outside through every widget: shown, never obeyed."""

import importlib
import pkgutil

import pytest
from rich.segment import Segment
from textual.color import Color
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

import tui
from tests.tui.hostile_screen import HOSTILE, Hostile
from tests.tui.screens import Ui
from tui.iam.editor.layout import EditorLayout
from tui.iam.editor.screen import PolicyEditor
from tui.shell.bars import TooSmall
from tui.shell.list_screen import ListScreen
from tui.shell.main_screen import MainScreen
from tui.shell.navigator import Navigator
from tui.terminal.textual_patches import DANGEROUS, PaintsNothing, Row, Stack, VisibleControls
from tui.widgets.dialog import Dialog, Sending


@pytest.mark.slow
async def test_no_widget_passes_control_sequences_to_a_terminal() -> None:
    app, shown = Hostile(), set()
    async with app.run_test(size=(80, 40), notifications=True) as pilot:
        for turn in app.all_turns():
            turn()
            await pilot.pause()
            shown |= app.classes_on_screen()
            text = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
            assert not DANGEROUS.search(text.replace("\n", "")), repr(text)
        assert app.is_running
    assert painting() - shown == set(), "a widget that paints was not shown with hostile text"


def painting() -> set[str]:
    """Every widget and screen of the product that may paint foreign text itself."""
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        if module.name != "tui.__main__":
            importlib.import_module(module.name)
    kinds: list[type[Widget]] = [Widget]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return {
        f"{kind.__module__}.{kind.__qualname__}"
        for kind in kinds
        if kind.__module__.startswith("tui.") and kind not in WITHOUT_FOREIGN_TEXT and not issubclass(kind, ListScreen)
    }


# List screens are painted by heading, list and details alone; hostile names stand in them in test_groups_screen.py.
WITHOUT_FOREIGN_TEXT = (
    *(PaintsNothing, Row, Stack, TooSmall, Dialog, Sending, Navigator),
    *(MainScreen, EditorLayout, PolicyEditor),
)
"""Arrangements of other widgets, and widgets with texts of the product only."""


def test_a_list_screen_paints_nothing_itself() -> None:
    painting()
    left: list[type[Widget]] = [ListScreen]
    for kind in left:
        assert not {"render", "render_line", "render_lines"} & set(vars(kind)), kind
        left += kind.__subclasses__()


def test_the_line_filter_replaces_controls_cell_for_cell() -> None:
    net = VisibleControls()
    line = [Segment("good "), Segment("e\x1b]0;x\x07vil\x9b"), Segment("", control=[(1,)])]
    out = net.apply(line, Color(0, 0, 0))
    assert [segment.text for segment in out] == ["good ", "e␛]0;x␇vil�", ""]
    assert net.apply(line[:1], Color(0, 0, 0)) is not None


async def test_the_application_filters_the_lines_of_every_screen(ui: Ui) -> None:
    """A widget that forgot to make its text safe: `FrostApp` itself keeps the text from the terminal."""
    for screen in (ui.app.frame, ModalScreen[None]()):
        if screen is not ui.app.screen:
            await ui.app.push_screen(screen)
        forgetful = Static("", classes="forgetful")
        await screen.mount(forgetful)
        for number, text in enumerate(text for text in HOSTILE if DANGEROUS.search(text)):
            forgetful.update(Content(f"mark {number} {text}"))
            await ui.expect(f"mark {number} ")
            for line in ui.text.split("\n"):
                assert not DANGEROUS.search(line), repr(line)
