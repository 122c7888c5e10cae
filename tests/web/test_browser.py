"""The screens in a real browser."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.homes import Home
from tests.waiting import async_until
from tests.web.browser import CHROMIUM, MISSING, Browser, chromium
from tests.web.serving import gone, serving

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CHROMIUM, reason=MISSING)]


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


async def test_sign_in_switch_tenant_and_try_a_request(demo_slow: Home, browser: Browser) -> None:
    demo_slow.sign_in()
    assert demo_slow.frost("logout").code == 0
    with serving(demo_slow) as server:
        tab = await browser.tab()
        await tab.open(server.address)
        await tab.expect("You are not signed in")
        await tab.press("enter")
        await tab.expect("owner@aurora.example", "Data Lake")

        await tab.press("ctrl+o")
        await tab.expect("Switch tenant")
        await tab.type("newsroom")
        await tab.expect("Borealis Media")
        await tab.press("enter")
        await tab.expect("Borealis Media › Newsroom")
        await tab.press("-")
        await tab.expect("Aurora Labs › Web Shop")

        await tab.press("2")
        await tab.expect("deployments")
        await tab.press("enter")
        await tab.expect("within your permissions", "✓ ALLOWED")
        await tab.press("f3", *["backspace"] * len("compute:instances:read"))
        await tab.type("compute:instances:delete")
        await tab.expect("× DENIED")
        await tab.press("f4")  # the keys of the screens go to no command of the browser
        await tab.expect("not available in a browser")

        # The page requested nothing from elsewhere, and its policy refused nothing.
        assert all(url.partition("//")[2].startswith(server.host) for url in tab.requested), tab.requested
        assert tab.errors == []
        assert await tab.value("document.cookie") == ""
        assert server.address not in await tab.value("document.documentElement.outerHTML + location.href")


async def test_copies_go_to_the_clipboard_of_the_browser_and_ends_are_explained(
    demo_slow: Home, browser: Browser
) -> None:
    with serving(demo_slow) as server:
        tab, stranger = await browser.tab(), await browser.tab()
        await tab.ask("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        await tab.ask("Emulation.setFocusEmulationEnabled", enabled=True)
        await tab.open(server.address)
        await tab.expect("Data Lake")
        await tab.press("y")
        await tab.expect("Copy")
        await tab.press("n")
        await tab.expect("Copied name")
        assert await tab.value("navigator.clipboard.readText()") in ("Data Lake", "Web Shop")
        await stranger.open(server.address)
        await stranger.expect("this address was already used")
        await stranger.open(f"{server.origin}/")
        await stranger.expect("the address that frost web printed, which works once")
        assert await asyncio.to_thread(server.stop) == 0

        async def is_explained() -> bool:
            return "frost web has ended" in await tab.value("document.getElementById('why').innerText")

        await async_until(is_explained)


async def test_the_address_is_opened_through_a_private_file_and_the_end_of_the_browser_ends_the_process(
    demo_slow: Home, browser: Browser, tmp_path: Path
) -> None:
    """The browser gets the name of a private file, because every user of the machine can read its command line."""
    file, opener = tmp_path / "address", tmp_path / "opener"
    opener.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {file}.part; mv {file}.part {file}\n')
    opener.chmod(0o700)
    with serving(demo_slow, opens=True, BROWSER=str(opener)) as server:
        await async_until(file.exists)
        address = file.read_text()
        assert address.startswith("file:///")
        page = Path(address.removeprefix("file://"))
        assert [path.stat().st_mode & 0o777 for path in (page, page.parent)] == [0o600, 0o700]
        tab = await browser.tab()
        await tab.open(address)
        await tab.expect("Data Lake")
        assert not page.parent.exists()
        pids = server.until_tabs(1)
        browser.kill()
        assert await asyncio.to_thread(gone, pids)
        assert server.stop() == 0
