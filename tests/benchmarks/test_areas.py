"""The areas of the benchmarks run: with the smallest load, whose figures mean nothing."""

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("area", ["memory", "screens"])
def test_an_area_runs(area: str) -> None:
    command = [sys.executable, "-m", "tests.benchmarks", area, "--smallest"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 3
