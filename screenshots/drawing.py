"""Pictures of captures: a window with the lines in Fira Code, drawn on whole pixels with a small palette."""

import html
import io
from collections.abc import Iterator
from functools import lru_cache

import cairosvg
from PIL import Image, PngImagePlugin
from rich.style import Style

from screenshots.capture import Capture, Cell, Line, spans_of

CELL_WIDTH, CELL_HEIGHT, FONT_SIZE, BASELINE = 12, 24, 20, 19
"""Pixels. Fira Code is 0.6 of its size wide and 1.2 high, so cells have no gaps and letters need no rounding."""
MARGIN, TITLE_HEIGHT = 10, 40
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
        f'<g font-family="Fira Code" font-size="{FONT_SIZE}" xml:space="preserve">{"".join(_parts(line))}</g>',
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
        if letters := list(_place(cells, left)):
            places = " ".join(str(place) for place, _ in letters)
            text = html.escape("".join(letter for _, letter in letters))
            yield f'<text x="{places}" y="{BASELINE}" fill="{colour}"{_face(style)}>{text}</text>'
        for drawn, height in ((style.underline, BASELINE + 3), (style.strike, BASELINE - 6)):
            if drawn:
                yield (
                    f'<rect x="{left}" y="{height}" width="{width * CELL_WIDTH}" height="1" fill="{colour}"'
                    ' shape-rendering="crispEdges"/>'
                )


def _place(cells: list[Cell], left: int) -> Iterator[tuple[int, str]]:
    """Yield the position of every visible letter. Combining letters share one."""
    for cell in cells:
        if cell.text.strip("\u00a0 "):
            for letter in cell.text:
                yield left, letter
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
