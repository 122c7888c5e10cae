"""The reader of documents, their links and pictures, and the paths, files and flags that they name."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.pages import PAGES, README, ROOT, Page

TEXT = """
# A title, twice

[a](other.md#part) ![b](picture.png) `not [a](link)`

# A title, twice

## The `frost tenant` command

```sh
frost tenant list \\
  --all   # joined
echo 'a
b'
# a comment
```

```console
$ frost whoami
its output
```

```text
frost is not a command here
```

| head | head |
| --- | --- |
| `frost logout` | cell |
"""


def test_links_anchors_and_commands_are_found(tmp_path: Path) -> None:
    page = Page(tmp_path / "page.md")
    page.path.write_text(TEXT)
    assert page.links == ["other.md#part", "picture.png"]
    assert page.anchors == {"a-title-twice", "a-title-twice-1", "the-frost-tenant-command"}
    assert [(command.text, command.complete) for command in page.command_lines] == [
        ("frost tenant list   --all   # joined", True),
        ("echo 'a\nb'", True),
        ("frost whoami", True),
        ("frost tenant", False),
        ("frost logout", False),
    ]


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
