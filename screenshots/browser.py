"""`python -m screenshots.browser` makes the picture of the screens in a browser, where Chromium is installed.

Chromium draws it with the fonts of this machine and its own version, so it is made when somebody asks and not compared.
"""

import asyncio
import os
import sys
from pathlib import Path

from screenshots.__main__ import CLOCK, settle
from tests.homes import Home
from tests.web.browser import CHROMIUM, MISSING, chromium
from tests.web.serving import serving

PICTURE = Path(__file__).parent / "browser.png"


async def picture(home: Home) -> bytes:
    """The policy editor in a tab, a denied request in it."""
    with serving(home) as server:
        async with chromium(1200, 760) as browser:
            tab = await browser.tab()
            await tab.open(server.address)
            await tab.expect("Data Lake")
            await tab.press("2")
            await tab.expect("deployments")
            await tab.press("enter")
            await tab.expect("within what you hold")
            await tab.press("f3", *["backspace"] * len("compute:instances:read"))
            await tab.type("compute:instances:delete")
            await tab.expect("× DENIED")
            await tab.press("escape")
            await asyncio.sleep(1)  # its completion goes, and the canvas is drawn
            return await tab.picture()


def main() -> int:
    if not CHROMIUM:
        sys.stderr.write(f"{MISSING}\n")
        return 1
    home = Home(FROST_CLOCK=CLOCK, FROST_PLATFORM_PROVISIONING_PACE="100000")
    os.environ.update(home.environment())
    try:
        home.start()
        settle(home)
        PICTURE.write_bytes(asyncio.run(picture(home)))
    finally:
        home.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
