"""The secret of a new key in a real terminal."""

import base64

import pytest

from tests.homes import Home
from tests.leaks import secrets_in
from tests.terminal import screens

pytestmark = pytest.mark.slow


def test_a_copied_secret_stays_neither_on_screen_nor_in_scroll_back(demo: Home) -> None:
    with screens(demo, columns=80, rows=24) as program:
        program.wait_for("Web Shop")
        program.wait_for("connected")
        program.press("6")
        program.wait_for("compute-all")
        program.press("n")
        program.wait_for("compute:read")
        program.press(*"night", "tab", "tab", "tab", "tab", "tab", "down", "space")
        program.wait_for("1 selected")
        program.press("ctrl+s")
        program.wait_for("shown only once")
        program.until_quiet(1.0, 3)
        (secret,) = secrets_in(program.text.encode())
        program.press("y")
        program.wait_for("Copied to the clipboard")
        assert b"\x1b]52;c;" + base64.b64encode(secret.encode()) in program.raw()
        program.press("escape")
        program.wait_for("17 API keys")
        program.until_quiet(0.3, 3)
        assert secret not in program.text
        before, _, inside = program.raw().partition(b"\x1b[?1049h")  # a screen of its own has no scroll-back
        assert inside
        assert secret.encode() not in before
        assert b"\x1b[?1049l" not in inside
        program.press("q")
        program.wait_end()
        assert secret.encode() not in program.raw().partition(b"\x1b[?1049l")[2]
