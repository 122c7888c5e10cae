"""The table of `tests/hostile/README.md` has each attack once, and names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rows() -> list[list[str]]:
    lines = (Path(__file__).parent / "README.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]
    return [row for row in rows if row[0] not in ("attack", "---")]


def test_each_attack_has_one_row_with_a_removed_protection() -> None:
    attacks = [row[0] for row in rows()]
    assert len(attacks) == len(set(attacks)) >= 125
    assert all(len(row) == 3 and all(row) for row in rows())


def test_each_test_of_the_table_exists() -> None:
    checked = 0
    for attack, tried, _ in rows():
        for part in tried.split("<br>"):
            file, *names = re.findall(r"`([^`]+)`", part)
            content = (ROOT / file).read_text()
            assert names, (attack, file)
            for name in names:
                assert re.search(rf"^(async )?def {name}\(", content, re.MULTILINE), (attack, file, name)
                checked += 1
    assert checked > 200
