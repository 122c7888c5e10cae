"""The screens and the policy editor, open on the platform of a test."""

from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.tui.editing import Edit, edit_on
from tests.tui.screens import Ui, opened, use_key
from tui.launch import Launch

HOMES = ("demo", "demo_slow", "paced", "own", "viewer")


@pytest.fixture
def size() -> tuple[int, int]:
    return 120, 36


@pytest.fixture
def launch() -> Launch:
    return Launch()


@pytest.fixture
def user() -> str:
    return ""


@pytest.fixture
def api_key() -> str:
    return ""


@pytest.fixture
async def ui(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    launch: Launch,
    user: str,
    api_key: str,
) -> AsyncIterator[Ui]:
    """The screens on the platform that the test requests; else on the shared one, whose owner stays signed in."""
    name = next((name for name in HOMES if name in request.fixturenames), "shared")
    home, config = request.getfixturevalue(name), ""
    if name == "shared" and (user or api_key):
        home.start()
        config = home.config.read_text()
    if user:
        home.sign_in(user)
    if api_key:
        await use_key(home, api_key)
    async with opened(home, monkeypatch, size=size, launch=launch) as ui:
        yield ui
    if config:
        home.write_config(config)


@pytest.fixture
def edit(ui: Ui) -> Edit:
    return partial(edit_on, ui)
