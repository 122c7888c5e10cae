"""`frost tenant activity`: hints and refused ages."""

from tests.homes import Home


def test_an_unknown_name_in_a_filter_without_results_gets_a_hint(shared: Home) -> None:
    for flags, hint in (
        (("--operation", "bogus"), "no entry is named bogus"),
        (("--actor", "nobody@x.example"), "no entry is by nobody@x.example"),
    ):
        answer = shared.frost("tenant", "activity", *flags)
        assert (answer.code, hint in answer.err) == (0, True), answer
        assert shared.json("tenant", "activity", *flags)["items"] == []
    answer = shared.frost("tenant", "activity", "--operation", "policy", "--since", "0s")
    assert (answer.code, "no entry" in answer.err) == (0, False), answer


def test_an_age_before_the_first_year_is_too_long_and_not_no_age(shared: Home) -> None:
    for since in ("1000000d", "999999w", "9" * 5_000 + "s"):
        answer = shared.frost("tenant", "activity", "--since", since)
        assert answer.code == 2
        assert ("too long ago" in answer.err, "not an age" in answer.err) == (True, False)


def test_the_help_of_operation_ends_with_no_full_stop_behind_a_value(shared: Home) -> None:
    assert "policy.\n" not in shared.frost("tenant", "activity", "--help").out
