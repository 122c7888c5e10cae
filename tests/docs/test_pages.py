"""The documents: their links, pictures, paths and flags, and the texts that the code must have."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from tests.docs.generated import PARTS, Generated
from tests.docs.pages import PAGES, README, ROOT, Page
from tui.shell import keymap

page_at = cache(Page)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_relative_link_leads_to_a_heading_and_a_picture_has_a_text(page: Page) -> None:
    broken = []
    for link in page.links:
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (page.path.parent / name).resolve() if name else page.path
        exists = target.is_relative_to(ROOT) and target.exists()
        if not exists or (anchor and anchor not in page_at(target).anchors):
            broken.append(link)
    assert broken == []
    pictures = [child for token in page.tokens for child in token.children or () if child.type == "image"]
    assert [picture.attrs["src"] for picture in pictures if not picture.content] == []


def test_the_readme_links_to_every_document() -> None:
    linked = {link.partition("#")[0] for link in README.links}
    assert {str(page) for page in PAGES[1:]} <= linked


CONTRIBUTING, REPLICAS = (Page(ROOT / "docs" / name) for name in ("contributing.md", "replicas.md"))
EXAMPLE = ROOT / "examples" / "replicas"


def column(page: Page, header: str) -> list[str]:
    return [row[0].strip("` ") for row in page.rows(header)]


def test_the_paths_for_contributors_exist() -> None:
    paths = re.findall(r"`([^`]+)`", " ".join(row[0] for row in CONTRIBUTING.rows("| path | what |")))
    assert len(paths) >= 15
    assert [path for path in paths if "<" not in path and not (ROOT / path).exists()] == []
    levels = CONTRIBUTING.text.partition("## Tests\n")[2].partition("\n## ")[0]
    folders = set(re.findall(r"\btests/[a-z]+\b", levels))
    assert {folder for folder in folders if not (ROOT / folder).is_dir()} == set()
    assert len(folders) >= 7


def test_the_files_and_flags_of_the_example_with_replicas_are_named() -> None:
    files = {str(file.relative_to(ROOT)) for file in EXAMPLE.iterdir() if file.is_file()}
    assert set(column(REPLICAS, "| file | what it is |")) == files
    flags = re.findall(r'add_argument\("(--[a-z]+)"', (EXAMPLE / "run.py").read_text())
    assert [cell.split()[0] for cell in column(REPLICAS, "| flag | default | meaning |")] == flags


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_generated_part_is_up_to_date(part: Generated) -> None:
    assert part.current() == part.expected(), "run: python -m tests.docs"


def test_the_example_of_changed_keys_is_accepted_without_a_problem() -> None:
    (block,) = (block for block in Page(ROOT / "docs" / "screens.md").code_blocks if block.language == "yaml")
    configured = yaml.safe_load(block.text)["keys"]
    keys = keymap.resolve(configured)
    assert keys.problems == ()
    for name, value in configured.items():
        assert keys.of(name) == (tuple(value) if isinstance(value, list) else (value,))


PROVIDERS = Page(ROOT / "docs" / "identity-providers.md").text
SOURCES = [*(ROOT / "client" / "auth").glob("*.py"), *(ROOT / "service" / "authn").glob("*.py")]
SOURCES.append(ROOT / "service" / "account" / "routes.py")
MESSAGES = re.findall(r"^\| `([^`]+)` \|", PROVIDERS.partition("## Trouble")[2].partition("## Tested")[0], re.MULTILINE)


def texts(source: Path) -> Iterator[str]:
    """The texts of a module, with `…` in place of their values."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%[sr]", "…", node.value)


TEXTS = {text for source in SOURCES for text in texts(source)}


def is_in_code(message: str) -> bool:
    """Whether a text of the code gives this message; a value may be a text of its own, such as a reason."""
    head, mark, reason = message.partition(" is refused: ")
    return message in TEXTS or (bool(mark) and f"{head}{mark}…" in TEXTS and reason in TEXTS)


def test_the_messages_of_the_document_are_those_of_the_code() -> None:
    assert len(MESSAGES) >= 30
    assert [message for message in MESSAGES if not is_in_code(message)] == []


TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")
NAMED = sorted({pair for page in PAGES for pair in TEST.findall(page.text)})


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_each_guarantee_names_a_test() -> None:
    tables = Page(ROOT / "docs" / "security.md").text.split("| guarantee | test |\n")[1:]
    rows = [line for table in tables for line in table.partition("\n\n")[0].splitlines()[1:]]
    assert [row for row in rows if not TEST.search(row)] == []
    assert len(rows) >= 50
