"""A character whose bytes arrive in pieces."""

import pytest

from tests.homes import Home
from tests.terminal import screens


@pytest.mark.slow
def test_a_letter_in_two_pieces_is_read(demo: Home) -> None:
    with screens(demo) as program:
        program.wait_for("Data Lake")
        program.press("/")
        program.wait_for("text, !exclude")
        first, second = "é".encode()[:1], "é".encode()[1:]
        program.write(first)
        program.until_quiet(0.5, 2)
        program.write(second)
        program.wait_for("/ é")
        program.press("x")
        program.wait_for("/ éx")
