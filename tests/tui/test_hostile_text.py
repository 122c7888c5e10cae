"""Text from outside through every widget and a real terminal: shown, never obeyed."""

import importlib
import json
import pkgutil
import sys
import time
from pathlib import Path

import pytest
from rich.segment import Segment
from textual.color import Color
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

import tui
from tests.terminal import Program
from tests.tui.screens import Ui
from tui.iam.editor.layout import EditorLayout
from tui.iam.editor.screen import PolicyEditor
from tui.shell.bars import TooSmall
from tui.shell.list_screen import ListScreen
from tui.shell.main_screen import MainScreen
from tui.shell.navigator import Navigator
from tui.terminal.textual_patches import DANGEROUS, PaintsNothing, Row, Stack, VisibleControls
from tui.widgets.dialog import Dialog, Sending

PROGRAM = Path(__file__).parent / "hostile_screen.py"
ROOT = Path(__file__).parents[2]

HOSTILE = [
    "evil\x1b]0;PWNED\x07\x1b[31m",
    "clip\x1b]52;c;UFdORUQ=\x1b\\board",
    "link\x1b]8;;https://evil.example\x1b\\text\x1b]8;;\x1b\\",
    "c1 \x9b31m \x9d52;c;UFdORUQ=\x9c",
    "back\x08\x08\x08space \r return \t tab \x0c feed \x00 null \x7f del",
    "[/",
    "[/x]",
    "[link=https://evil.example]",
    "[@click=app.exit]Web Shop[/]",
    "[bold red]DELETED[/]",
    "over\u202eride \u200b\u200d\u2060 zero \u2028 line \u2029 paragraph \ufeff mark",
    "e" + "\u0301" * 400,
    "👨‍👩‍👧‍👦 family 漢字 wide",
    "x" * 10_000,
]
# Bytes that appear in the output only when a terminal obeyed the data.
FOREIGN = [
    b"\x1b]0;",
    b"\x1b]52;",
    b"\x1b]8;",
    b"\x1b[31m",
    b"\xc2\x9b",
    b"\xc2\x9d",
    b"\x08",
    b"\x0c",
    b"\x00",
    b"\x7f",
]
PATIENCE = 60.0
"""Seconds without any output. There are many dialogs, and a busy machine takes minutes for all of them."""
INVISIBLE = "\u202e\u200b\u200d\u2060\u2028\u2029\ufeff"


def run(tmp_path: Path, *words: str) -> Program:
    strings = tmp_path / "strings.json"
    strings.write_text(json.dumps(HOSTILE))
    command = [sys.executable, str(PROGRAM), str(strings), str(tmp_path / "shown.json"), *words]
    program = Program(command, 80, 40, env={"PYTHONPATH": str(ROOT)})
    try:
        program.until_quiet(1.0, 20)
        painted, deadline = 0, time.monotonic() + PATIENCE
        while time.monotonic() < deadline and program.alive and b"ALL SHOWN" not in program.raw()[-400:]:
            if len(program.chunks) > painted:
                painted, deadline = len(program.chunks), time.monotonic() + PATIENCE
            program.write(b"\x1b[20~")  # F9: a key without a binding
            program.until_quiet(0.03, 2)
        program.until_quiet(0.5, 3)
    finally:
        program.close()
    return program


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("bare",)], ids=["our widgets", "the net behind them"])
def test_no_widget_passes_control_sequences_to_a_terminal(tmp_path: Path, words: tuple[str, ...]) -> None:
    program = run(tmp_path, *words)
    raw = program.raw()
    assert b"ALL SHOWN" in raw, program.text
    assert b"Traceback" not in raw
    invisible = [character.encode() for character in INVISIBLE]
    assert [sequence for sequence in (*FOREIGN, *invisible) if sequence in raw] == []
    if not words:
        shown = set(json.loads((tmp_path / "shown.json").read_text()))
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
