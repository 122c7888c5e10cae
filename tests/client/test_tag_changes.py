"""The difference between two sets of tags, and a set with given tags in it."""

from hypothesis import given
from hypothesis import strategies as st

from client.tables.default_tags import difference, merged

SETS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["", "1", "2"]))


@given(SETS, SETS)
def test_a_difference_turns_one_set_into_the_other(before: dict[str, str], after: dict[str, str]) -> None:
    result = difference(before, after)
    applied = {key: value for key, value in before.items() if key not in result.removed}
    applied |= result.added | {key: now for key, (_, now) in result.changed.items()}
    assert applied == after
    assert bool(result) is (before != after)
    assert not set(result.added) & set(before)
    assert all(before[key] == then and then != now for key, (then, now) in result.changed.items())
    assert len(result.lines()) == len(result.added) + len(result.changed) + len(result.removed)


@given(SETS, SETS)
def test_a_given_key_takes_the_given_value_and_no_other_goes(stored: dict[str, str], given_: dict[str, str]) -> None:
    result = merged(stored, given_)
    assert all(result[key] == value for key, value in given_.items())
    assert all(result[key] == stored[key] for key in set(stored) - set(given_))
    assert set(result) == set(stored) | set(given_)


def test_the_lines_are_sorted_by_key() -> None:
    result = difference({"b": "1", "a": "", "z": "9"}, {"b": "2", "c": "x=y", "a": "3"})
    assert result.lines() == ["~ a=3 (was empty)", "~ b=2 (was 1)", "+ c=x=y", "- z=9"]
    assert result.document() == {
        "added": {"c": "x=y"},
        "changed": {"a": {"from": "", "to": "3"}, "b": {"from": "1", "to": "2"}},
        "removed": {"z": "9"},
    }
