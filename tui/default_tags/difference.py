"""Lines that show the difference of two sets of tags in dialogs."""

from collections.abc import Collection

from textual.content import Content

from client.tables.default_tags import TagChanges
from client.text import cut, safe

LONGEST = 120  # cells of a value
TONES = {"+": "$text-success", "~": "$text-warning", "−": "$text-error"}


def difference_lines(changes: TagChanges, marked: Collection[str] = ()) -> list[Content]:
    """Return lines by key: `+ key = value`, `~ key = new  was old`, `− key = value`. `marked` keys are in conflict."""
    lines: dict[str, Content] = {}
    for sign, tags in (("+", changes.added), ("−", changes.removed)):
        for key, value in tags.items():
            lines[key] = _line(sign, key, value, "", key in marked)
    for key, (before, after) in changes.changed.items():
        lines[key] = _line("~", key, after, f"  was {_value(before)}", key in marked)
    return [lines[key] for key in sorted(lines)]


def _line(sign: str, key: str, value: str, was: str, marked: bool) -> Content:
    line = Content.assemble((f"{sign} ", f"bold {TONES[sign]}"), (safe(key), "bold"), (" = ", "$text-muted"))
    line += Content.assemble(_value(value), (was, "$text-muted"))
    return line + Content.styled("  ! both changed it", "$text-warning") if marked else line


def _value(value: str) -> str:
    return cut(safe(value), LONGEST) or "(empty)"
