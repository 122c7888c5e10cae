"""The dark and the light theme, with one accent colour, and the choice between them.

Colour never carries meaning alone: states have a sign and a word as well. NO_COLOR selects the terminal's own colours
and shows the cursor line in reverse.
"""

from collections.abc import Mapping

from textual.theme import Theme


def _scrollbars(bar: str, track: str) -> dict[str, str]:
    """Return the colours of scroll bars, whose track is as the panel."""
    bars = dict.fromkeys(("scrollbar", "scrollbar-hover", "scrollbar-active"), bar)
    tracks = (
        "scrollbar-background",
        "scrollbar-background-hover",
        "scrollbar-background-active",
        "scrollbar-corner-color",
    )
    return bars | dict.fromkeys(tracks, track)


DARK = Theme(
    name="frost-dark",
    dark=True,
    primary="#5fb3d4",
    secondary="#5fb3d4",
    accent="#5fb3d4",
    foreground="#d8dee6",
    background="#12161c",
    surface="#12161c",
    panel="#1a2028",
    success="#7fc08a",
    warning="#dcb268",
    error="#e0777d",
    # Textual's `auto` colours need a background to blend with, which a span of text does not have.
    variables={
        **_scrollbars("#3a4552", "#1a2028"),
        "border": "#2a323d",
        "block-cursor-background": "#27404d",
        "block-cursor-foreground": "#d8dee6",
        "block-cursor-blurred-background": "#27404d",
        "block-cursor-blurred-foreground": "#d8dee6",
        "text-muted": "#9ea9b6",
        "text-disabled": "#7d8894",
        "text-accent": "#7cc4e2",
        "text-success": "#8fcb99",
        "text-warning": "#e0bb78",
        "text-error": "#ea9095",
    },
)

LIGHT = Theme(
    name="frost-light",
    dark=False,
    primary="#0f6e93",
    secondary="#0f6e93",
    accent="#0f6e93",
    foreground="#232a31",
    background="#fbfcfd",
    surface="#fbfcfd",
    panel="#edf1f4",
    success="#2c7a3d",
    warning="#8a5a00",
    error="#b3262e",
    variables={
        **_scrollbars("#c9d2da", "#edf1f4"),
        "border": "#c9d2da",
        "block-cursor-background": "#cfe2ea",
        "block-cursor-foreground": "#232a31",
        "block-cursor-blurred-background": "#cfe2ea",
        "block-cursor-blurred-foreground": "#232a31",
        "text-muted": "#566069",
        "text-disabled": "#76808a",
        "text-accent": "#0d6284",
        "text-success": "#23692f",
        "text-warning": "#7d5200",
        "text-error": "#a3222a",
    },
)

PLAIN = "ansi-dark"
"""Textual's theme of the terminal's own colours."""


def choose(environ: Mapping[str, str], remembered: str, no_color: bool = False) -> str:
    """Return the initial theme: the terminal's colours under NO_COLOR, else the last theme, else dark or light."""
    if no_color or environ.get("NO_COLOR"):
        return PLAIN
    if remembered in (DARK.name, LIGHT.name):
        return remembered
    # rxvt, Konsole and iTerm set COLORFGBG to `foreground;background`; 7 and 15 are light.
    return LIGHT.name if environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15") else DARK.name


def other(name: str) -> str:
    """Return the theme to switch to. The terminal's own colours have no other."""
    return {DARK.name: LIGHT.name, LIGHT.name: DARK.name}.get(name, name)
