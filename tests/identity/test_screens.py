"""The screens sign in at npm oidc-provider, in a real terminal."""

import re

import pytest

from tests.identity.provider import Person, Site
from tests.people import OWNER
from tests.terminal import screens

pytestmark = pytest.mark.slow


def test_the_screens_show_a_code_and_open_once_it_is_confirmed(site: Site) -> None:
    site.home.write_config(f"current_context: work\ncontexts:\n  work:\n    api_endpoint: {site.url}/api\n")
    with screens(site.home) as program:
        program.wait_for("You are not signed in")
        program.until_quiet(1.0, 5)
        program.press("enter")
        text = program.wait_for("enter this code")
        address = re.search(r"http://127\.0\.0\.1:\d+/device", text)
        code = re.search(r"\b[A-Z]{4}-[A-Z]{4}\b", text)
        assert address, text
        assert code, text
        Person("astrid").enter_code(address[0], code[0])
        program.wait_for(OWNER)
        program.wait_for("Data Lake")
        program.press("q")
        assert program.wait_end() == 0
    assert site.home.json("whoami")["email"] == OWNER
