"""Menu, help and header on small screens."""

import re

import pytest

from tests.tui.screens import Ui
from tui.shell.bars import Header, HeaderState
from tui.shell.palette import Help, Line
from tui.widgets.picker import Entry, Menu

WIDE_NAMES = ("local", "Aurora Labs", "Web Shop", "漢字" * 20, "👨‍👩‍👧‍👦 family" * 6, "e\u0301" * 90)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 36)])
async def test_a_menu_scrolls_and_keeps_its_note_and_hint(ui: Ui) -> None:
    await ui.expect("Data Lake")
    entries = [Entry(str(n), f"Entry number {n}", note=f"the words of {n} " * 12) for n in range(30)]
    ui.app.push_screen(Menu("Actions", entries))
    await ui.expect("Entry number 0", "the words of 0", "Enter or its key: choose · Esc close")
    for number in range(1, 30):
        await ui.press("down", shows=(f"Entry number {number}", f"the words of {number} ", "Enter or its key chooses"))
    assert ui.text.splitlines()[-1].strip()[:1] in "╰?qunf/", ui.text


@pytest.mark.parametrize("size", [(60, 30)])
async def test_help_without_room_wraps_below_the_title(ui: Ui) -> None:
    await ui.expect("Data Lake")
    words = "Its members and what each of them may do in every tenant there is"
    ui.app.push_screen(Help([Line("Groups", "PgDn ^f", "Detach a policy from the group", words)]))
    await ui.expect("PgDn ^f", "Detach a policy from the group", "Its members")
    inside = [line.strip("│ ╭╰─╮╯") for line in ui.text.splitlines() if "│" in line]
    assert " ".join(words.split()) in " ".join(line for line in inside if line)
    title, below = (next(line for line in ui.text.splitlines() if one in line) for one in ("Detach a", "Its members"))
    assert title.index("Detach a") == below.index("Its members")
    await ui.pilot.resize_terminal(120, 30)
    await ui.until(lambda: "group Its members" in " ".join(ui.text.split()), "the words beside the title")


@pytest.mark.parametrize("size", [(100, 24)])
async def test_both_header_lines_end_in_the_same_cell(ui: Ui) -> None:
    await ui.expect_head("connected")
    header = ui.app.screen.query_one(Header)
    for width in range(60, 132, 7):
        await ui.pilot.resize_terminal(width, 24)
        await ui.until(lambda width=width: header.content_size.width == width - 2, f"a header of {width} cells")
        for name in WIDE_NAMES:
            for running in ("", "◐ 1 running"):
                link = "● connected 100 ms"
                header.header_state = HeaderState(
                    "local", name, name, "active", "owner@a.example", "session", "", False, link
                )
                header.header_state = header.header_state._replace(running=running)
                assert {line.cell_length for line in header.render().split("\n")} == {width - 2}
    await ui.pilot.resize_terminal(100, 24)
    header.refresh()
    await ui.pilot.pause()
    placed = re.findall(r"<text[^>]*>([^<]*)</text>", ui.app.export_screenshot())
    # A font without the sign draws it in another width: the words behind it have their own place.
    assert "connected&#160;100&#160;ms" in placed
