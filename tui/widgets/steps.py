"""The steps of an operation, one a line: what is done, what is at work, what is tried again and why."""

from collections.abc import Mapping, Sequence
from typing import Any

from textual.content import Content
from textual.widgets import Static

from client.text import safe

# A sign and a tone for each state; an unfamiliar state is shown as sent, with neither (checklist G45).
SIGNS = {
    "completed": ("✓", "$text-success"),
    "running": ("►", "$text-accent"),
    "retrying": ("!", "$text-warning"),
    "failed": ("×", "$text-error"),
    "pending": ("·", "$text-muted"),
}


class Steps(Static):
    """`show` takes the `steps` member of an operation: name, status, attempts and error of each."""

    DEFAULT_CSS = "Steps { height: auto; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__("", id=id, classes=classes, markup=False)

    def show(self, steps: Sequence[Mapping[str, Any]]) -> None:
        names = [safe(str(step.get("name", "")).replace("_", " ")) for step in steps]
        longest = max(map(len, names), default=0)
        self.update(
            Content("\n").join(_line(step, f"{name:<{longest}}") for step, name in zip(steps, names, strict=True))
        )


def _line(step: Mapping[str, Any], name: str) -> Content:
    status = str(step.get("status", ""))
    sign, tone = SIGNS.get(status, (" ", "$foreground"))
    words = safe(status)
    attempts = step.get("attempts") or 0
    if status in ("retrying", "failed") and attempts:
        words += f", attempt {attempts}"
    parts = [(f"{sign} ", tone), (name, "$foreground"), (f"  {words}", tone)]
    if step.get("error") and status != "completed":
        parts.append((f"  {safe(step['error'])}", "$text-muted"))
    return Content.assemble(*parts)
