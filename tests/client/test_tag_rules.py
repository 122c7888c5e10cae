"""The rules of default tags: every edge of every rule, and differences of sets."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.models import validation
from client.models.validation import problem_of_key, problem_of_set, problem_of_value
from client.tables.default_tags import difference, merged

KEY_ENDS = set(string.ascii_letters + string.digits)
KEY_CHARACTERS = KEY_ENDS | set("._:-")
VALUE_CHARACTERS = KEY_ENDS | set("+-._:/@ =")
LOOK_ALIKES = (
    "\u212a\u017f\u0130\u0131\uff41\uff3f\uff0d\u2010\u0430\u0660\u00b2\u00ad\u200b\u00a0\u0301\U0001d5ba\ud800"
)
"""Characters that folding or normalising turns into an allowed one, invisible ones, and half a surrogate pair."""
CHARACTERS = [*map(chr, range(256)), *LOOK_ALIKES]


def test_every_character_at_every_place() -> None:
    for character in CHARACTERS:
        texts = (f"{character}bc", f"b{character}c", f"bc{character}")
        for place, (text, allowed) in enumerate(zip(texts, (KEY_ENDS, KEY_CHARACTERS, KEY_ENDS), strict=True)):
            problem = problem_of_key(text)
            assert (problem is None) == (character in allowed), text
            assert problem is None or (problem.reason, problem.index) == ("key_charset", place)
            problem = problem_of_value("env", text)
            assert (problem is None) == (character in VALUE_CHARACTERS), text
            assert problem is None or (problem.reason, problem.index) == ("value_charset", place)


def test_every_length_in_bytes() -> None:
    for length in (0, 1, 2, 63, 64, 65, 255, 256):
        assert reason_of(problem_of_key("k" * length)) == ("" if 1 <= length <= 64 else "key_length")
        assert reason_of(problem_of_value("env", "v" * length)) == ("" if length <= 255 else "value_length")
    for key, value, part in (("å" * 33, "å" * 128, "length"), ("å" * 32, "å" * 127, "charset")):
        assert reason_of(problem_of_key(key)) == f"key_{part}"
        assert reason_of(problem_of_value("env", value)) == f"value_{part}"


def reason_of(problem: validation.Problem | None) -> str:
    return problem.reason if problem else ""


def every_case(word: str) -> set[str]:
    return {word, word.upper(), word.title(), word.swapcase(), word[:-1] + word[-1].upper()}


@pytest.mark.parametrize("prefix", ["frostmoln_", "frostmoln-", "os_", "instance_", "nova_", "__"])
def test_reserved_prefixes_are_refused_in_any_case(prefix: str) -> None:
    for one in every_case(prefix):
        for key in (one, one + "x", one + "x" * 80, one + "!"):
            assert reason_of(problem_of_key(key)) == "reserved_prefix"
    for near in (prefix[:-1], "x" + prefix, prefix[:-1] + ":x"):
        assert reason_of(problem_of_key(near)) != "reserved_prefix"


RESERVED_KEYS = (
    *("acl", "cors-config", "created-at", "customer-id", "project-id"),
    *("quota-bytes", "request-id", "storage-class", "tenant-id"),
)


@pytest.mark.parametrize("key", RESERVED_KEYS)
def test_reserved_keys_are_refused_in_any_case(key: str) -> None:
    for one in every_case(key):
        assert reason_of(problem_of_key(one)) == "reserved_key"
    for near in (key + "x", "x" + key, key.replace("-", "_") if "-" in key else key[:-1], key.replace("-", "")[:-1]):
        assert problem_of_key(near) is None, near


def test_look_alikes_neither_make_nor_hide_a_reserved_key() -> None:
    look_alikes = ("o\u017f_type", "\uff4fs_type", "\u0130nstance_name", "\u0131nstance_name", "nova\uff3fx")
    for key in (*look_alikes, "reque\u017ft-id", "\u212a", "acl\u200b", "quota\u2010bytes"):
        assert reason_of(problem_of_key(key)) == "key_charset", key


@pytest.mark.parametrize(
    ("key", "value", "first"),
    [
        ("frostmoln_" + "x" * 80 + "!", "v" * 300, "reserved_prefix"),
        ("", "#", "key_length"),
        ("__x", "#", "reserved_prefix"),
        ("acl", "v" * 300, "reserved_key"),
        ("k" * 65 + "!", "#", "key_length"),
        ("a b", "v" * 300, "key_charset"),
        ("ok", "#" * 300, "value_length"),
        ("ok", "#", "value_charset"),
    ],
)
def test_the_first_check_that_fails_is_the_reason_and_the_key_is_named(key: str, value: str, first: str) -> None:
    problem = problem_of_set({key: value})
    assert problem
    assert (problem.reason, problem.key) == (first, key)
    assert f'"{key[:80]}' in problem.message


def test_eleven_tags_are_refused_before_any_is_checked_and_keys_in_their_order() -> None:
    assert problem_of_set({}) is None
    assert problem_of_set({f"k{number}": "" for number in range(10)}) is None
    problem = problem_of_set({f"_{number}": "" for number in range(11)})
    assert problem
    assert (problem.reason, problem.key) == ("count", None)
    assert all(number in problem.message for number in ("10", "11"))
    problem = problem_of_set({"z": "#", "_b": "", "a": "#"})
    assert problem
    assert (problem.key, problem.reason) == ("_b", "key_charset")
    problem = problem_of_key("k" * 1_000_000)
    assert problem
    assert len(problem.message) < 200


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
