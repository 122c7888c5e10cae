"""The difference of two policy documents: effect on each operation, then text."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from client.text import safe
from client.texts.effects import changes
from tui.widgets.dialog import Dialog, hint

CONTEXT_LINES = 2


class Difference(Dialog[None]):
    """Compares a newer document with an older one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "lines(1)", show=False),
        Binding("k", "lines(-1)", show=False),
        Binding("enter,q", "cancel", show=False),
    ]
    DEFAULT_CSS = """
    Difference {
        & > .dialog { width: 100; height: 90%; }
        VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; }
        VerticalScroll > Static { height: auto; }
    }
    """
    LISTENS_AT_ONCE = True

    def __init__(self, title: str, before: str, after: str, effect: Mapping[str, Any]) -> None:
        """`effect` is the result of `iam/coverage` for one target, compared with `before`."""
        super().__init__()
        self._title = title
        self.before, self.after = before, after
        self.effect = effect

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        yield VerticalScroll(Static(Content("\n").join(self._lines()), markup=False))
        yield hint("↑ ↓ scroll · Esc close")

    def first_focus(self) -> Widget:
        return self.query_one(VerticalScroll)

    def _lines(self) -> Iterator[Content]:
        moved = changes(self.effect)
        target = self.effect.get("target", "*")
        yield Content.styled(f"In effect on {safe(target)}", "bold $text-accent")
        if not any(moved):
            yield Content.styled("The same operations as before.", "$text-muted")
        else:
            counts = ((len(moved.gained), "gained"), (len(moved.lost), "lost"))
            certain = ", ".join(f"{count:,} {words}" for count, words in counts if count)
            yield Content(" · ".join(filter(None, (certain, moved.words))))
            yield from _marked(moved.lost, "−", "$text-error")
            yield from _marked(moved.gained, "+", "$text-success")
            yield from _marked(moved.under, "~", "$text-warning")
        yield Content("")
        yield Content.styled("In text", "bold $text-accent")
        found = list(
            difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), lineterm="", n=CONTEXT_LINES)
        )
        if not found:
            yield Content.styled("The same document.", "$text-muted")
        yield from map(_text_line, found[2:])

    def action_lines(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


def _marked(operations: Mapping[str, str], sign: str, tone: str) -> Iterator[Content]:
    for operation, note in operations.items():
        said = (f"  {note}", "$text-muted") if note else ""
        yield Content.assemble((f"{sign} ", f"bold {tone}"), safe(operation), said)


def _text_line(line: str) -> Content:
    sign, text = line[:1], safe(line[1:])
    if sign == "@":
        return Content.styled("⋯", "$text-muted")
    tone = {"+": "$text-success", "-": "$text-error"}.get(sign)
    shown = {"-": "−"}.get(sign, sign)
    return Content.styled(f"{shown} {text}", tone) if tone else Content.styled(f"  {text}", "$text-muted")
