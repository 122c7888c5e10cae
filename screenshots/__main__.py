"""`python -m screenshots` makes every picture anew from the running program; `--check` tells whether any has drifted.

The application runs on a real platform with the demo world, in a home of its own. The clock stands still and the
latency shown is set, so that the same program gives the same bytes: an SVG that differs is a screen that changed.
PNG files are drawn from the SVG and are not compared.
"""

import argparse
import asyncio
import difflib
import html
import io
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.cells import cell_len

from screenshots.scenes import SCENES, Scene, text_of, until
from tests.homes import Home

FOLDER = Path(__file__).parent
CLOCK = "2026-11-21T10:05:00Z"
DEVICE = "astrid-desk"
SIZES = ((120, 36), (80, 24))


SETTLING = 20
"""How often a screen is looked at again, a tenth of a second apart, that is not as its picture."""


async def picture(scene: Scene, size: tuple[int, int], home: Home, kept: str) -> str:
    """Run the application to the scene and give its SVG: as soon as it is as `kept`, else what it has settled to."""
    from client.connection import resolve
    from tui.app import FrostApp
    from tui.launch import Launch

    (home.path / ".cli" / "state.json").unlink(missing_ok=True)
    shutil.rmtree(home.path / ".cli" / "drafts", ignore_errors=True)
    app = FrostApp(resolve(None, os.environ), Launch(), home.path / ".cli" / "state.json")
    async with app.run_test(size=size) as pilot:
        seen = "Newsroom" if not scene.person else "Web Shop"
        await until(pilot, lambda: seen in text_of(app) and app.workspace.link.state == "up", scene.name)
        if scene.theme:
            app.theme = scene.theme
        for key in scene.keys:
            if key.startswith("…"):
                await until(pilot, lambda words=key[1:]: words in text_of(app), scene.name)  # type: ignore[misc]
            else:
                await pilot.press(key)
        if scene.then is not None:
            await scene.then(pilot)
        await until(pilot, lambda: scene.wanted in text_of(app), scene.name)
        await pilot.pause(0.3)
        svg = ""
        for _ in range(SETTLING):  # a request that ends meanwhile has its own latency
            app.workspace.link.latency_ms = 4.0
            app.frame.changed("link")
            for screen in app.screen_stack:  # below a dialog as well
                if hasattr(screen, "show_facts"):
                    screen.show_facts()
            await pilot.pause(0.1)
            svg = app.export_screenshot(title="frost")
            if svg == kept:
                break
            app.screen.refresh()  # below a dialog a screen is painted on its own, and the dialog not again for it
        return svg


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m screenshots")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.add_argument("scenes", nargs="*", help="only these")
    options = parser.parse_args()
    # Sandbox must stay as it is in every picture.
    home = Home(FROST_CLOCK=CLOCK, FROST_PLATFORM_PROVISIONING_PACE="100000")
    os.environ.update({**home.environment(), "COLORTERM": "truecolor"})
    drifted, looked_at = [], 0
    try:
        home.start()
        settle(home)
        for scene in SCENES:
            if options.scenes and scene.name not in options.scenes:
                continue
            if scene.person:
                assert home.frost("login", "--as", scene.person).code == 0
            for columns, rows in SIZES:
                path = FOLDER / f"{scene.name}-{columns}x{rows}.svg"
                kept = path.read_text() if path.exists() else ""
                svg = asyncio.run(picture(scene, (columns, rows), home, kept))
                looked_at += 1
                if svg == kept:
                    continue
                drifted.append(path.name)
                sys.stdout.writelines(f"{line}\n" for line in changes(kept, svg))
                if not options.check:
                    path.write_text(svg)
                    draw(svg, path.with_suffix(".png"))
            if scene.person:
                assert home.frost("login", "--as", "owner@aurora.example").code == 0
    finally:
        home.remove()
    for name in drifted:
        sys.stdout.write(f"{name} {'differs from the program' if options.check else 'made'}\n")
    if options.check and drifted:
        sys.stdout.write("make the pictures again with: python -m screenshots\n")
        return 1
    sys.stdout.write(f"{looked_at - len(drifted)} pictures as they were\n")
    return 0


def settle(home: Home) -> None:
    """What is another in every world and on every machine is the same in pictures: the device, and keys' beginnings."""
    with sqlite3.connect(home.platform_dir / "platform.db", timeout=20) as database:
        database.execute("UPDATE sessions SET device = ? WHERE place = 'this machine'", (DEVICE,))
        database.execute("UPDATE api_keys SET key_prefix = 'fmk_' || substr(id, 1, 8)")
    database.close()


_TEXT = re.compile(r'(<text class="[^"]*" )x="([0-9.]+)"( y="[0-9.]+" )textLength="[0-9.]+"([^>]*>)([^<]*)</text>')
CELL = 12.2
FEW = 6


def _pieces(text: re.Match[str]) -> str:
    """A piece of a line as a few letters at a time, each where its first cell is."""
    head, x, y, tail, content = text.groups()
    letters = html.unescape(content)
    pieces, at = [], float(x)
    for begin in range(0, len(letters), FEW):
        piece = letters[begin : begin + FEW]
        cells = cell_len(piece)
        if piece.strip("\u00a0"):
            place = f'x="{at:.1f}"{y}textLength="{cells * CELL:.1f}"'
            pieces.append(f"{head}{place}{tail}{html.escape(piece)}</text>")
        at += cells * CELL
    return "".join(pieces)


def changes(kept: str, svg: str) -> Iterator[str]:
    """The words that differ, `-` before those of the picture."""
    before, after = ([html.unescape(text[5]) for text in _TEXT.finditer(one)] for one in (kept, svg))
    told = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    return (line for line in told if not line.startswith("@"))


def draw(svg: str, path: Path) -> None:
    """The PNG of an SVG, in the font of this machine."""
    import cairosvg
    from PIL import Image

    # A cell is 12.2 wide and a letter of Fira Code 0.6 of its size. Letters are placed on whole pixels, rounded up, so
    # that only at five times the size, and a few letters at a time, does a line end where it should.
    fitted = _TEXT.sub(_pieces, svg).replace("font-size: 20px", f"font-size: {12.18 / 0.6:.4f}px")
    large = cairosvg.svg2png(bytestring=fitted.encode(), scale=5)
    with Image.open(io.BytesIO(large)) as picture:
        picture.resize((picture.width // 5, picture.height // 5), Image.Resampling.LANCZOS).save(path, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
