"""The lines around the text of the editor: title, tabs, and the verdict on the draft."""

from collections.abc import Sequence
from typing import NamedTuple

from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from client.errors import Exit
from client.models.analysis import AuthorCheck
from client.text import cut, safe, width, wrapped
from client.texts.effects import changes
from tui.iam.editor.evaluation import Evaluation, example_count, place, problem_text, verdict_reason

MIN_NAME_CELLS = 12
"""Minimum width of the policy's name and version."""


class Title(NamedTuple):
    """Contents of the title bar, untrusted."""

    name: str = ""
    version: int = 0
    """The stored version; 0 for a new policy."""
    is_changed: bool = False
    """Whether the text differs from the stored version."""
    status: str = ""
    """State of a save, or a note; empty to show whether the document is saved."""
    newest: int = 0
    """The version that another user has stored since; 0 if there is none."""
    tenant: str = ""
    """The tenant of the policy if the header shows another one, otherwise empty."""


class TitleBar(Widget):
    """The policy and whether it is saved."""

    DEFAULT_CSS = """
    TitleBar { height: 1; padding: 0 1; }
    """

    title: reactive[Title] = reactive(Title())

    def render(self) -> Content:
        title, cells = self.title, self.content_size.width
        status = title.status or ("● unsaved" if title.is_changed or not title.version else "saved")
        tone = "$text-warning" if title.is_changed or title.status else "$text-muted"
        right = Content.styled(safe(status), tone).truncate(max(0, cells - MIN_NAME_CELLS), ellipsis=True)
        left = Content.assemble(
            ("Policy  ", "$text-muted"),
            (safe(title.name) or "(unnamed)", "bold"),
            (f"  version {title.version}" if title.version else "  new", "$text-muted"),
            (f"  (newest is {title.newest})" if title.newest else "", "$text-warning"),
            (f"  in {safe(title.tenant)}" if title.tenant else "", "$text-warning"),
        ).truncate(max(0, cells - right.cell_length - 1), ellipsis=True)
        return left.pad_right(max(0, cells - left.cell_length - right.cell_length)) + right


class Tabs(Widget):
    """Tabs of (name, title) pairs, clipped at the width of the widget."""

    DEFAULT_CSS = """
    Tabs { height: 1; padding: 0 1; color: $text-muted; }
    """

    views: reactive[Sequence[tuple[str, str]]] = reactive(())
    active = reactive("")

    class Selected(Message):
        """Posted when a tab is clicked."""

        def __init__(self, view: str) -> None:
            super().__init__()
            self.view = view

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._spans: list[tuple[int, int, str]] = []

    def render(self) -> Content:
        parts: list[Content] = []
        self._spans = []
        at = 0
        for name, title in self.views:
            tone = "bold $text-accent underline" if name == self.active else "$text-muted"
            parts.append(Content.styled(title, tone))
            self._spans.append((at, at + len(title), name))
            at += len(title) + 3
        return Content("   ").join(parts)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        for start, end, name in self._spans:
            if offset is not None and start <= offset.x < end:
                self.post_message(self.Selected(name))


AUTHOR_ANSWERS = {
    "within": ("✓", "$text-success", "within your permissions"),
    "beyond": ("×", "$text-error", "grants more than you have"),
    "undecided": ("?", "$text-warning", "undecided: saving will be refused"),
}
FULL_LINES = 5
MAX_PROBLEM_LINES = 3
TALL_ROWS = 30
"""Minimum height of the terminal for a verdict with more lines, at the expense of the panel."""
EVALUATING = "evaluating …"


class Verdict(Widget):
    """Five lines next to the text or, on a narrow screen, decision and reason below it."""

    DEFAULT_CSS = """
    Verdict { height: 5; padding: 0 1; color: $foreground; background: $panel; }
    """

    evaluation = reactive(Evaluation())
    compared_version = reactive(0)
    """Version of the stored policy that the document is compared with; 0 for a new policy."""

    def __init__(self, *, lines: int = FULL_LINES, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines = lines
        self.small = lines < FULL_LINES
        self.reason_lines = FULL_LINES - 3
        """Maximum lines of a reason."""
        self.problem_lines = MAX_PROBLEM_LINES
        """Maximum lines of a problem."""

    def watch_evaluation(self) -> None:
        self.fit()

    def on_resize(self) -> None:
        self.fit()

    def fit(self) -> None:
        """Fit the height to the text, on large terminals at the expense of the panel."""
        cells = self.content_size.width
        if not cells:
            return
        if self.small:
            self.lines = 1 + len(self._second(cells))
        else:
            tall = self.app.size.height >= TALL_ROWS
            self.reason_lines = MAX_PROBLEM_LINES + 1 if tall else FULL_LINES - 3
            self.problem_lines = 2 * MAX_PROBLEM_LINES if tall else MAX_PROBLEM_LINES
            self.lines = max(FULL_LINES, 3 + len(self._second(cells))) if tall else FULL_LINES
        self.styles.height = self.lines

    def render(self) -> Content:
        cells = self.content_size.width
        lines = [self._decision(cells), *self._second(cells)]
        if not self.small:
            lines += [self.author(cells), self.change(cells)][: self.lines - len(lines)]
        return Content("\n").join(lines)

    def _decision(self, cells: int) -> Content:
        evaluation = self.evaluation
        if evaluation.stale_reason:
            note = evaluation.stale_reason if evaluation.verdict is not None else ""
        elif evaluation.request_problem and "verdict" not in evaluation.current:
            note = "for an earlier request"
        else:
            note = EVALUATING if evaluation.overdue else ""
        dim = bool(note) and note != EVALUATING
        verdict = evaluation.verdict
        if verdict is None:
            head = Content.styled("○ NOT EVALUATED", "bold $text-muted")
        elif verdict.allowed:
            head = Content.styled("✓ ALLOWED", "bold " + ("$text-disabled" if dim else "$text-success"))
        else:
            head = Content.styled("× DENIED", "bold " + ("$text-disabled" if dim else "$text-error"))
        head = Content.styled("Request ", "$text-muted") + head
        if verdict is not None and verdict.as_author:
            head += Content.styled("  with author limit", "$text-disabled" if dim else "$text-muted")
        if self.small and not dim:
            parts = [head, side] if (side := self._short_author()) else [head]
            if evaluation.check is not None and evaluation.check.answer != "within":
                parts.reverse()  # a save will be refused, also if the request is allowed
            line = Content("  ").join(parts)
            return line if line.cell_length <= cells else parts[0]
        return head + Content.styled("  " + note, "$text-muted")

    def _second(self, cells: int) -> list[Content]:
        """Return the lines for the lost connection, the problem or the reason, in this order."""
        evaluation = self.evaluation
        wrong = "$text-error"
        if evaluation.error is not None:
            return _wrap(f"! {_error_text(evaluation)}", wrong, cells, self.problem_lines)
        if evaluation.problems:
            problem = evaluation.problems[min(evaluation.problem_index, len(evaluation.problems) - 1)]
            return _wrap(f"! {place(problem)}: {problem_text(problem)}", wrong, cells, self.problem_lines)
        if evaluation.request_problem:
            return _wrap(f"! {evaluation.request_problem}", wrong, cells, self.problem_lines)
        room = 1 if self.small else self.reason_lines
        if evaluation.verdict is None:
            return _wrap(evaluation.undecided_text, "$text-muted", cells, room)
        reason = verdict_reason(evaluation.verdict)
        if evaluation.verdict.some_target and not evaluation.verdict.allowed:
            reason = f"some targets would be allowed; {reason}"
        return _wrap(reason, "$foreground", cells, room)

    def _short_author(self) -> Content:
        check = self.evaluation.check
        if check is None or self.evaluation.stale_reason:
            return Content("")
        sign, tone, answer_text = _author_answer(check)
        return Content.styled(f"Author {sign} {answer_text.partition(':')[0]}", tone)

    def author(self, cells: int) -> Content:
        check = self.evaluation.check
        if self.evaluation.stale_reason:
            return Content.styled("Author check: outdated", "$text-muted")
        if check is None:
            return Content.styled("Author check: waiting", "$text-muted")
        sign, tone, answer_text = _author_answer(check)
        examples = f" ({count})" if (count := example_count(check)) else ""
        return Content.styled(cut(f"Author {sign} {answer_text}{examples}", cells), tone)

    def change(self, cells: int) -> Content:
        """Return the allowed operations and their changes, or only the changes if both do not fit."""
        coverage, any_target = self.evaluation.coverage, self.evaluation.any_target
        if coverage is None or any_target is None or self.evaluation.stale_reason:
            return Content("")
        allowed = f"allows {any_target.effective} of {coverage.total} operations"
        if any_target.conditional:
            allowed += f", {any_target.conditional} under conditions"
        if any_target.gained is None:
            return Content.styled(cut(allowed, cells), "$text-muted")
        changed_operations = changes(any_target.wire())
        signed = [
            f"{sign}{len(side)}"
            for sign, side in (("+", changed_operations.gained), ("−", changed_operations.lost))
            if side
        ]
        changed = " · ".join(filter(None, (" ".join(signed), changed_operations.conditional)))
        against = f"{changed} since v{self.compared_version}" if changed else f"same as v{self.compared_version}"
        if width(f"{allowed} · {against}") > cells:
            text = against if width(against) <= cells else changed
            return Content.styled(cut(text, cells), "$foreground" if changed else "$text-muted")
        return Content.assemble(
            (f"{allowed} · ", "$text-muted"), (against, "$foreground" if changed else "$text-muted")
        )


def _wrap(text: str, tone: str, cells: int, room: int) -> list[Content]:
    """Wrap untrusted text to at most `room` lines. The last one is truncated."""
    lines = wrapped(safe(text), max(cells, 20))
    if len(lines) > room:
        lines = [*lines[: room - 1], cut(" ".join(lines[room - 1 :]), cells)]
    return [Content.styled(line, tone) for line in lines]


def _author_answer(check: AuthorCheck) -> tuple[str, str, str]:
    """Return the sign, the tone and the text of an author check. An answer unknown to this version is shown as sent."""
    return AUTHOR_ANSWERS.get(check.answer, ("?", "$text-warning", check.answer))


def _error_text(evaluation: Evaluation) -> str:
    """Explain the lost connection and how to continue."""
    error = evaluation.error
    assert error is not None
    if error.exit_code is Exit.UNREACHABLE and evaluation.platform_stopped:
        return "the platform was stopped; your text is kept. Save to start the platform"
    if error.exit_code is Exit.UNREACHABLE:
        return "no response from the platform; your text is kept. Retrying"
    if error.exit_code is Exit.NOT_SIGNED_IN:
        return "signed out; your text is kept. Sign in to continue"
    return safe(f"{error.message}" + (f": {error.hint}" if error.hint else ""))
