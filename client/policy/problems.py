"""What is wrong with a policy document, and where in its text that stands."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from client.models.strict_json import Path, StrictJsonError, path_text

MAX_PROBLEMS = 20

Finding = tuple[Path, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong: where (JSON path, line and column from 1), why, and what may have been meant."""

    path: str
    line: int
    column: int
    reason: str
    suggestions: tuple[str, ...] = ()

    def __str__(self) -> str:
        meant = f"; did you mean {' or '.join(self.suggestions)}?" if self.suggestions else ""
        return f"{self.path} (line {self.line}, column {self.column}): {self.reason}{meant}"


def json_problems(errors: list[StrictJsonError]) -> list[Problem]:
    return [Problem(error.path, error.line, error.column, error.reason) for error in errors]


def first_problems(problems: list[Problem]) -> tuple[Problem, ...]:
    """As many as are told, in the order of the text."""
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.column))[:MAX_PROBLEMS])


def locate_findings(
    findings: list[Finding], places: Mapping[Path, int], text: str, misnamed: Collection[Path] = ()
) -> list[Problem]:
    """Findings with line and column; a value that is not there stands where what should hold it begins.

    Args:
        misnamed: The findings that stand where the name of the member does.
    """
    problems = []
    for path, reason, suggestions in findings:
        held = path
        while held not in places and held:
            held = held[:-1]
        at = places.get(held, 0)
        if path in misnamed:
            at = _name_start(text, at)
        line_start = text.rfind("\n", 0, at) + 1
        problems.append(Problem(path_text(path), text.count("\n", 0, at) + 1, at - line_start + 1, reason, suggestions))
    return problems


def _name_start(text: str, at: int) -> int:
    """Where the name of the member begins whose value stands at `at`: the quote before, leaving out escaped ones."""
    start = text.rindex('"', 0, text.rindex('"', 0, at))
    while (start - len(text[:start].rstrip("\\"))) % 2:
        start = text.rindex('"', 0, start)
    return start
