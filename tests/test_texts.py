"""Banned words in texts for users, and the terms to use instead. docs/contributing.md has the rules of language.

The texts are all string constants of the code and the help of all commands, so a new text needs no entry here.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from client.commands.root import root
from tests.docs.commands import entries

ROOT = Path(__file__).parent.parent
PACKAGES = ("client", "tui", "service")

BANNED = {
    # personification
    r"told|tells?|telling": "shows, reports, prints",
    r"said|says?|saying": "shows, has",
    r"stands?|standing|stood": "is",
    r"(is|are|be|was|been) asked|asked (for|of)|asks? for (it|that|another|more)": "request, prompt, confirm",
    # riddles
    r"whoever|whomever|whatever|whichever|whose it is": "the noun",
    r"nobody|somebody|anybody|everybody|someone|anyone|everyone": "no user, another user, all users",
    r"what (?!if\b)\w+": "the noun: `the changes`, not `what changed`",
    r"the one (that|under|in)|those marked": "the selected record, the marked records",
    r"under the cursor": "selected",
    # words for standard actions
    r"(takes?|taken|took|puts?|brings?|brought|has|have) (\w+ )?back": "undo, restore, return",
    r"throws? away|thrown away": "discard, delete",
    r"leaves|leave it|left alone": "close, quit, keep, skip",
    r"goes? on|going on|gone on|went on": "continues, resume, keep editing",
    r"mend|mends|mended": "fix",
    r"(tries|trying|tried) again": "retry",
    r"look(s|ed|ing)? at": "examine, show",
    r"(is|are|was|were|been|be) made": "is created",
    r"(is|are|was|were) called": "is named",
    r"(is|are) given twice": "duplicate",
    r"holds?|held|holding": "have, contain",
    r"begun": "started",
    # set phrases
    r"anew|once more|as much again": "again",
    r"beside|meanwhile|apart from": "next to, since, except",
    r"so far|the like|all the same|after all|at the moment|right away|from now on": "nothing, or a time",
    r"for good": "permanently",
    r"as it (is|was|stands)": "the current, the stored",
    r"(is|are) over": "has ended",
    r"by nothing|by itself": "not, automatically",
    r"still on (its|their) way": "loading",
    r"there are|is there|are there": "the list alone, exists",
    r"(?<!there )(is|are) no (?!longer\b)": "is not a, is not a valid",
    r"words?": "text, message, term",
    r"ours|mine|yours|theirs": "the noun: `your changes`",
    r"nobody listens|no answer|the answer (is|has)": "the platform is not running, no response, the response",
    r"\(frost\)|common contract|staff": "nothing, or operator",
}
"""Banned words and forms as regular expressions, without letter case, with what to write instead."""
BANNED_LABELS = {
    "Made": "Created",
    "Begun": "Started",
    "Asked": "Requested",
    "Tightest": "Fullest quota",
    "Leave": "Close, Done",
    "Then": "After, Next",
    "With it": "This role can",
    "Works with": "Credential",
    "Who's id": "Actor ID",
    "Goes with it": "Also deletes",
    "At once": "No review",
    "Same": "Unchanged",
    "Understood": "Close",
}
"""Banned titles, labels and buttons: whole texts, with what to write instead."""
EXCEPTIONS = {
    "frost completion for ": "a script of a shell, which names a variable `words`",
    "CAST(:held AS bigint)": "SQL with a parameter `held`",
    "revious word": "keys that move by a word or delete one",
}
"""Texts, or parts of texts, that may use a banned form, with the reason."""

PATTERNS = [(re.compile(rf"(?<![\w$-])(?:{form})(?![\w-])", re.IGNORECASE), form) for form in BANNED]
ANY = re.compile("|".join(pattern.pattern for pattern, _ in PATTERNS), re.IGNORECASE)


class Text(NamedTuple):
    """A text for users and its place: file and line, or a command."""

    place: str
    text: str


def constants(source: str) -> Iterator[tuple[int, str]]:
    """Yield the string constants of a module that may be texts for users, with their lines.

    Docstrings and style sheets are left out. An f-string is one text, with `{}` for its values.
    """
    tree = ast.parse(source)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id.endswith("CSS") for target in targets):
                skipped |= {id(part) for part in ast.walk(node)}
        elif isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def is_text(value: str) -> bool:
    """Return whether a string is a text for users: several words, or a capitalised label. Others are names."""
    return " " in value.strip() or value[:1].isupper()


@cache
def code_texts(package: str) -> list[Text]:
    """Return the texts in the code of a package."""
    return [
        Text(f"{file.relative_to(ROOT)}:{line}", value)
        for file in sorted((ROOT / package).rglob("*.py"))
        if "migrations" not in file.parts
        for line, value in constants(file.read_text())
        if is_text(value)
    ]


def help_texts(path: str, command: click.Command) -> Iterator[Text]:
    """Yield the help texts of a command and of its options and arguments."""
    for text in (command.help, command.short_help, command.epilog):
        if text:
            yield Text(path, text)
    for param in command.params:
        if text := str(getattr(param, "help", "") or ""):
            yield Text(f"{path} {param.opts[0]}", text)


def findings(texts: Iterable[Text]) -> list[str]:
    """Return a line for each banned form in a text, with what to write instead."""
    lines = []
    for place, text in texts:
        if label := BANNED_LABELS.get(text):
            lines.append(f"{place}: label {text!r}; write: {label}")
        for pattern, form in PATTERNS if ANY.search(text) else ():
            match = pattern.search(text)
            if match and not any(part in text for part in EXCEPTIONS):
                lines.append(f"{place}: {match[0]!r} in {text!r}; write: {BANNED[form]}")
    return lines


@pytest.mark.parametrize("package", PACKAGES)
def test_texts_of_the_code_have_no_banned_form(package: str) -> None:
    lines = findings(code_texts(package))
    assert not lines, "\n".join(lines)


def test_help_has_no_banned_form_and_begins_with_a_verb() -> None:
    for path, command in [("frost", root), *((entry.words, entry.command) for entry in entries())]:
        lines = findings(help_texts(path, command))
        assert not lines, "\n".join(lines)
        summary = (command.help or "").partition("\n")[0]
        assert summary.endswith("."), (path, summary)
        assert re.match(r"[A-Z][a-z]+ ", summary), f"{path}: begin with a verb: {summary}"
        options = [param for param in command.params if isinstance(param, click.Option)]
        assert [option.name for option in options if not str(option.help).endswith(".")] == [], path


def test_exceptions_are_used() -> None:
    texts = [text for package in PACKAGES for _, text in code_texts(package)]
    assert [part for part in EXCEPTIONS if not any(part in text for text in texts)] == []


def test_a_banned_form_is_found_in_all_kinds_of_texts() -> None:
    source = 'def f(name):\n    """Nobody."""\n    return f"{name} stands here", "Made", "made", "nobody is here"\n'
    texts = (Text(f"f.py:{line}", value) for line, value in constants(source) if is_text(value))
    assert [line.partition(";")[0] for line in sorted(findings(texts))] == [
        "f.py:3: 'nobody' in 'nobody is here'",
        "f.py:3: 'stands' in '{} stands here'",
        "f.py:3: label 'Made'",
    ]


def errors(source: str) -> Iterator[tuple[int, str]]:
    """Yield the messages and hints that a module passes to errors, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("FrostError", "usage"):
            hints = [keyword.value for keyword in node.keywords if keyword.arg == "hint"]
            for argument in (*node.args[:2], *hints):
                if isinstance(argument, ast.Constant | ast.JoinedStr):
                    yield argument.lineno, "".join(text for _, text in constants(f"_ = {ast.unparse(argument)}"))


def test_errors_are_lower_case_without_a_final_period() -> None:
    wrong = [
        f"{file}:{line}: {text}"
        for file in sorted((ROOT / "client").rglob("*.py"))
        for line, text in errors(file.read_text())
        if re.match(r"[A-Z][a-z]", text) or text.endswith(".")
    ]
    assert wrong == []
