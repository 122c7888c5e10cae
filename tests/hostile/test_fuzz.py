"""The fuzzer of `tests/hostile/fuzz.py`, for a moment and for longer; a million cases by hand."""

import pytest

from tests.hostile import fuzz


def test_documents_and_configuration_files_are_read_or_refused() -> None:
    outcomes = fuzz.run(2_000, seed=6)
    assert set(outcomes) == {"document read", "document refused", "config read", "config refused"}
    assert min(outcomes.values()) > 15, outcomes


@pytest.mark.slow
def test_many_more_documents_and_files_are_read_or_refused() -> None:
    assert fuzz.run(20_000, seed=66).total() == 20_000
