"""Keys in one burst act as keys one by one."""

import pytest

from tests.homes import Home
from tests.terminal import screens

pytestmark = pytest.mark.slow

BURSTS = [
    (b"/newsroom", "Tenants  / newsroom"),
    (b"/dat\x15stag", "Tenants  / stag"),
    (b"2/resized", "Policies  / resized"),
    (b"1:policies\r/media", "Policies  / media"),
    (b"1:groups\r:policies\r/look", "Policies  / look"),
    (b"1\x14newsroom\r", "Borealis Media › Newsroom"),
]


def test_letters_do_not_overtake_the_key_before_them(demo: Home) -> None:
    with screens(demo) as program:
        program.wait_for("Data Lake")
        for burst, shown in BURSTS:
            program.write(burst)
            program.wait_for(shown)
            program.press("escape", "escape")
