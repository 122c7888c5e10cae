"""Paths, commands and flags of the documents for operators and contributors are those of the repository."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def column(document: str, header: str) -> list[str]:
    """The first cells of the table with this header."""
    table = (ROOT / "docs" / document).read_text().partition(f"{header}\n")[2].partition("\n\n")[0]
    return [line.strip("|").split("|")[0] for line in table.splitlines()[1:]]


def test_the_paths_for_contributors_exist() -> None:
    paths = re.findall(r"`([^`]+)`", " ".join(column("contributing.md", "| path | what |")))
    assert len(paths) >= 15
    assert [path for path in paths if "<" not in path and not (ROOT / path).exists()] == []


def test_the_files_of_the_example_with_replicas_are_named() -> None:
    named = {cell.strip(" `") for cell in column("replicas.md", "| file | what it is |")}
    files = (ROOT / "examples" / "replicas").iterdir()
    assert named == {str(file.relative_to(ROOT)) for file in files if file.is_file()}


def test_the_flags_of_the_example_with_replicas_are_named() -> None:
    flags = re.findall(r'add_argument\("(--[a-z]+)"', (ROOT / "examples" / "replicas" / "run.py").read_text())
    assert [cell.strip(" `").split()[0] for cell in column("replicas.md", "| flag | default | meaning |")] == flags


def test_the_levels_of_tests_name_folders_that_exist() -> None:
    cells = (ROOT / "docs" / "contributing.md").read_text().partition("## Tests\n")[2].partition("\n## ")[0]
    folders = set(re.findall(r"\btests/[a-z]+\b", cells))
    assert {folder for folder in folders if not (ROOT / folder).is_dir()} == set()
    assert len(folders) >= 7
