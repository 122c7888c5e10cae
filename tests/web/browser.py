"""A real browser for tests and pictures: headless Chromium, driven over its debugging protocol.

The text is read from the buffer of xterm.js, because the page has only a canvas.
"""

import asyncio
import base64
import contextlib
import os
import shutil
import signal
import tempfile
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
MISSING = "no Chromium on this machine: apt-get install chromium"
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--no-proxy-server", "--remote-debugging-port=0", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)  # fmt: skip

# The terminal is a local variable of its script; it can be reached only when the script sets its addon.
_REACH = """Object.defineProperty(Object.prototype, 'fitAddon', {configurable: true, set(addon) {
  if (this.terminal) window.terminalOfTest = this.terminal;
  Object.defineProperty(this, 'fitAddon', {value: addon, writable: true, configurable: true, enumerable: true});
}});"""
_LINES = """(() => { const t = window.terminalOfTest; if (!t) return '';
  const b = t.buffer.active, lines = [];
  for (let i = 0; i < t.rows; i++) lines.push(b.getLine(b.viewportY + i).translateToString(true));
  return lines.join('\\n'); })()"""

# Name -> key, code, number and text.
_KEYS: Mapping[str, tuple[str, str, int, str]] = {
    "enter": ("Enter", "Enter", 13, "\r"),
    "escape": ("Escape", "Escape", 27, ""),
    "tab": ("Tab", "Tab", 9, ""),
    "backspace": ("Backspace", "Backspace", 8, ""),
    "up": ("ArrowUp", "ArrowUp", 38, ""),
    "down": ("ArrowDown", "ArrowDown", 40, ""),
    "left": ("ArrowLeft", "ArrowLeft", 37, ""),
    "right": ("ArrowRight", "ArrowRight", 39, ""),
    "end": ("End", "End", 35, ""),
    **{f"f{number}": (f"F{number}", f"F{number}", 111 + number, "") for number in range(1, 13)},
}


def _character(character: str) -> tuple[str, str, int, str]:
    """Return name, code, number and text of the key of a character; a symbol has only its text."""
    if character.isascii() and character.isalnum():
        area = "Digit" if character.isdigit() else "Key"
        return character, f"{area}{character.upper()}", ord(character.upper()), character
    return character, "", 0, character


class Tab:
    """One page, over its own connection to the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, target: str) -> None:
        self.target = target
        self.requested: list[str] = []
        """The addresses of all requests of the page."""
        self.errors: list[str] = []
        """Errors of the page's scripts and of its policy."""
        self._socket = socket
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            event = message.json()
            if "id" in event:
                self._answers.pop(event["id"]).set_result(event)
                continue
            match event["method"], event["params"]:
                case "Network.requestWillBeSent", {"request": {"url": url}}:
                    self.requested.append(url)
                case "Network.webSocketCreated", {"url": url}:
                    self.requested.append(url)
                case "Runtime.exceptionThrown", {"exceptionDetails": details}:
                    self.errors.append(str(details.get("exception", details).get("description", details)))
                case "Log.entryAdded", {"entry": {"level": "error", "text": text, "source": source}}:
                    self.errors.append(f"{source}: {text}")
                case "Page.javascriptDialogOpening", _:
                    self._agreeing = asyncio.create_task(self.ask("Page.handleJavaScriptDialog", accept=True))

    async def ask(self, method: str, **parameters: Any) -> Any:
        """Send a command of the protocol; return its result."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        response = await asyncio.wait_for(answer, 60)
        assert "error" not in response, response
        return response["result"]

    async def begin(self) -> None:
        for area in ("Page", "Network", "Runtime", "Log"):
            await self.ask(f"{area}.enable")
        await self.ask("Page.addScriptToEvaluateOnNewDocument", source=_REACH)

    async def open(self, address: str) -> None:
        """Go to an address; `expect` waits for its contents."""
        await self.ask("Page.navigate", url=address)

    async def value(self, script: str) -> Any:
        """Evaluate an expression on the page; a promise is awaited."""
        result = await self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def text(self) -> str:
        """The text of the terminal, or of the page while it has no terminal."""
        return str(await self.value(_LINES) or await self.value("document.body ? document.body.innerText : ''"))

    async def expect(self, *texts: str, seconds: float = 60) -> str:
        """Wait until all texts are shown; return the screen."""
        until = time.monotonic() + seconds
        while True:
            with contextlib.suppress(AssertionError):  # between two pages there is nothing to ask
                shown = await self.text()
                if all(text in shown for text in texts):
                    return shown
            assert time.monotonic() < until, f"{texts} never came; it showed:\n{await self.text()}\n{self.errors}"
            await asyncio.sleep(0.1)

    async def press(self, *names: str) -> None:
        """Keys by name, `ctrl+o` and the like; anything else is typed."""
        for name in names:
            plain = name.removeprefix("ctrl+")
            held = 2 if plain != name else 0
            key, code, number, text = _KEYS.get(plain) or _character(plain)
            event = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": held}
            if text and not held:
                event["text"] = text
            await self.ask("Input.dispatchKeyEvent", type="keyDown" if "text" in event else "rawKeyDown", **event)
            await self.ask("Input.dispatchKeyEvent", type="keyUp", **event)

    async def type(self, text: str) -> None:
        await self.press(*text)

    async def picture(self) -> bytes:
        return base64.b64decode((await self.ask("Page.captureScreenshot", format="png"))["data"])

    async def close(self) -> None:
        """Close the tab without a question."""
        await self.ask("Page.close")


class Browser:
    """A running Chromium with a profile of its own."""

    def __init__(self, process: Process, port: int, session: aiohttp.ClientSession) -> None:
        self.process = process
        self._origin = f"http://127.0.0.1:{port}"
        self._session = session

    async def tab(self) -> Tab:
        async with self._session.put(f"{self._origin}/json/new?about:blank") as answer:
            target = await answer.json()
        tab = Tab(await self._session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0), target["id"])
        await tab.begin()
        return tab

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)


@contextlib.asynccontextmanager
async def chromium(width: int = 1200, height: int = 760) -> AsyncIterator[Browser]:
    """A browser with a new profile, which is removed at the end."""
    profile = Path(tempfile.mkdtemp(prefix="frost-browser-"))
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank",
        stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        port = profile / "DevToolsActivePort"
        until = time.monotonic() + 60
        while not port.exists() or not port.read_text().strip():
            assert time.monotonic() < until, "Chromium did not start"
            assert process.returncode is None, f"Chromium ended with {process.returncode}"
            await asyncio.sleep(0.05)
        async with aiohttp.ClientSession() as session:
            yield Browser(process, int(port.read_text().split()[0]), session)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        shutil.rmtree(profile, ignore_errors=True)
