"""The verdict on the draft: decision, reason, author check, and changed operations."""

import textwrap
from collections.abc import Mapping
from typing import Any

from textual.content import Content
from textual.widget import Widget

from client.errors import Exit
from client.text import cut, safe, width
from client.texts.effects import changes
from tui.iam.editor import evaluation
from tui.iam.editor.evaluation import Findings

AUTHOR = {
    "within": ("✓", "$text-success", "within what you hold"),
    "beyond": ("×", "$text-error", "beyond what you hold"),
    "undecided": ("?", "$text-warning", "undecided, so it would be refused"),
}
ROOM = 5
MOST_TOLD = 3
"""Maximum lines of a problem."""


class Verdict(Widget):
    """Five lines next to the text or, on a narrow screen, decision and reason below it."""

    DEFAULT_CSS = """
    Verdict { height: 5; padding: 0 1; color: $foreground; background: $panel; }
    """

    def __init__(self, found: Findings, *, lines: int = ROOM, id: str | None = None) -> None:
        super().__init__(id=id)
        self.found = found
        self.lines = lines
        self.small = lines < ROOM
        self.reasons = ROOM - 3
        """Maximum lines of a reason."""
        self.asking = False
        """Whether to show that an evaluation is running."""
        self.version = 0
        """Version of the stored policy that the draft is compared with; 0 for a new policy."""

    def render(self) -> Content:
        cells = self.content_size.width
        told = [self._decision(cells), *self._second(cells)]
        if not self.small:
            told += [self.author(cells), self.change(cells)][: self.lines - len(told)]
        return Content("\n").join(told)

    def _decision(self, cells: int) -> Content:
        found = self.found
        if found.stale:
            note = found.stale if found.verdict is not None else ""
        elif found.request_problem and not found.fresh.get("verdict"):
            note = "of an earlier request"
        else:
            note = "asking …" if self.asking else ""
        dim = bool(note) and note != "asking …"
        verdict = found.verdict
        if verdict is None:
            head = Content.styled("○ NOT TRIED", "bold $text-muted")
        elif verdict.get("decision") == "allowed":
            head = Content.styled("✓ ALLOWED", "bold " + ("$text-disabled" if dim else "$text-success"))
        else:
            head = Content.styled("× DENIED", "bold " + ("$text-disabled" if dim else "$text-error"))
        if verdict is not None and verdict.get("asAuthor"):
            head += Content.styled("  as author", "$text-disabled" if dim else "$text-muted")
        if self.small and not dim:
            side = self._short_author()
            return head + Content("  ") + side if head.cell_length + side.cell_length + 2 <= cells else head
        return head + Content.styled("  " + note, "$text-muted")

    def fit(self, cells: int, *, room: bool = False) -> None:
        """Fit the height to the text.

        Args:
            cells: Width of the text.
            room: Whether a problem or reason may take more than two lines next to the text.
        """
        if self.small:
            self.lines = 1 + len(self._second(cells))
        else:
            self.reasons = MOST_TOLD + 1 if room else ROOM - 3
            self.lines = max(ROOM, 3 + len(self._second(cells))) if room else ROOM
        self.styles.height = self.lines

    def _second(self, cells: int) -> list[Content]:
        """Return the lines for the lost connection, the problem or the reason, in this order."""
        found = self.found
        wrong = "$text-error"
        if found.lost is not None:
            return self._told(f"! {_lost(found)}", wrong, cells, MOST_TOLD)
        if found.problems:
            one = found.problems[min(found.problem_at, len(found.problems) - 1)]
            return self._told(f"! {evaluation.place(one)}: {evaluation.words(one)}", wrong, cells, MOST_TOLD)
        if found.request_problem:
            return self._told(f"! {found.request_problem}", wrong, cells, MOST_TOLD)
        room = 1 if self.small else self.reasons
        if found.verdict is None:
            return self._told("Give the request an operation to try the draft on.", "$text-muted", cells, room)
        words = evaluation.why(found.verdict)
        if found.verdict.get("someTarget") and found.verdict.get("decision") == "denied":
            words = f"some targets would be allowed; {words}"
        return self._told(words, "$foreground", cells, room)

    def _told(self, words: str, tone: str, cells: int, room: int) -> list[Content]:
        """Wrap untrusted text to at most `room` lines. The last one is truncated."""
        lines = textwrap.wrap(safe(words), max(cells, 20), break_on_hyphens=False) or [""]
        if len(lines) > room:
            lines = [*lines[: room - 1], cut(" ".join(lines[room - 1 :]), cells)]
        return [Content.styled(line, tone) for line in lines]

    def _short_author(self) -> Content:
        check = self.found.check
        if check is None or self.found.stale:
            return Content("")
        sign, tone, words = AUTHOR.get(str(check.get("answer")), ("?", "$text-warning", str(check.get("answer"))))
        return Content.styled(f"author {sign} {words.partition(',')[0]}", tone)

    def author(self, cells: int) -> Content:
        check = self.found.check
        if self.found.stale:
            return Content.styled("Author check: not of this text", "$text-muted")
        if check is None:
            return Content.styled("Author check: not answered yet", "$text-muted")
        sign, tone, words = AUTHOR.get(str(check.get("answer")), ("?", "$text-warning", str(check.get("answer"))))
        return Content.styled(cut(f"{sign} {words}{counted(check)}", cells), tone)

    def change(self, cells: int) -> Content:
        """Return the allowed operations and their changes, or only the changes if both do not fit."""
        covered = self.found.map
        if not covered or self.found.stale:
            return Content("")
        total = (self.found.coverage or {}).get("total", 0)
        given = f"gives {covered.get('effective', 0)} of {total} operations"
        if covered.get("conditional"):
            given += f", {covered['conditional']} under conditions"
        if "gained" not in covered:
            return Content.styled(cut(given, cells), "$text-muted")
        moved = changes(covered)
        signed = [f"{sign}{len(side)}" for sign, side in (("+", moved.gained), ("−", moved.lost)) if side]
        changed = " · ".join(filter(None, (" ".join(signed), moved.conditional)))
        against = f"{changed} against v{self.version}" if changed else f"the same as v{self.version}"
        if width(f"{given} · {against}") > cells:
            shown = against if width(against) <= cells else changed
            return Content.styled(cut(shown, cells), "$foreground" if changed else "$text-muted")
        return Content.assemble((f"{given} · ", "$text-muted"), (against, "$foreground" if changed else "$text-muted"))


def counted(check: Mapping[str, Any]) -> str:
    """Return `: 3 counterexamples`; empty if there are none."""
    count = len(check.get("counterexamples") or ())
    return f": {count} counterexample{'s' if count != 1 else ''}" if count else ""


def _lost(found: Findings) -> str:
    """Explain the lost connection and how to continue."""
    error = found.lost
    assert error is not None
    if error.exit_code is Exit.UNREACHABLE and found.stopped:
        return "the platform was stopped; your text stays, and saving it starts the platform"
    if error.exit_code is Exit.UNREACHABLE:
        return "no answer from the platform; your text stays, it is tried again by itself"
    if error.exit_code is Exit.NOT_SIGNED_IN:
        return "not signed in any more; your text stays: sign in and it goes on"
    return safe(f"{error.message}" + (f": {error.hint}" if error.hint else ""))
