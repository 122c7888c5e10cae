"""The full-screen application in a real terminal on the real platform."""

import os
import re
import signal
import sqlite3
import time

import pytest

from tests.acceptance.people import AURORA, SANDBOX
from tests.homes import Home
from tests.terminal import Program, screens


@pytest.mark.slow
def test_a_fresh_machine_opens_on_its_tenants_signed_in_as_the_owner(home: Home) -> None:
    with screens(home) as program:
        program.wait_for("Data Lake")
        for name in ("Web Shop", "Staging", "Sandbox", "Newsroom", "Aurora Labs", "Borealis Media"):
            program.wait_for(name)
        program.wait_until(lambda: "Web Shop" in program.text.splitlines()[0], "the tenant in the heading")
        heading = program.text.splitlines()[0]
        assert all(text in heading for text in ("local", "Aurora Labs", "owner@aurora.example"))
        program.press("q")
        assert program.wait_end() == 0


HOSTILE = (
    "[/x]",
    "[bold red]DELETED[/]",
    "[@click=app.quit]Web[/]",
    "[link=https://evil.example]x[/link]",
    "漢字" * 40,
    "e" + "\u0301" * 100,
    "👩‍👩‍👧‍👦 family",
    "Dаta Lake",
)


@pytest.mark.slow
def test_hostile_names_are_shown_and_never_obeyed(demo: Home) -> None:
    demo.start()
    for name in HOSTILE:
        demo.frost("tenant", "create", "--name", name, "--organization", AURORA)
    # The platform takes no control characters in a name: another program, or an older platform, might.
    assert demo.frost("platform", "stop").code == 0
    evil = "evil\x1b]52;c;UFdORUQ=\x07\x1b[31m\x9b31m\r\u202etxt\u2028"
    with sqlite3.connect(demo.platform_dir / "platform.db") as database:
        database.execute("UPDATE tenants SET display_name = ? WHERE id = ?", [evil, SANDBOX])
    with screens(demo) as program:
        for name in HOSTILE[:3]:
            program.wait_for(name[:10])
        program.press("ctrl+t")
        program.wait_for("Switch tenant")
        program.write(b"evil")
        program.until_quiet(0.3, 3)
        program.press("enter")
        program.until_quiet(0.5, 5)
        program.press("?", "escape", "ctrl+p", "escape", "G", "g", "d")
        program.until_quiet(0.5, 5)
        assert program.alive
        raw = program.raw()
        assert b"\x1b]52;" not in raw
        assert b"PWNED" not in raw
        assert b"\x9b31m" not in raw.replace("\u241b".encode(), b"")
        assert "\u202e".encode() not in raw
        program.press("q")
        program.until_quiet(0.3, 3)


@pytest.mark.slow
def test_signals_restore_the_terminal(demo: Home) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        with screens(demo) as program:
            program.wait_for("Data Lake")
            os.kill(program.pid, number)
            program.wait_end()
            raw = program.raw()
            assert raw.rindex(b"\x1b[?1049l") > raw.rindex(b"\x1b[?1049h")
            assert b"Traceback" not in raw


def test_a_dumb_terminal_is_refused_with_the_way_out(demo: Home) -> None:
    with screens(demo, TERM="dumb") as program:
        assert program.wait_end() == 2
        assert b"frost" in program.raw()
        assert b"\x1b[" not in program.raw()


@pytest.mark.slow
def test_idle_screens_write_nothing_and_without_colour_no_colour(demo_slow: Home) -> None:
    assert demo_slow.frost("tenant", "default-tags", "apply", "--yes").code == 0
    with screens(demo_slow, NO_COLOR="1") as program:
        program.wait_for("Data Lake")
        assert idle_bytes(program) == 0
        program.write(b":apply\r")
        program.wait_for("✓ applied")
        assert idle_bytes(program) == 0
        assert not re.search(rb"\x1b\[[0-9;]*(?:38|48);[25]", program.raw())


def idle_bytes(program: Program) -> int:
    """How much the program writes in four seconds after it has become quiet."""
    program.until_quiet(2.5, 15)
    mark = len(program.chunks)
    until = time.monotonic() + 4
    while time.monotonic() < until:
        program.pump(0.5)
    return sum(len(data) for _, data in program.chunks[mark:])
