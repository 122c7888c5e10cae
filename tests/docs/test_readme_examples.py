"""The examples of README.md run on a real platform and show what the text says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import README, CommandLine
from tests.homes import Home, Result

NOT_RUN = {
    "python3 -m venv": "installs the project",
    "source ": "changes the shell of the reader",
    "frost login --context work": "needs a platform elsewhere",
}
"""Beginnings of the examples that are not run, with the reason."""
EXIT_CODE = re.compile(r"exit code (\d)")


def examples() -> list[CommandLine]:
    return [line for line in README.command_lines if line.complete and not line.text.startswith(tuple(NOT_RUN))]


def run(home: Home, line: str) -> Result:
    """Run a line in a shell that finds the installed `frost`."""
    environment = home.environment()
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    command = ["bash", "-c", line]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=home.path, timeout=120)
    return Result(done.returncode, done.stdout, done.stderr)


def test_the_examples_run_one_after_the_other_and_show_what_the_text_says(demo: Home) -> None:
    results = {}
    for line in examples():
        expected = EXIT_CODE.search(line.text)
        result = run(demo, line.text)
        assert result.code == (int(expected[1]) if expected else 0), (line, result)
        results[line.text] = result

    def output(beginning: str) -> str:
        (found,) = (result.out for text, result in results.items() if text.startswith(beginning))
        return str(found)

    assert output("frost iam simulate").startswith("ALLOWED")
    assert "compute:instances:create" in output("frost iam policy check")
    assert "Astrid Lindqvist" in output("frost iam who")
    assert "deploy-pipeline" in output("frost account api-key list -o json")
    assert "approved" in output("frost tenant quota request")


@pytest.mark.parametrize("beginning", NOT_RUN)
def test_an_example_that_is_not_run_is_in_the_readme(beginning: str) -> None:
    assert any(line.text.startswith(beginning) for line in README.command_lines)
