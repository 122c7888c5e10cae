"""Who calls, in a few lines above a list: label and value."""

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from client.text import cut, safe


class Profile(Static):
    """`show` takes (label, value) lines; each stays on its line."""

    DEFAULT_CSS = "Profile { height: auto; padding: 0 1 0 2; margin-bottom: 1; }"

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self._facts: Sequence[tuple[str, str]] = ()

    def show(self, facts: Sequence[tuple[str, str]]) -> None:
        self._facts = facts
        self._paint()

    def on_resize(self) -> None:
        self._paint()

    def _paint(self) -> None:
        label = max((len(name) for name, _ in self._facts), default=0)
        room = max(0, self.content_size.width - label - 2)
        self.update(
            Content("\n").join(
                Content.assemble((f"{name:<{label}}  ", "$text-muted"), cut(safe(value), room) if room else safe(value))
                for name, value in self._facts
            )
        )
