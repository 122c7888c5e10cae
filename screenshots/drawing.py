"""Pictures of captures: a window with the lines in Fira Code, drawn on whole pixels with a small palette.

`fc-list`, of the Debian package `fontconfig`, finds a font for each symbol.
"""

import html
import io
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

import cairosvg
from PIL import Image, PngImagePlugin
from rich.style import Style

from screenshots.capture import Capture, Cell, Line, spans_of

CELL_WIDTH, CELL_HEIGHT, FONT_SIZE, BASELINE = 12, 24, 20, 19
"""Pixels. Fira Code is 0.6 of its size wide and 1.2 high, so cells have no gaps and letters need no rounding."""
MARGIN, TITLE_HEIGHT = 10, 40
FONT, SYMBOL_FONT = "Fira Code", "DejaVu Sans Mono"
"""The font, and the one for letters that it lacks. Cells of both have the same width."""
MISDRAWN = frozenset("✓∅")
"""Letters that Fira Code draws like others: `✓` like a root sign, `∅` like `ø`."""
BLOCKS = {"█": (0, CELL_HEIGHT), "▀": (0, CELL_HEIGHT // 2), "▄": (CELL_HEIGHT // 2, CELL_HEIGHT // 2)}
"""Top and height of the letters that are drawn as rectangles. The letters would leave gaps between lines."""
DIGEST = "Capture"
"""Key of the PNG text that contains the digest of the capture."""
FRAME = "#292929"
LIGHTS = ("#ff5f57", "#febc2e", "#28c840")


def draw_image(capture: Capture, title: str = "frost") -> Image.Image:
    """Return the picture of a window with the capture, in full colour."""
    window = _draw_window(capture.width * CELL_WIDTH, len(capture.lines) * CELL_HEIGHT, title).copy()
    for row, line in enumerate(capture.lines):
        window.paste(_draw_line(line), (MARGIN, TITLE_HEIGHT + row * CELL_HEIGHT))
    return window


def _draw(width: int, height: int, content: str) -> Image.Image:
    """Render SVG elements."""
    document = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">{content}</svg>'
    with Image.open(io.BytesIO(cairosvg.svg2png(bytestring=document.encode()))) as image:
        return image.convert("RGB")


@lru_cache
def _draw_window(inner_width: int, inner_height: int, title: str) -> Image.Image:
    """Return the window frame for contents of this size in pixels."""
    width, height = inner_width + 2 * MARGIN, inner_height + TITLE_HEIGHT + MARGIN
    lights = "".join(
        f'<circle cx="{24 + 22 * at}" cy="{TITLE_HEIGHT // 2}" r="7" fill="{colour}"/>'
        for at, colour in enumerate(LIGHTS)
    )
    return _draw(
        width,
        height,
        f'<rect width="{width}" height="{height}" fill="{FRAME}"/>{lights}'
        f'<text x="{width // 2}" y="{TITLE_HEIGHT // 2 + 6}" text-anchor="middle" font-family="DejaVu Sans"'
        f' font-weight="bold" font-size="17" fill="#c5c8c6">{html.escape(title)}</text>',
    )


@lru_cache(maxsize=4096)
def _draw_line(line: Line) -> Image.Image:
    """Return one line. Lines are cached, because most of them are equal in successive frames of an animation."""
    width = sum(cell.width for cell in line) * CELL_WIDTH
    return _draw(
        width,
        CELL_HEIGHT,
        f'<g font-family="{FONT}" font-size="{FONT_SIZE}" xml:space="preserve">{"".join(_parts(line))}</g>',
    )


def _parts(line: Line) -> Iterator[str]:
    """Yield the backgrounds of a line, then its letters, each at its own column."""
    spans = [(column * CELL_WIDTH, width, Style.parse(style), cells) for column, width, style, cells in spans_of(line)]
    for left, width, style, _ in spans:
        yield (
            f'<rect x="{left}" y="0" width="{width * CELL_WIDTH}" height="{CELL_HEIGHT}"'
            f' fill="{_colours(style)[1]}" shape-rendering="crispEdges"/>'
        )
    for left, width, style, cells in spans:
        colour = _colours(style)[0]
        for place, (top, height) in _place_blocks(cells, left):
            yield (
                f'<rect x="{place}" y="{top}" width="{CELL_WIDTH}" height="{height}" fill="{colour}"'
                f'{_face(style)} shape-rendering="crispEdges"/>'
            )
        for font, group in groupby(_place(cells, left), key=lambda placed: font_of(placed[1])):
            letters = list(group)
            places = " ".join(str(place) for place, _ in letters)
            text = html.escape("".join(letter for _, letter in letters))
            family = f' font-family="{font}"' if font != FONT else ""
            yield f'<text x="{places}" y="{BASELINE}" fill="{colour}"{family}{_face(style)}>{text}</text>'
        for drawn, height in ((style.underline, BASELINE + 3), (style.strike, BASELINE - 6)):
            if drawn:
                yield (
                    f'<rect x="{left}" y="{height}" width="{width * CELL_WIDTH}" height="1" fill="{colour}"'
                    ' shape-rendering="crispEdges"/>'
                )


@lru_cache
def font_of(letter: str) -> str:
    """Return the font that draws a letter. Raise ValueError if both fonts lack it."""
    if letter.isascii():
        return FONT
    command = ["fc-list", f":charset={ord(letter):x}", "family"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  (one letter)
    families = {family for line in listed.stdout.splitlines() for family in line.split(",")}
    fonts = (SYMBOL_FONT,) if letter in MISDRAWN else (FONT, SYMBOL_FONT)
    font = next((font for font in fonts if font in families), None)
    if font is None:
        raise ValueError(f"no font draws U+{ord(letter):04X} {letter}: install fonts-firacode and fonts-dejavu-core")
    return font


def _place(cells: list[Cell], left: int) -> Iterator[tuple[int, str]]:
    """Yield the position of every visible letter except blocks. Combining letters share one."""
    for cell in cells:
        if cell.text.strip("\u00a0 ") and cell.text not in BLOCKS:
            for letter in cell.text:
                yield left, letter
        left += cell.width * CELL_WIDTH


def _place_blocks(cells: list[Cell], left: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the position of every block, with its top and height."""
    for cell in cells:
        if cell.text in BLOCKS:
            yield left, BLOCKS[cell.text]
        left += cell.width * CELL_WIDTH


def _colours(style: Style) -> tuple[str, str]:
    """Return the foreground and the background colour."""
    foreground, background = (
        colour.get_truecolor().hex if colour is not None and not colour.is_default else default
        for colour, default in ((style.color, "#c5c8c6"), (style.bgcolor, "#12161c"))
    )
    return (background, foreground) if style.reverse else (foreground, background)


def _face(style: Style) -> str:
    return (
        (' font-weight="bold"' if style.bold else "")
        + (' font-style="italic"' if style.italic else "")
        + (' opacity="0.6"' if style.dim else "")
    )


def reduce_colours(image: Image.Image, colours: int = 256) -> Image.Image:
    """Return the picture with a palette. Each colour component changes by at most a few of 256 steps."""
    return image.quantize(colours, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)


def write_png(image: Image.Image, digest: str = "") -> bytes:
    """Return a PNG file with a palette and the digest of a capture."""
    text = PngImagePlugin.PngInfo()
    text.add_text(DIGEST, digest)
    content = io.BytesIO()
    reduce_colours(image).save(content, "PNG", optimize=True, pnginfo=text)
    return content.getvalue()


def draw_png(capture: Capture) -> bytes:
    return write_png(draw_image(capture), capture.digest)


def digest_of(png: bytes) -> str:
    """Return the digest of the capture in a PNG file; empty if the file has none."""
    with Image.open(io.BytesIO(png)) as image:
        return str(image.info.get(DIGEST, ""))
