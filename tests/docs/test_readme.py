"""README.md is short, and its two commands are those that `.ci/run` and the tests use."""

import re

from tests.docs.pages import README, ROOT

MAX_LINES, MAX_BYTES = 150, 10_000
RUN = "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/frost"
TEST = "python3 -m venv .venv && .venv/bin/pip install -q '.[test]' && .venv/bin/python -m pytest -q"


def test_the_readme_is_short() -> None:
    assert len(README.text.splitlines()) <= MAX_LINES
    assert len(README.text.encode()) <= MAX_BYTES


def test_the_run_command_and_the_test_command_have_blocks_of_their_own() -> None:
    blocks = [block.text.strip() for block in README.code_blocks if block.language == "sh"]
    assert blocks.count(RUN) == 1
    assert blocks.count(TEST) == 1


def test_the_ci_script_finds_the_test_command() -> None:
    (marker,) = re.findall(r"sed -n '/(\^.*?\$)/,", (ROOT / ".ci" / "run").read_text())
    section = re.split(marker, README.text, flags=re.MULTILINE)[1].partition("\n```\n")[0]
    assert [line for line in section.splitlines() if line.startswith("python3 ")] == [TEST]


def test_the_run_command_opens_the_program_that_the_project_installs() -> None:
    assert 'frost = "tui.__main__:main"' in (ROOT / "pyproject.toml").read_text()
