"""Words that help texts, messages and screens do not use. docs/contributing.md has the terms that they use instead."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from client.commands.root import root

ROOT = Path(__file__).parent.parent
BANNED = {
    r"told|tells?": "shows, reports",
    r"said|says?": "shows",
    r"stands?": "is",
    r"whoever|whatever|whose it is": "the noun",
    r"nobody|somebody|anybody|everybody": "no user, a user",
    r"what (is|was|it) ": "the noun",
    r"(takes?|taken|took) \w* ?back": "undo",
    r"holds?|held": "have; contain",
    r"leaves": "close; quit",
    r"ours|\(frost\)|common contract": "nothing: docs/compatibility.md lists additions",
    r"anew|beside|meanwhile": "again; with",
    r"goes on|go on": "continues; resume",
    r"mend|mended": "fix",
    r"is no valid": "is not valid",
    r"by nothing": "not",
    r"begun": "started",
    r"throws? away|thrown away": "discard, delete",
    r"at the moment": "now",
    r"still on (its|their) way": "loading",
}
PATTERN = re.compile("|".join(rf"(?<!\w)(?:{words})(?!\w)" for words in BANNED), re.IGNORECASE)
PENDING = {
    "client/transport/async_client.py": 2,
    "client/transport/blocking_client.py": 1,
    "client/transport/call.py": 1,
    "client/transport/endpoint.py": 4,
    "client/transport/exchange.py": 1,
    "tui/account/actions.py": 3,
    "tui/account/key_form.py": 1,
    "tui/account/key_create.py": 2,
    "tui/contexts/screen.py": 1,
    "tui/contexts/sign_in.py": 1,
    "tui/default_tags/actions.py": 6,
    "tui/default_tags/apply_screen.py": 1,
    "tui/iam/access.py": 1,
    "tui/iam/actions.py": 1,
    "tui/iam/changes.py": 1,
    "tui/iam/editor/action_handlers.py": 6,
    "tui/iam/editor/actions.py": 6,
    "tui/iam/editor/completion.py": 3,
    "tui/iam/editor/lists.py": 1,
    "tui/iam/editor/counterexample_fixes.py": 2,
    "tui/iam/editor/document.py": 1,
    "tui/iam/editor/evaluation.py": 2,
    "tui/iam/editor/external.py": 2,
    "tui/iam/editor/panel.py": 3,
    "tui/iam/editor/request.py": 1,
    "tui/iam/editor/review.py": 2,
    "tui/iam/editor/save.py": 9,
    "tui/iam/editor/screen.py": 1,
    "tui/iam/editor/bars.py": 3,
    "tui/quotas/actions.py": 1,
    "tui/quotas/what_if.py": 1,
    "tui/shell/actions.py": 5,
    "tui/shell/app.py": 1,
    "tui/shell/command_prompt.py": 1,
    "tui/shell/main_screen.py": 3,
    "tui/shell/palette.py": 2,
    "tui/tenants/screen.py": 2,
    "tui/widgets/dialog.py": 1,
    "tui/widgets/picker.py": 1,
}
"""Files with texts to rewrite, and how many. A number may only become smaller."""


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the string constants of a module that may be texts for users, with their lines."""
    tree = ast.parse(source)
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id.endswith("CSS") for target in targets):
                skipped |= {id(part) for part in ast.walk(node)}
        elif isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, text
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def findings(package: str) -> dict[str, list[str]]:
    """Return the texts with a banned word, by file."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / package).rglob("*.py")):
        name = str(file.relative_to(ROOT))
        for line, text in texts(file.read_text()):
            if " " in text.strip() and (match := PATTERN.search(text)):
                found.setdefault(name, []).append(f"{name}:{line}: {match[0]!r} in {text!r}")
    return found


def commands(command: click.Command, path: tuple[str, ...] = ("frost",)) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(child, (*path, name))


@pytest.mark.parametrize(
    ("path", "command"), list(commands(root)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_help_uses_standard_terms(path: str, command: click.Command) -> None:
    lines = [command.help or "", *(str(getattr(param, "help", "") or "") for param in command.params)]
    assert [(match[0], text) for text in lines if (match := PATTERN.search(text))] == []
    summary = lines[0].partition("\n")[0]
    assert summary.endswith("."), summary
    assert re.match(r"[A-Z][a-z]+ ", summary), f"begin with a verb: {summary}"


@pytest.mark.parametrize("package", ["client", "tui"])
def test_messages_use_standard_terms(package: str) -> None:
    found = findings(package)
    new = {file: lines for file, lines in found.items() if len(lines) > PENDING.get(file, 0)}
    assert not new, "\n".join(line for lines in new.values() for line in lines)


def test_the_pending_list_only_names_files_with_findings() -> None:
    counts = Counter({file: len(lines) for package in ("client", "tui") for file, lines in findings(package).items()})
    assert {file: number for file, number in PENDING.items() if counts[file] < number} == {}


def errors(source: str) -> Iterator[tuple[int, str]]:
    """Yield the messages and hints that a module passes to errors, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("FrostError", "usage"):
            hints = [keyword.value for keyword in node.keywords if keyword.arg == "hint"]
            for argument in (*node.args[:2], *hints):
                if isinstance(argument, ast.Constant | ast.JoinedStr):
                    yield argument.lineno, "".join(text for _, text in texts(f"_ = {ast.unparse(argument)}"))


def test_errors_are_lower_case_without_a_final_period() -> None:
    wrong = [
        f"{file}:{line}: {text}"
        for file in sorted((ROOT / "client").rglob("*.py"))
        for line, text in errors(file.read_text())
        if re.match(r"[A-Z][a-z]", text) or text.endswith(".")
    ]
    assert wrong == []
