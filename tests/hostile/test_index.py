"""The table of `tests/hostile/README.md` names tests that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_attack_of_the_table_is_tried_by_tests_that_exist() -> None:
    rows = [line for line in (Path(__file__).parent / "README.md").read_text().splitlines() if line.startswith("| ")]
    assert len(rows) > 10
    for row in rows[2:]:
        for name in re.findall(r"`(tests/[^`]+)`", row):
            assert "def test_" in (ROOT / name).read_text(), name
