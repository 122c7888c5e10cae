"""The processes of browser tabs end with their tab and with the server."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.homes import Home
from tests.web.serving import Serving, gone, serving


@contextlib.asynccontextmanager
async def let_in(server: Serving) -> AsyncIterator[aiohttp.ClientSession]:
    """A client with the cookie, whose addresses begin at the folder."""
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(cookie_jar=jar) as client, client.get(server.address) as answer:
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        folder = (await answer.text()).partition("url=")[2].partition('"')[0]
    headers = {"Cookie": cookie, "Origin": server.origin}
    async with aiohttp.ClientSession(f"{server.origin}{folder}", headers=headers) as client:
        yield client


async def painted(tab: aiohttp.ClientWebSocketResponse, text: bytes, seconds: float = 60) -> None:
    """Wait until the server has sent the text to the tab."""
    received = b""
    async with asyncio.timeout(seconds):
        while text not in received:
            message = await tab.receive()
            assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), (message, received)
            received += message.data if isinstance(message.data, bytes) else message.data.encode()


def visible(pid: int) -> bytes:
    """The command line and the environment of a process, which other programs of the user can read."""
    return Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()


async def opened(client: aiohttp.ClientSession, size: str = "width=120&height=36") -> aiohttp.ClientWebSocketResponse:
    """Open a tab, and wait until it shows the tenants."""
    tab = await client.ws_connect(f"socket?{size}", max_msg_size=0)
    if "-" not in size:
        await painted(tab, b"Data Lake")
    return tab


@pytest.mark.slow
async def test_each_tab_is_a_process_that_ends_with_it_and_the_others_go_on(shared: Home) -> None:
    with serving(shared, "--read-only") as server:
        async with let_in(server) as client:
            first, second = await opened(client), await opened(client, "width=90&height=30")
            both = server.until_tabs(2)
            # Neither the token nor the cookie is anywhere where another program can read it.
            for pid in (*both, server.process.pid):
                assert server.address.rpartition("/")[2].encode() not in visible(pid)
            assert b"--read-only" in visible(both[0])
            await first.close()
            left = server.until_tabs(1)
            await second.send_json(["stdin", "?"])
            await painted(second, b"Help")
        assert gone(left)


@pytest.mark.slow
async def test_invalid_messages_are_ignored_and_leaving_the_screens_closes_the_tab(shared: Home) -> None:
    invalid = ["", "{", "[]", "7", "null", '["stdin"]', '["stdin", 7]', '["resize", {"width": "x", "height": []}]']
    invalid += ['["resize", {"width": 100000000, "height": -4}]', '["deliver", "x"]', "[" * 5000, '["quit"]']
    with serving(shared) as server:
        async with let_in(server) as client:
            tab = await opened(client, "width=-5&height=99999999999")
            for message in invalid:
                await tab.send_str(message)
            await tab.send_bytes(b"\xff\x00M")
            await tab.send_json(["resize", {"width": 120, "height": 36}])
            await painted(tab, b"Data Lake")
            server.until_tabs(1)
            await tab.send_json(["stdin", "q"])
            async with asyncio.timeout(60):
                async for _ in tab:
                    pass
            assert tab.close_code == 1000
            server.until_tabs(0)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 0), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in ((signal.SIGTERM, 0), (9, -9)))],
)
async def test_the_end_of_the_server_ends_every_tab(shared: Home, number: int, code: int) -> None:
    with serving(shared) as server:
        async with let_in(server) as client:
            tabs = [await opened(client) for _ in range(2)]
            pids = server.until_tabs(len(tabs))
            assert await asyncio.to_thread(server.stop, number) == code
            assert gone(pids)
            assert "Traceback" not in (server.process.stderr.read() if server.process.stderr else "")


@pytest.mark.slow
async def test_a_stopped_process_and_an_unread_tab_end_with_their_connection(shared: Home) -> None:
    with serving(shared) as server:
        async with let_in(server) as client:
            tab = await opened(client)
            pids = server.until_tabs(1)
            os.kill(pids[0], signal.SIGSTOP)
            await tab.close()
            assert await asyncio.to_thread(gone, pids, 12)

            # A frozen page reads nothing: the pipes become full, and the process must not wait for them at its end.
            tab = await opened(client)
            pids = server.until_tabs(1)
            for _ in range(400):
                await tab.send_json(["stdin", "?\x1b[I"])
                await tab.send_json(["resize", {"width": 400, "height": 200}])
                await tab.send_json(["resize", {"width": 300, "height": 150}])
            tab.get_extra_info("socket").shutdown(2)  # as a crashed browser: no close frame
            assert await asyncio.to_thread(gone, pids, 12)


async def test_the_command_is_listed_and_refuses_what_it_cannot_serve(shared: Home, tmp_path: Path) -> None:
    assert "Open the screens in a browser on this machine" in shared.frost("--help").out
    assert "--no-open" in shared.frost("web", "--help").out
    for port in ("0", "abc", "65536"):
        refused = shared.frost("web", "--port", port)
        assert (refused.code, f'takes a number from 1 to 65535, not "{port}"' in refused.err) == (2, True)
    assert shared.frost("--read-only", "web").code == 2
    broken = tmp_path / "config.yaml"
    broken.write_text("contexts: [")
    result = shared.frost("web", "--no-open", "--config", str(broken))
    assert (result.code, result.out, result.err.count("Traceback")) == (2, "", 0)
