"""Every `frost …` in README.md and docs/*.md is a command that the real command line understands."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from client.errors import FrostError
from tests.docs.commands import parse
from tests.docs.pages import PAGES, CommandLine, Page

SEPARATORS = re.compile(r"[();<>|&]+")
ASSIGNMENT = re.compile(r"\w+=")


def invocations(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each `frost` in a line of the shell, also in pipes and substitutions."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for token in [*lexer, ";"]:
        if not SEPARATORS.fullmatch(token):
            words.append(token)
            continue
        while words and ASSIGNMENT.match(words[0]):
            words.pop(0)
        if words and words[0] == "frost":
            yield words[1:]
        words = []


def problem(command: CommandLine) -> str:
    """Return why a line of a document is wrong; empty if it is right."""
    try:
        for words in invocations(command.text):
            parse(words)
    except (click.MissingParameter, click.BadOptionUsage) as error:
        return error.format_message() if command.complete else ""
    except (click.UsageError, FrostError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_command_of_a_document_is_understood(page: Page) -> None:
    problems = {f"{page}:{line.line}: {line.text}": reason for line in page.command_lines if (reason := problem(line))}
    assert problems == {}
    assert page.command_lines or page.path.name not in ("README.md", "commands.md", "policies.md")


def test_a_wrong_command_is_found() -> None:
    for line in (
        "frost tenant lst",
        "frost tenant list --every",
        "frost tenant list extra",
        "true | frost iam polices list",
        "KEY=$(frost account api-key create --nmae x)",
        "frost iam simulate --operation compute:instances:read",
    ):
        assert problem(CommandLine(line, 1, True)), line
    assert not problem(CommandLine("frost iam simulate", 1, False))  # a command in a sentence may lack its arguments
    assert problem(CommandLine("frost iam simulat", 1, False))
