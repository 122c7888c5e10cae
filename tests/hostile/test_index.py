"""The table of `tests/hostile/README.md` has every attack, and names tests that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = {"A": 20, "B": 12, "C": 15, "D": 8, "E": 19, "F": 15, "G": 9, "H": 11, "I": 5, "J": 10}


def rows() -> list[list[str]]:
    lines = (Path(__file__).parent / "README.md").read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")][2:]


def test_every_attack_has_one_row_with_what_was_taken_away() -> None:
    named = [attack for attack, *_ in rows() if re.fullmatch("[A-J][0-9]{2}", attack)]
    assert named == [f"{letter}{number:02}" for letter, most in MOST.items() for number in range(1, most + 1)]
    assert all(len(row) == 3 and row[2].strip() for row in rows())


def test_every_test_of_the_table_exists() -> None:
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
