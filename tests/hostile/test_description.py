"""The served description is true for every kind of caller: no 500, and no answer that it does not describe."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.described import CALLERS, driven
from tests.service.running import Running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def platform() -> Iterator[Running]:
    """A platform on TCP that the runs may change as they like."""
    with Running(None, "demo", "--listen", "127.0.0.1:0") as running:
        yield running


def statuses(platform: Running) -> Counter[int]:
    lines = [json.loads(line) for line in platform.log.splitlines() if line.startswith("{")]
    return Counter(line["status"] for line in lines if "status" in line)


def test_answers_match_the_description(platform: Running, tmp_path: Path) -> None:
    before = statuses(platform)
    failures = driven(platform, tmp_path, "owner", "fuzzing", 1)
    assert not failures, failures
    assert (statuses(platform) - before)[200] > 20


@pytest.mark.parametrize("caller", CALLERS)
def test_no_caller_gets_an_answer_that_is_not_described(platform: Running, tmp_path: Path, caller: str) -> None:
    before = statuses(platform)
    phases = "coverage,fuzzing,stateful" if caller == "owner" else "fuzzing,stateful"
    failures = driven(platform, tmp_path, caller, phases, 4)
    assert not failures, failures
    counts = statuses(platform) - before
    assert counts.total() > 300
    assert not any(status >= 500 for status in counts)
