"""Problems of a policy document with their positions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from client.models.strict_json import Path, StrictJsonError, path_text

MAX_PROBLEMS = 20
MAX_EXAMPLES = 5
"""Limit of counterexamples in the answer of an author check."""
REMEDIES = {
    "beyond": "narrow the named rule, or ask a user who has the operation",
    "undecided": "write the rules with fewer different patterns and constraints",
}
"""What an author can do about a document that may not be saved, by the answer of the author check."""

Finding = tuple[Path, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Problem:
    """JSON path, line and column (from 1), reason, and suggestions."""

    path: str
    line: int
    column: int
    reason: str
    suggestions: tuple[str, ...] = ()

    def __str__(self) -> str:
        hint = f"; did you mean {' or '.join(self.suggestions)}?" if self.suggestions else ""
        return f"{self.path} (line {self.line}, column {self.column}): {self.reason}{hint}"


def json_problems(errors: list[StrictJsonError]) -> list[Problem]:
    return [Problem(error.path, error.line, error.column, error.reason) for error in errors]


def first_problems(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.column))[:MAX_PROBLEMS])


def locate_findings(
    findings: list[Finding], offsets: Mapping[Path, int], text: str, unknown_names: Collection[Path] = ()
) -> list[Problem]:
    """Return findings with line and column. A missing value has the position of its nearest ancestor.

    Args:
        unknown_names: Paths to locate at the member's name instead of its value.
    """
    problems = []
    for path, reason, suggestions in findings:
        ancestor = path
        while ancestor not in offsets and ancestor:
            ancestor = ancestor[:-1]
        offset = offsets.get(ancestor, 0)
        if path in unknown_names:
            offset = _name_start(text, offset)
        line_start = text.rfind("\n", 0, offset) + 1
        problems.append(
            Problem(path_text(path), text.count("\n", 0, offset) + 1, offset - line_start + 1, reason, suggestions)
        )
    return problems


def _name_start(text: str, offset: int) -> int:
    """Return the offset of the name of the member with a value at an offset."""
    start = text.rindex('"', 0, text.rindex('"', 0, offset))
    while (start - len(text[:start].rstrip("\\"))) % 2:
        start = text.rindex('"', 0, start)
    return start
