"""The requests that `frost web` serves and refuses."""

import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from client.errors import FrostError
from tui.web.command import _listen
from tui.web.gate import COOKIE, HOST, Gate
from tui.web.server import FILES, Server

WORDS = ("/nonexistent/screens",)


class Visit:
    """A server at a port of its own, and a client that adds no headers of its own."""

    def __init__(self, server: Server, client: aiohttp.ClientSession) -> None:
        self.server = server
        self.gate = server.gate
        self._client = client
        self.token = self.gate.address.removeprefix(self.gate.origin)

    async def ask(
        self, path: str, *, method: str = "GET", cookie: str | None = None, **headers: str
    ) -> tuple[int, str, dict[str, str]]:
        """Send a request; return status, text and headers of the response."""
        headers = {"Host": self.gate.host, **headers}
        if cookie is not None:
            headers["Cookie"] = f"{COOKIE}={cookie}"
        url = URL(self.gate.origin + path, encoded=True)
        async with self._client.request(method, url, headers=headers, allow_redirects=False) as answer:
            return answer.status, (await answer.read()).decode("utf-8", "replace"), dict(answer.headers)

    async def status(self, path: str, **more: str) -> int:
        return (await self.ask(path, **more))[0]

    async def let_in(self) -> str:
        """Use the token; return the cookie."""
        status, _, headers = await self.ask(self.token)
        assert status == 200
        return headers["Set-Cookie"].partition("=")[2].partition(";")[0]

    def paths(self) -> list[str]:
        return [str(resource.canonical) for resource in self.server.app.router.resources()]


@pytest.fixture
def max_tabs() -> int:
    return 8


@pytest.fixture
async def visit(max_tabs: int) -> AsyncIterator[Visit]:
    listening = socket.create_server((HOST, 0))
    server = Server(Gate(listening.getsockname()[1]), WORDS, warn=lambda words: None, max_tabs=max_tabs)
    runner = web.AppRunner(server.app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as client:
        yield Visit(server, client)
    await runner.cleanup()


OTHERS = ("/", "/static/", "/static/js/textual.js", "/download/key", "/ws", "/socket", "/%2e%2e/")
ENTRANCES = ("/enter/", "/enter/x")


async def test_nothing_is_served_without_the_cookie(visit: Visit) -> None:
    assert len(visit.paths()) == len(FILES) + 1
    for used in (False, True):
        if used:
            await visit.let_in()
        for path in (*visit.paths(), *OTHERS, *ENTRANCES):
            for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
                for cookie in (None, "", "guessed", visit.gate.folder):
                    status, text, headers = await visit.ask(path, method=method, cookie=cookie)
                    assert status == 403, (path, method, cookie)
                    assert method == "HEAD" or (text.startswith("frost web: ") and text.count("\n") == 1)
                    assert visit.gate.folder not in text + str(headers)


async def test_with_the_cookie_only_listed_files_are_served(visit: Visit) -> None:
    cookie = await visit.let_in()
    folder = visit.gate.folder
    for name in FILES:
        status, _, headers = await visit.ask(folder + name, cookie=cookie)
        assert (status, headers["Cache-Control"], headers["X-Frame-Options"]) == (200, "no-store", "DENY")
        assert "default-src 'none'" in headers["Content-Security-Policy"]
    for path in (*OTHERS, f"{folder}x", f"{folder}..%2fgate.py", f"{folder}../"):
        assert (await visit.ask(path, cookie=cookie))[:2] == (404, "frost web: not found\n"), path
    assert await visit.status(folder, method="POST", cookie=cookie) == 405


async def test_the_token_works_once_and_is_neither_the_cookie_nor_the_folder(visit: Visit) -> None:
    path, folder = visit.token, visit.gate.folder
    for wrong in (path[:-1], path + "x", path + "/", path[:7] + path[7:].swapcase(), "/enter/%C3%A9%ff"):
        status, text, _ = await visit.ask(wrong)
        assert (status, "unknown address" in text) == (403, True)
    for method in ("HEAD", "POST"):
        assert await visit.status(path, method=method) == 403
    status, text, headers = await visit.ask(path)
    assert (status, folder in text) == (200, True)
    assert headers["Set-Cookie"].endswith(f"Path={folder}; HttpOnly; SameSite=Strict")
    cookie = headers["Set-Cookie"].partition("=")[2].partition(";")[0]
    token = path.rpartition("/")[2]
    assert len({token, cookie, folder}) == 3
    assert await visit.status(folder, cookie=token) == 403
    status, text, headers = await visit.ask(path)
    assert (status, "already used" in text, "Set-Cookie" in headers) == (403, True, False)
    assert "unknown address" in (await visit.ask(path + "x"))[1]
    # As in a second tab of the same browser: the cookie is for the folder alone.
    assert "copy the address of the first tab" in (await visit.ask("/"))[1]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        *(("Host", name) for name in ("localhost:{port}", "evil.example", "evil.example:{port}", "127.0.0.1")),
        ("Host", "[::1]:{port}"),
        *(("Origin", page) for page in ("https://evil.example", "null", "http://127.0.0.1:1", "http://localhost")),
        ("Origin", "file://"),
    ],
)
async def test_another_name_or_page_is_refused_also_with_token_and_cookie(
    visit: Visit, header: str, value: str
) -> None:
    foreign = {header: value.format(port=visit.gate.host.partition(":")[2])}
    assert await visit.status(visit.token, **foreign) == 403
    cookie = await visit.let_in()
    for path in visit.paths():
        assert await visit.status(path, cookie=cookie, **foreign) == 403
    assert await visit.status(visit.gate.folder + "socket", cookie=cookie, **foreign, **SOCKET) == 403


async def test_a_websocket_that_names_no_page_is_refused(visit: Visit) -> None:
    cookie = await visit.let_in()
    status, text, _ = await visit.ask(visit.gate.folder + "socket", cookie=cookie, **SOCKET)
    assert (status, text) == (403, "frost web: a page of frost web opens this\n")


SOCKET = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
SOCKET |= {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}


@pytest.mark.parametrize("max_tabs", [0])
async def test_more_tabs_than_there_may_be_are_closed_with_the_reason(visit: Visit) -> None:
    cookie = await visit.let_in()
    headers = {"Cookie": f"{COOKIE}={cookie}", "Origin": visit.gate.origin}
    async with (
        aiohttp.ClientSession() as client,
        client.ws_connect(f"{visit.gate.origin}{visit.gate.folder}socket", headers=headers) as tab,
    ):
        message = await tab.receive()
        assert (message.data, message.extra) == (1013, "0 tabs are open: close one")


async def test_the_server_listens_on_loopback_only() -> None:
    with _listen(None) as listening:
        host, port = listening.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(FrostError, match=f"--port {port}"):
            _listen(port)
