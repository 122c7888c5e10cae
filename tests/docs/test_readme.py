"""README.md is short, and its commands and examples run on a real platform and show what the text says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import README, ROOT
from tests.homes import Home, Result

MAX_LINES, MAX_BYTES = 150, 10_000
RUN = "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/frost"
TEST = "python3 -m venv .venv && .venv/bin/pip install -q '.[test]' && .venv/bin/python -m pytest -q"
NOT_RUN = {
    "python3 -m venv": "installs the project",
    "source ": "changes the shell of the reader",
    "frost login --context work": "needs a platform elsewhere",
}
"""Beginnings of the examples that are not run, with the reason."""
EXIT_CODE = re.compile(r"exit code (\d)")


def test_the_readme_is_short_and_its_two_commands_have_blocks_of_their_own() -> None:
    assert len(README.text.splitlines()) <= MAX_LINES
    assert len(README.text.encode()) <= MAX_BYTES
    blocks = [block.text.strip() for block in README.code_blocks if block.language == "sh"]
    assert blocks.count(RUN) == blocks.count(TEST) == 1
    assert 'frost = "tui.__main__:main"' in (ROOT / "pyproject.toml").read_text()


def test_the_ci_script_finds_the_test_command() -> None:
    (marker,) = re.findall(r"sed -n '/(\^.*?\$)/,", (ROOT / ".ci" / "run").read_text())
    section = re.split(marker, README.text, flags=re.MULTILINE)[1].partition("\n```\n")[0]
    assert [line for line in section.splitlines() if line.startswith("python3 ")] == [TEST]


def run(home: Home, line: str) -> Result:
    """Run a line in a shell that finds the installed `frost`."""
    environment = home.environment()
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    command = ["bash", "-c", line]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=home.path, timeout=120)
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
def test_the_examples_run_in_order_and_print_what_the_text_shows(demo: Home) -> None:
    outputs = {}
    for line in [line.text for line in README.command_lines if line.complete]:
        if not line.startswith(tuple(NOT_RUN)):
            expected = EXIT_CODE.search(line)
            result = run(demo, line)
            assert result.code == (int(expected[1]) if expected else 0), (line, result)
            outputs[line] = result.out
    for beginning, text in (
        ("frost iam simulate", "ALLOWED"),
        ("frost iam policy check", "compute:instances:create"),
        ("frost iam who", "Astrid Lindqvist"),
        ("frost account api-key list -o json", "deploy-pipeline"),
        ("frost tenant quota request", "approved"),
    ):
        (output,) = (output for line, output in outputs.items() if line.startswith(beginning))
        assert text in output
        assert beginning != "frost iam simulate" or output.startswith(text)
    for beginning in NOT_RUN:
        assert any(line.text.startswith(beginning) for line in README.command_lines), beginning
