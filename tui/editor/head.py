"""The line above the text: which policy is edited, in which version, and whether what is typed is stored."""

from textual.content import Content
from textual.widget import Widget

from client.text import safe
from tui.editor.draft import Draft

NAME = 12
"""Cells that what is edited has at least, whatever is said of saving."""


class Head(Widget):
    """Laid out for the width there is, each time it is painted."""

    DEFAULT_CSS = """
    Head { height: 1; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._left = Content("")
        self._right = Content("")

    def show(self, draft: Draft, changed: bool, saving: str, tenant: str = "") -> None:
        """Take what is edited, whether it differs from what is stored, and what saving is at, if anything.

        `tenant` is the one it belongs to, where the header names another one.
        """
        stored = saving or ("● not saved" if changed or not draft.version else "saved")
        self._right = Content.styled(safe(stored), "$text-warning" if changed or saving else "$text-muted")
        name = safe(draft.name) or "(no name yet)"
        state = f"  version {draft.version}" if draft.version else "  new"
        where = f"  in {safe(tenant)}" if tenant else ""
        self._left = Content.assemble(
            ("Policy  ", "$text-muted"), (name, "bold"), (state, "$text-muted"), (where, "$text-warning")
        )
        self.refresh()

    def render(self) -> Content:
        cells = self.content_size.width
        right = self._right.truncate(max(0, cells - NAME), ellipsis=True)
        left = self._left.truncate(max(0, cells - right.cell_length - 1), ellipsis=True)
        return left.pad_right(max(0, cells - left.cell_length - right.cell_length)) + right
