"""`python -m screenshots.browser` draws the application in a browser. It requires Chromium.

The pixels depend on the fonts and the Chromium version of the machine, so they are not compared. The text of the page
must equal a capture, and `python -m screenshots --check` reports the picture once that capture changes.
"""

import asyncio
import difflib
import io
import math
import re
import sys
import time

from PIL import Image

from screenshots.application import demo_home
from screenshots.capture import Capture
from screenshots.drawing import write_png
from screenshots.pictures import BROWSER_PICTURE, FOLDER
from screenshots.scenes import DELETE_REQUEST
from tests.homes import Home
from tests.web.browser import CHROMIUM, MISSING, Tab, chromium
from tests.web.serving import serving

WAIT_SECONDS = 60
MAX_LATENCY_MS = 50
_LATENCY = re.compile(r" *● connected (\d+) ms")
_CELL_SIZE = "(cell => [cell.width, cell.height])(terminalOfTest._core._renderService.dimensions.css.cell)"


async def show_terminal(tab: Tab, columns: int, rows: int, address: str) -> None:
    """Open the application, and fit the page to this number of cells."""

    async def resize(width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await tab.ask("Emulation.setDeviceMetricsOverride", **size)

    await resize(1200, 760)
    await tab.open(address)
    await tab.expect("Data Lake")
    width, height = await tab.value(_CELL_SIZE)
    await resize(math.ceil(width * columns), math.ceil(height * rows))
    # A terminal that was larger would keep hidden columns of its lines, so a new one begins at the right size.
    await tab.value("window.terminalOfTest = null")
    await tab.ask("Page.reload")
    await tab.expect("Data Lake")


async def wait_for_text(tab: Tab, text: str) -> None:
    """Wait for the text of a capture, with any small latency. Exit with the difference if the text stays another."""
    end = time.monotonic() + WAIT_SECONDS
    expected = _LATENCY.sub("", text)
    while True:
        shown = "\n".join(line.rstrip(" ") for line in (await tab.text()).split("\n"))
        latency = _LATENCY.search(shown)
        if latency and int(latency[1]) <= MAX_LATENCY_MS and _LATENCY.sub("", shown) == expected:
            return
        if time.monotonic() > end:
            lines = difflib.unified_diff(text.split("\n"), shown.split("\n"), "the capture", "the browser", n=0)
            sys.exit("\n".join(lines))
        await asyncio.sleep(0.2)


async def take_picture(home: Home, capture: Capture) -> bytes:
    """Return a PNG of a browser tab with the policy editor and a denied request."""
    with serving(home) as server:
        async with chromium() as browser:
            tab = await browser.tab()
            await show_terminal(tab, capture.width, len(capture.lines), server.address)
            await tab.press("2")
            await tab.expect("deployments")
            await tab.press("enter")
            await tab.expect("within your permissions")
            await tab.press(*DELETE_REQUEST)
            await tab.expect("× DENIED")
            await tab.press("escape")
            await wait_for_text(tab, capture.text)
            await asyncio.sleep(1)  # until the canvas is drawn
            return await tab.picture()


def main() -> int:
    if not CHROMIUM:
        sys.stderr.write(f"{MISSING}\n")
        return 1
    capture = FOLDER.capture_of(BROWSER_PICTURE)
    if capture is None:
        sys.stderr.write("capture the screen first with: python -m screenshots\n")
        return 1
    with demo_home() as home:
        png = asyncio.run(take_picture(home, capture))
    with Image.open(io.BytesIO(png)) as image:
        (FOLDER.path / BROWSER_PICTURE).write_bytes(write_png(image.convert("RGB"), capture.digest))
    return 0


if __name__ == "__main__":
    sys.exit(main())
