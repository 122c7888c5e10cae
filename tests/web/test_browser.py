"""The screens in a real browser."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import opened
from tests.homes import Home
from tests.web.browser import CHROMIUM, MISSING, Browser, chromium
from tests.web.serving import Serving, gone, serving

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
        await tab.press("f3")
        await tab.press(*["backspace"] * len("compute:instances:read"))
        await tab.type("compute:instances:delete")
        await tab.expect("× DENIED")

        # The same place as in a terminal: what is typed there goes to no command of the browser.
        await tab.press("f4")
        await tab.expect("not available in a browser")

        # Nothing came from elsewhere, and nothing was refused by the page's policy.
        assert all(url.partition("//")[2].startswith(server.host) for url in tab.requested), tab.requested
        assert tab.errors == []
        assert await tab.value("document.cookie") == ""
        assert server.address not in await tab.value("document.documentElement.outerHTML + location.href")


async def test_copies_go_to_the_clipboard_of_the_browser(demo_slow: Home, browser: Browser) -> None:
    with serving(demo_slow) as server:
        tab = await browser.tab()
        await tab.ask("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        await tab.ask("Emulation.setFocusEmulationEnabled", enabled=True)
        await tab.open(server.address)
        await tab.expect("Data Lake")
        await tab.press("y")
        await tab.expect("Copy")
        await tab.press("n")
        await tab.expect("Copied name")
        assert await tab.value("navigator.clipboard.readText()") in ("Data Lake", "Web Shop")


async def test_a_reload_begins_anew_and_a_second_tab_is_a_process_of_its_own(demo_slow: Home, browser: Browser) -> None:
    with serving(demo_slow) as server:
        first = await browser.tab()
        await first.open(server.address)
        await first.expect("Data Lake")
        before = server.until_tabs(1)
        clean = await first.value("location.href")
        second = await browser.tab()
        await second.open(clean)
        await second.expect("Data Lake")
        server.until_tabs(2)
        await first.ask("Page.reload")
        await first.expect("Data Lake")
        assert gone(before)
        assert len(server.until_tabs(2)) == 2
        await second.close()
        server.until_tabs(1)


async def entered(server: Serving, browser: Browser) -> list[int]:
    tab = await browser.tab()
    await tab.open(server.address)
    await tab.expect("Data Lake")
    return server.until_tabs(1)


async def test_a_killed_browser_ends_its_process(demo_slow: Home, browser: Browser) -> None:
    with serving(demo_slow) as server:
        pids = await entered(server, browser)
        browser.kill()
        assert await asyncio.to_thread(gone, pids)


async def test_a_draft_in_a_closed_tab_is_kept(demo_slow: Home, browser: Browser) -> None:
    with serving(demo_slow) as server:
        tab = await browser.tab()
        await tab.open(server.address)
        await tab.expect("Data Lake")
        await tab.press("2")
        await tab.expect("deployments")
        await tab.press("enter")
        await tab.expect("within your permissions")
        await tab.press("down", "end")
        await tab.type(" ")
        await tab.expect("unsaved")
        pids = server.until_tabs(1)
        await tab.close()
        assert await asyncio.to_thread(gone, pids)
    assert len(list((demo_slow.path / ".cli" / "drafts").glob("*.json"))) == 1


async def test_a_used_address_and_an_ended_server_say_so(demo_slow: Home, browser: Browser) -> None:
    with serving(demo_slow) as server:
        tab = await browser.tab()
        await tab.open(server.address)
        await tab.expect("Data Lake")
        stranger = await browser.tab()
        await stranger.open(server.address)
        await stranger.expect("this address was already used")
        await stranger.open(f"{server.origin}/")
        await stranger.expect("the address that frost web printed, which works once")
        assert await asyncio.to_thread(server.stop) == 0
        until = time.monotonic() + 60
        while "frost web has ended" not in await tab.value("document.getElementById('why').innerText"):
            assert time.monotonic() < until
            await asyncio.sleep(0.1)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_the_address_is_opened_through_a_private_file(
    demo_platform: Path, browser: Browser, tmp_path: Path
) -> None:
    """The browser gets the name of a private file: its command line can be read by everybody on the machine."""
    told = tmp_path / "told"
    opener = tmp_path / "opener"
    opener.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {told}.part; mv {told}.part {told}\n')
    opener.chmod(0o700)
    home = opened(demo_platform, FROST_PLATFORM_PROVISIONING_PACE="600")
    try:
        with serving(home, opens=True, BROWSER=str(opener)) as server:
            until = time.monotonic() + 60
            while not told.exists():
                assert time.monotonic() < until
                await asyncio.sleep(0.05)
            address = told.read_text()
            assert address.startswith("file:///")
            page = Path(address.removeprefix("file://"))
            assert (mode(page), mode(page.parent)) == (0o600, 0o700)
            tab = await browser.tab()
            await tab.open(address)
            await tab.expect("Data Lake")
            assert not page.parent.exists()
            assert server.stop() == 0
    finally:
        home.remove()
