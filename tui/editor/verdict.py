"""The verdict on the draft in sign, word and colour, its reason, the author check, and what changes."""

import textwrap
from collections.abc import Mapping
from typing import Any

from textual.content import Content
from textual.widget import Widget

from client.changes import changes
from client.errors import Exit
from client.text import cut, safe, width
from tui.editor import findings
from tui.editor.findings import Findings

AUTHOR = {
    "within": ("✓", "$text-success", "within what you hold"),
    "beyond": ("×", "$text-error", "beyond what you hold"),
    "undecided": ("?", "$text-warning", "undecided, so it would be refused"),
}
ROOM = 5
MOST_TOLD = 3
"""Lines of what is wrong, where it would otherwise lose its end."""


class Verdict(Widget):
    """Five lines beside the text, the first two of them below it on a narrow screen."""

    DEFAULT_CSS = """
    Verdict { height: 5; padding: 0 1; color: $foreground; background: $panel; }
    """

    def __init__(self, found: Findings, *, lines: int = ROOM, id: str | None = None) -> None:
        super().__init__(id=id)
        self.found = found
        self.lines = lines
        self.small = lines < ROOM
        self.reasons = ROOM - 3
        """Lines a reason may take."""
        self.asking = False
        """Whether an answer has been waited for long enough to say so."""
        self.version = 0
        """Of the stored policy the draft is compared with; 0 for a new one."""

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
        """Be as high as that takes which is to be told.

        Args:
            room: Whether there is any below, for what has more than its own two lines.
        """
        if self.small:
            self.lines = 1 + len(self._second(cells))
        else:
            self.reasons = MOST_TOLD + 1 if room else ROOM - 3
            self.lines = max(ROOM, 3 + len(self._second(cells))) if room else ROOM
        self.styles.height = self.lines

    def _second(self, cells: int) -> list[Content]:
        """The problem, the loss or the reason: the one thing to know besides the word."""
        found = self.found
        wrong = "$text-error"
        if found.lost is not None:
            return self._told(f"! {_lost(found)}", wrong, cells, MOST_TOLD)
        if found.problems:
            one = found.problems[min(found.problem_at, len(found.problems) - 1)]
            return self._told(f"! {findings.place(one)}: {findings.words(one)}", wrong, cells, MOST_TOLD)
        if found.request_problem:
            return self._told(f"! {found.request_problem}", wrong, cells, MOST_TOLD)
        room = 1 if self.small else self.reasons
        if found.verdict is None:
            return self._told("Give the request an operation to try the draft on.", "$text-muted", cells, room)
        words = findings.why(found.verdict)
        if found.verdict.get("someTarget") and found.verdict.get("decision") == "denied":
            words = f"some targets would be allowed; {words}"
        return self._told(words, "$foreground", cells, room)

    def _told(self, words: str, tone: str, cells: int, room: int) -> list[Content]:
        """Foreign words in as many lines as there are for them, the last one cut."""
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
        """The author check in a line."""
        check = self.found.check
        if self.found.stale:
            return Content.styled("Author check: not of this text", "$text-muted")
        if check is None:
            return Content.styled("Author check: not answered yet", "$text-muted")
        sign, tone, words = AUTHOR.get(str(check.get("answer")), ("?", "$text-warning", str(check.get("answer"))))
        return Content.styled(cut(f"{sign} {words}{counted(check)}", cells), tone)

    def change(self, cells: int) -> Content:
        """What the draft gives, and what that changes; where both have no room, the change alone."""
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
        changed = " · ".join(filter(None, (" ".join(signed), moved.words)))
        against = f"{changed} against v{self.version}" if changed else f"the same as v{self.version}"
        if width(f"{given} · {against}") > cells:
            shown = against if width(against) <= cells else changed
            return Content.styled(cut(shown, cells), "$foreground" if changed else "$text-muted")
        return Content.assemble((f"{given} · ", "$text-muted"), (against, "$foreground" if changed else "$text-muted"))


def counted(check: Mapping[str, Any]) -> str:
    """`: 3 counterexamples`; empty where there is none."""
    count = len(check.get("counterexamples") or ())
    return f": {count} counterexample{'s' if count != 1 else ''}" if count else ""


def _lost(found: Findings) -> str:
    """What was lost, and how to go on: nothing typed is."""
    error = found.lost
    assert error is not None
    if error.exit_code is Exit.UNREACHABLE and found.stopped:
        return "the platform was stopped; your text stays, and saving it starts the platform"
    if error.exit_code is Exit.UNREACHABLE:
        return "no answer from the platform; your text stays, it is tried again by itself"
    if error.exit_code is Exit.NOT_SIGNED_IN:
        return "not signed in any more; your text stays: sign in and it goes on"
    return safe(f"{error.message}" + (f": {error.hint}" if error.hint else ""))
