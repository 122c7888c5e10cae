"""Paths, commands and flags of the documents for operators and contributors are those of the repository."""

import re

from tests.docs.pages import ROOT, Page

CONTRIBUTING, REPLICAS = (Page(ROOT / "docs" / name) for name in ("contributing.md", "replicas.md"))
EXAMPLE = ROOT / "examples" / "replicas"


def column(page: Page, header: str) -> list[str]:
    """The first cells of the table with this header."""
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
