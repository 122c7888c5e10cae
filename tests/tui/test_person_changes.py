"""Somebody else calls now: what was loaded for the one before goes, and the cursor stays on its record."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from client.records import Record
from tests.homes import Home
from tests.tui.screens import Ui, opened
from tui import collections


async def somebody_else(ui: Ui, home: Home) -> None:
    assert (await asyncio.to_thread(home.frost, "login", "--as", "member@aurora.example")).code == 0
    await ui.press("r")
    await ui.expect_head("member@aurora.example · session")


@pytest.mark.parametrize(("place", "name"), [("3", "on call"), ("2", "look at compute"), ("1", "Staging")])
async def test_the_cursor_stays_on_its_record(
    demo: Home, monkeypatch: pytest.MonkeyPatch, place: str, name: str
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await ui.press(place)
        await ui.expect(name)
        await ui.cursor_on(name)
        await somebody_else(ui, demo)
        await ui.expect(name)
        await ui.until(lambda: ui.under_cursor == name, f"{name} under the cursor, not {ui.under_cursor}")


async def test_a_record_of_a_later_page_gets_the_cursor_when_it_has_come(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = collections.READ["groups"]

    async def one_by_one(*about: Any) -> AsyncIterator[Sequence[Record]]:
        async for page in whole(*about):
            for record in page:
                yield [record]
                await asyncio.sleep(0.1)

    monkeypatch.setitem(collections.READ, "groups", one_by_one)  # type: ignore[arg-type]
    async with opened(demo, monkeypatch) as ui:
        await ui.press("3")
        await ui.expect("3 groups")
        await ui.press("G")
        last = ui.under_cursor
        await somebody_else(ui, demo)
        await ui.expect("3 groups")
        await ui.until(lambda: ui.under_cursor == last, f"{last} under the cursor, not {ui.under_cursor}")
