"""The difference between two sets of tags, and a set with given tags in it."""

from hypothesis import given
from hypothesis import strategies as st

from client.tables.default_tags import difference, merged

SETS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["", "1", "2"]))


@given(SETS, SETS)
def test_a_difference_turns_one_set_into_the_other(before: dict[str, str], after: dict[str, str]) -> None:
    found = difference(before, after)
    made = {key: value for key, value in before.items() if key not in found.removed}
    made |= found.added | {key: now for key, (_, now) in found.changed.items()}
    assert made == after
    assert bool(found) is (before != after)
    assert not set(found.added) & set(before)
    assert all(before[key] == then and then != now for key, (then, now) in found.changed.items())
    assert len(found.lines()) == len(found.added) + len(found.changed) + len(found.removed)


@given(SETS, SETS)
def test_a_given_key_takes_the_given_value_and_no_other_goes(stored: dict[str, str], given_: dict[str, str]) -> None:
    found = merged(stored, given_)
    assert all(found[key] == value for key, value in given_.items())
    assert all(found[key] == stored[key] for key in set(stored) - set(given_))
    assert set(found) == set(stored) | set(given_)


def test_the_lines_are_sorted_by_key() -> None:
    found = difference({"b": "1", "a": "", "z": "9"}, {"b": "2", "c": "x=y", "a": "3"})
    assert found.lines() == ["~ a=3 (was empty)", "~ b=2 (was 1)", "+ c=x=y", "- z=9"]
    assert found.document() == {
        "added": {"c": "x=y"},
        "changed": {"a": {"from": "", "to": "3"}, "b": {"from": "1", "to": "2"}},
        "removed": {"z": "9"},
    }
