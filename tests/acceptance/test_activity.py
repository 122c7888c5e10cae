"""`frost tenant activity`: hints and refused ages."""

import pytest

from tests.homes import Home


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--operation", "bogus"), "no entry is named bogus"),
        (("--actor", "nobody@x.example"), "no entry is by nobody@x.example"),
    ],
)
def test_where_nothing_is_found_and_nothing_is_called_so_a_hint_says_it(
    shared: Home, flags: tuple[str, ...], words: str
) -> None:
    answer = shared.frost("tenant", "activity", *flags)
    assert answer.code == 0, answer
    assert words in answer.err
    assert shared.json("tenant", "activity", *flags)["items"] == []


def test_a_valid_filter_without_results_gets_no_hint(shared: Home) -> None:
    answer = shared.frost("tenant", "activity", "--operation", "policy", "--since", "0s")
    assert (answer.code, "no entry" in answer.err) == (0, False), answer


@pytest.mark.parametrize("since", ["1000000d", "999999w", "9" * 5_000 + "s"])
def test_an_age_before_the_first_year_is_too_long_and_not_no_age(shared: Home, since: str) -> None:
    answer = shared.frost("tenant", "activity", "--since", since)
    assert answer.code == 2
    assert "too long ago" in answer.err
    assert "not an age" not in answer.err


def test_the_help_of_operation_ends_with_no_full_stop_behind_a_value(shared: Home) -> None:
    assert "policy.\n" not in shared.frost("tenant", "activity", "--help").out
