"""The tests that documents name as `path::name` exist, and each promise of docs/security.md names one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")
NAMED = sorted({pair for document in DOCUMENTS for pair in TEST.findall(document.read_text())})


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_each_promise_names_a_test() -> None:
    tables = (ROOT / "docs" / "security.md").read_text().split("| promise | test |\n")[1:]
    rows = [line for table in tables for line in table.partition("\n\n")[0].splitlines()[1:]]
    assert [row for row in rows if not TEST.search(row)] == []
    assert len(rows) >= 50
