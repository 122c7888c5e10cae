"""Why an account cannot be deleted yet, and what to do: somebody else must own its organizations first."""

from collections.abc import Mapping, Sequence
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Static

from client.text import cut, safe
from tui.widgets.dialog import Dialog, hint

NAMED = 8
"""Organizations that are named one by one."""


class LastOwner(Dialog[None]):
    """Only tells; nothing was deleted (checklist A07)."""

    DEFAULT_CSS = "LastOwner > .dialog { width: 72; } LastOwner .last--names { margin: 1 0; }"

    def __init__(self, organizations: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        self.organizations = organizations

    def title_text(self) -> str:
        return "Your account stays"

    def content(self) -> ComposeResult:
        yield Static("Nothing was deleted: you are the last owner of", markup=False)
        lines = [cut(f"· {safe(one.get('name'))}  {safe(one.get('id'))}", 66) for one in self.organizations[:NAMED]]
        if len(self.organizations) > NAMED:
            lines.append(f"· and {len(self.organizations) - NAMED:,} more")
        yield Static(Content("\n".join(lines)), classes="last--names", markup=False)
        yield Static("and others belong to it. Have one of them made an owner, then delete the account.", markup=False)
        yield Horizontal(Button("Understood", id="understood", variant="primary"), classes="dialog--buttons")
        yield hint("Enter or Esc goes back")

    def first_focus(self) -> Widget:
        return self.query_one(Button)

    @on(Button.Pressed)
    def _pressed(self) -> None:
        self.dismiss(None)
