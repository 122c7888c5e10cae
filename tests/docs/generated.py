"""The generated parts of the documents: all that follows a marker line in a file."""

from collections.abc import Callable
from typing import NamedTuple

from tests.docs import commands, keys
from tests.docs.pages import ROOT

MARKER = "<!-- All that follows is written by `python -m tests.docs`. -->"


class Generated(NamedTuple):
    """A file of docs/ and what renders its generated part."""

    name: str
    render: Callable[[], str]

    def current(self) -> str:
        return (ROOT / "docs" / self.name).read_text()

    def expected(self) -> str:
        """Return the text of the file with its generated part rendered again. Raises ValueError without a marker."""
        written, marker, _ = self.current().partition(f"{MARKER}\n")
        if not marker:
            raise ValueError(f"docs/{self.name} has no line {MARKER}")
        return f"{written}{MARKER}\n\n{self.render()}"


PARTS = (Generated("commands.md", commands.render), Generated("screens.md", keys.render))
