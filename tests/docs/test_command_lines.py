"""Every `frost …` in README.md and docs/*.md is a command that the real command line understands."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from client.commands.command import Group
from client.commands.invocation import Invocation
from client.commands.root import root
from client.errors import FrostError
from tests.docs.commands import register_web
from tests.docs.pages import PAGES, CommandLine, Page
from tui import launch

SEPARATORS = re.compile(r"[();<>|&]+")
ASSIGNMENT = re.compile(r"\w+=")
PLACEHOLDER = re.compile(r"[A-Z]+(_[A-Z]+)*")
ID = "0192f7c1-5a3e-7b60-9d2f-3c5a8e7b1d04"


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


def parse(words: list[str]) -> None:
    """Read a command line as the program does, without running it. Raises what the program would report."""
    register_web()
    if launch.parse(words) is not None:
        return
    words = [ID if PLACEHOLDER.fullmatch(word) and word.endswith("ID") else word for word in words]
    command: click.Command = root
    try:
        context = root.make_context("frost", list(words), obj=Invocation(words))
        while isinstance(command, Group):
            rest = [*context._protected_args, *context.args]
            if not rest:
                break
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None
            command, context = found, found.make_context(name, rest, parent=context)
    except click.exceptions.Exit:  # --help
        pass


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
