"""The difference of two policy documents: effect on each operation, then text."""

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice
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

CONTEXT_LINES = 3


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
        yield VerticalScroll(
            Static(Content("\n").join(difference_lines(self.before, self.after, self.effect)), markup=False)
        )
        yield hint("↑ ↓ scroll · Esc leaves")

    def first_focus(self) -> Widget:
        return self.query_one(VerticalScroll)

    def action_lines(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


def difference_lines(before: str, after: str, effect: Mapping[str, Any], most: int | None = None) -> Iterator[Content]:
    """Yield the difference: operations lost, gained and conditionally changed, then the text.

    Args:
        effect: The result of `iam/coverage` for one target, compared with `before`.
        most: Maximum operations of each kind; None for all.
    """
    moved = changes(effect)
    yield Content.styled(f"In effect, on {safe(effect.get('target', '*'))}", "bold $text-accent")
    if effect.get("problem"):
        yield Content.styled(f"  not known: {safe(effect['problem'])}", "$text-warning")
    elif not any(moved):
        yield Content.styled("  the same operations as before" if before else "  nothing is gained", "$text-muted")
    else:
        counted = [(f"+{len(moved.gained):,} gained", "$text-success")] if moved.gained else []
        counted += [(f"−{len(moved.lost):,} lost", "$text-error")] if moved.lost else []
        counted += [(f"~{moved.conditional}", "$text-warning")] if moved.under else []
        yield Content("  ") + Content(", ").join(Content.styled(*one) for one in counted)
    yield from _named(moved.lost, "−", "$text-error", most)
    yield from _named(moved.gained, "+", "$text-success", most)
    yield from _named(moved.under, "~", "$text-warning", most)
    yield Content("")
    yield Content.styled("In text", "bold $text-accent")
    yield from text_lines(before, after)


def _named(operations: Mapping[str, str], sign: str, tone: str, most: int | None) -> Iterator[Content]:
    for operation, note in islice(operations.items(), most):
        remark = (f"  {note}", "$text-muted") if note else ""
        yield Content.assemble((f"  {sign} ", f"bold {tone}"), safe(operation), remark)
    if most is not None and len(operations) > most:
        yield Content.styled(f"  {sign} and {len(operations) - most:,} more", tone)


def text_lines(before: str, after: str) -> Iterator[Content]:
    """Yield a unified diff of the texts, with signs and colours."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT_LINES))[2:]
    if not lines:
        yield Content.styled("  the same document", "$text-muted")
    for line in lines:
        sign, text = line[:1], safe(line[1:])
        if sign == "@":
            if before:  # a new document has a single hunk, from line 1
                yield Content.styled(f"  … line {line.split('+')[-1].split(',')[0].rstrip(' @')}", "$text-muted")
        elif sign in "+-":
            tone = "$text-success" if sign == "+" else "$text-error"
            yield Content.styled(f"  {'−' if sign == '-' else sign} {text}", tone)
        else:
            yield Content.styled(f"    {text}", "$text-muted")
