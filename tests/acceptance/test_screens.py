"""The full-screen application in a real terminal on the real platform."""

import os
import re
import signal
import time

import pytest

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
