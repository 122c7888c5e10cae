"""Which lines of the text are marked, and how: those at fault, else the rule that decides."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tui.editor import outline
from tui.editor.findings import Findings


@dataclass(frozen=True, slots=True)
class Marks:
    """What is marked, by line from 0. The kinds are component classes of the pane: problem, warning, allow, deny."""

    lines: Mapping[int, str] = field(default_factory=dict)
    spans: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """The columns at fault in a line with a problem."""
    signs: Mapping[int, str] = field(default_factory=dict)


def marks_of(found: Findings, text: str) -> Marks:
    """The marks of a text: its problems; without any the rule that decides, and warnings."""
    lines = text.split("\n")
    if found.problems:
        return problem_marks(found.problems, lines)
    marks = problem_marks(found.warnings, lines, "warning")
    if found.deciding is None or found.stale or found.request_problem:
        return marks
    index, access = found.deciding
    spans = outline.rules(text, index + 1)
    if index >= len(spans):
        return marks
    kinds, signs = dict(marks.lines), dict(marks.signs)
    lit = outline.Lines(text).range(spans[index])
    for row in lit:
        kinds[row] = access
        signs.setdefault(row, "│")
    signs[lit.start] = "✓" if access == "allow" else "×"
    return Marks(kinds, marks.spans, signs)


def problem_marks(problems: Iterable[Mapping[str, Any]], lines: Sequence[str], kind: str = "problem") -> Marks:
    """The marks of what the platform found wrong; its lines and columns count from 1."""
    kinds: dict[int, str] = {}
    spans: dict[int, tuple[int, int]] = {}
    signs: dict[int, str] = {}
    for problem in problems:
        row = min(max(int(problem.get("line", 1)) - 1, 0), max(0, len(lines) - 1))
        if row in kinds:
            continue
        kinds[row], signs[row] = kind, "!"
        column = max(int(problem.get("column", 1)) - 1, 0)
        text = lines[row] if row < len(lines) else ""
        end = next((end for start, end, _ in outline.painted(text) if start <= column < end), column + 1)
        if column < len(text):
            spans[row] = (column, min(end, len(text)))
    return Marks(kinds, spans, signs)
