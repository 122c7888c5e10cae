"""The documents of the repository: their links, headings, code blocks and commands."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parent.parent.parent
SHELL = ("sh", "console")
"""Languages of code blocks with command lines. In a `console` block they begin with `$ `."""

BACKSLASH = "\\"

_PARSER = MarkdownIt("commonmark").enable("table")
_HTML_ANCHOR = re.compile(r'<a (?:id|name)="([^"]+)"')


@dataclass(frozen=True)
class CodeBlock:
    language: str
    text: str
    line: int


@dataclass(frozen=True)
class CommandLine:
    """A command as a reader types it, with the line number of its first line."""

    text: str
    line: int
    complete: bool
    """Whether it is in a shell block. In a sentence a command may lack its arguments."""


@dataclass(frozen=True)
class Page:
    path: Path

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tokens(self) -> list[Token]:
        return _PARSER.parse(self.text)

    @cached_property
    def links(self) -> list[str]:
        """The targets of links and pictures, in order."""
        targets = []
        for token in self._inline():
            if token.type == "link_open":
                targets.append(str(token.attrs["href"]))
            elif token.type == "image":
                targets.append(str(token.attrs["src"]))
        return targets

    @cached_property
    def anchors(self) -> set[str]:
        """The names that a link may have behind `#`: headings as GitHub names them, and HTML anchors."""
        anchors: set[str] = set(_HTML_ANCHOR.findall(self.text))
        for opening, content in zip(self.tokens, self.tokens[1:], strict=False):
            if opening.type == "heading_open":
                name = anchor_of(content)
                number = 0
                while (unique := f"{name}-{number}" if number else name) in anchors:
                    number += 1
                anchors.add(unique)
        return anchors

    @cached_property
    def code_blocks(self) -> list[CodeBlock]:
        return [
            CodeBlock(token.info.strip(), token.content, token.map[0] + 2)
            for token in self.tokens
            if token.type == "fence" and token.map is not None
        ]

    @cached_property
    def command_lines(self) -> list[CommandLine]:
        """The lines of shell blocks, continued lines joined; and `frost …` in code spans with an argument."""
        found = [command for block in self.code_blocks if block.language in SHELL for command in _commands(block)]
        for token in self.tokens:
            if token.type == "inline" and token.map is not None:
                spans = (child.content for child in token.children or () if child.type == "code_inline")
                line = token.map[0] + 1
                found += [CommandLine(text, line, False) for text in spans if text.startswith("frost ")]
        return found

    def rows(self, header: str) -> list[list[str]]:
        """The cells of the table with this header, row by row."""
        _, _, rest = self.text.partition(f"{header}\n")
        assert rest, header
        lines = takewhile(lambda line: line.startswith("|"), rest.splitlines()[1:])
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    def _inline(self) -> Iterator[Token]:
        for token in self.tokens:
            yield from token.children or ()


def anchor_of(heading: Token) -> str:
    """Return the anchor that GitHub gives a heading."""
    text = "".join(child.content for child in heading.children or () if child.type in ("text", "code_inline"))
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _commands(block: CodeBlock) -> Iterator[CommandLine]:
    """Return the commands of a block. A command goes on while a quote is open or a line ends in a backslash."""
    lines = block.text.splitlines()
    number = 0
    while number < len(lines):
        first, line = number, lines[number]
        number += 1
        if block.language == "console":
            if not line.startswith("$ "):
                continue
            line = line.removeprefix("$ ")
        while number < len(lines) and not _is_complete(line):
            joint = "" if line.endswith(BACKSLASH) else "\n"
            line = f"{line.removesuffix(BACKSLASH)}{joint}{lines[number]}"
            number += 1
        if line.strip() and not line.startswith("#"):
            yield CommandLine(line, block.line + first, True)


def _is_complete(line: str) -> bool:
    if line.endswith(BACKSLASH):
        return False
    try:
        shlex.split(line, comments=True)
    except ValueError:
        return False
    return True


README = Page(ROOT / "README.md")
PAGES = [README, *(Page(path) for path in sorted((ROOT / "docs").glob("*.md")))]
