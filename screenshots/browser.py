"""`python -m screenshots.browser` draws the application in a browser. It requires Chromium.

The picture depends on the fonts and the Chromium version of the machine, so it is drawn on demand and not compared.
"""

import asyncio
import io
import sys
from pathlib import Path

from PIL import Image

from screenshots.application import demo_home
from screenshots.drawing import write_png
from tests.homes import Home
from tests.web.browser import CHROMIUM, MISSING, chromium
from tests.web.serving import serving

PICTURE = Path(__file__).parent / "browser.png"


async def take_picture(home: Home) -> bytes:
    """Return a PNG of a browser tab with the policy editor and a denied request."""
    with serving(home) as server:
        async with chromium(1200, 760) as browser:
            tab = await browser.tab()
            await tab.open(server.address)
            await tab.expect("Data Lake")
            await tab.press("2")
            await tab.expect("deployments")
            await tab.press("enter")
            await tab.expect("within your permissions")
            await tab.press("f3", *["backspace"] * len("compute:instances:read"))
            await tab.type("compute:instances:delete")
            await tab.expect("× DENIED")
            await tab.press("escape")
            await asyncio.sleep(1)  # until the completion is closed and the canvas is drawn
            return await tab.picture()


def main() -> int:
    if not CHROMIUM:
        sys.stderr.write(f"{MISSING}\n")
        return 1
    with demo_home() as home:
        png = asyncio.run(take_picture(home))
    with Image.open(io.BytesIO(png)) as image:
        PICTURE.write_bytes(write_png(image.convert("RGB")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
