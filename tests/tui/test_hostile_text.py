"""Text from outside through every widget and a real terminal: shown, never obeyed (hostile F01 to F08)."""

import json
import sys
from pathlib import Path

import pytest
from rich.segment import Segment
from textual.color import Color

from tests.terminal import Program
from tui.display_filter import VisibleControls

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
# Bytes that appear in the output only when a terminal was told something by the data.
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
INVISIBLE = "\u202e\u200b\u200d\u2060\u2028\u2029\ufeff"


def run(tmp_path: Path, *words: str) -> Program:
    strings = tmp_path / "strings.json"
    strings.write_text(json.dumps(HOSTILE))
    program = Program([sys.executable, str(PROGRAM), str(strings), *words], 80, 40, env={"PYTHONPATH": str(ROOT)})
    try:
        program.until_quiet(1.0, 20)
        for _ in range(40 * len(HOSTILE)):
            if not program.alive or b"ALL SHOWN" in program.raw()[-400:]:
                break
            program.write(b"\x1b[20~")  # F9: a key nothing is bound to
            program.until_quiet(0.03, 2)
        program.until_quiet(0.5, 3)
    finally:
        program.close()
    return program


@pytest.mark.parametrize("words", [(), ("bare",)], ids=["our widgets", "the net behind them"])
def test_no_widget_passes_on_what_a_terminal_would_obey(tmp_path: Path, words: tuple[str, ...]) -> None:
    program = run(tmp_path, *words)
    raw = program.raw()
    assert b"ALL SHOWN" in raw, program.text
    assert b"Traceback" not in raw
    for sequence in FOREIGN:
        assert sequence not in raw, sequence
    for character in INVISIBLE:
        assert character.encode() not in raw, f"U+{ord(character):04X}"


def test_the_net_replaces_controls_cell_for_cell_and_leaves_the_rest() -> None:
    net = VisibleControls()
    line = [Segment("good "), Segment("e\x1b]0;x\x07vil\x9b"), Segment("", control=[(1,)])]  # type: ignore[list-item]
    out = net.apply(line, Color(0, 0, 0))
    assert [segment.text for segment in out] == ["good ", "e␛]0;x␇vil�", ""]
    assert net.apply(line[:1], Color(0, 0, 0)) is not None
