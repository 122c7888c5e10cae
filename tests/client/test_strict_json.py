"""Strict JSON: refusals with their place, and agreement of the two readers."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from client.models.strict_json import MAX_REPEATED, StrictJsonError, loads, walk
from tests.effort import effort
from tests.json_values import VALUES


def error(data: bytes | str, **limits: Any) -> StrictJsonError:
    with pytest.raises(StrictJsonError) as caught:
        loads(data, **limits)
    return caught.value


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_json_round_trips(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert loads(text) == value
    assert loads(text.encode()) == value
    assert loads(b"\xef\xbb\xbf" + text.encode()) == value


@given(st.text('[]{},:"\\u0123dDeE+-. \n\ttruefalsnNI\ud800é', max_size=30))
@example("[1.]")
@example("-")
@example('{"a":1}}')
@example("[1e999]")
def test_both_readers_accept_the_same_json(text: str) -> None:
    def refused_by_walk() -> bool:
        try:
            for _ in walk(text):
                pass
        except StrictJsonError:
            return True
        return False

    try:
        loads(text)
    except StrictJsonError:
        assert refused_by_walk()
    else:
        assert not refused_by_walk()
        json.loads(text)


@pytest.mark.parametrize(
    ("text", "path", "line", "column", "reason"),
    [
        ('{"a": 1,\n "a": 2}', "$.a", 2, 2, 'the member "a" is duplicated'),
        ('{"a": 1, "\\u0061": 2}', "$.a", 1, 10, 'the member "a" is duplicated'),
        ('{"rules": [{"x": 1},\n  {"x": 1, "x": 2}]}', "$.rules[1].x", 2, 12, 'the member "x" is duplicated'),
        ("[1, NaN]", "$[1]", 1, 5, "NaN is not JSON"),
        ("-Infinity", "$", 1, 1, "-Infinity is not JSON"),
        ("[1e999]", "$[0]", 1, 2, "a number too large to be represented"),
        ("[" + "9" * 5000 + "]", "$[0]", 1, 2, "a number of more than 100 characters"),
        ('{"odd name": "\\ud800"}', '$["odd name"]', 1, 14, "a string with half a surrogate pair"),
        ('["\\udc00\\ud800"]', "$[0]", 1, 2, "a string with half a surrogate pair"),
        ("[1,]", "$[1]", 1, 4, "expected a value"),
        ("[01]", "$", 1, 3, "expected ',' or ']'"),
        ('{"a" 1}', "$.a", 1, 6, "expected ':'"),
        ("{a: 1}", "$", 1, 2, "expected a member name in double quotes"),
        ('{"a": 1,}', "$", 1, 9, "expected a member name in double quotes"),
        ("", "$", 1, 1, "the text ends without a value"),
        ('{"a": [', "$.a[0]", 1, 8, "the text ends without a value"),
        ('["a]', "$[0]", 1, 2, "the string is not closed"),
        ('{"a: 1,\n"b": 2}', "$", 1, 2, "the string is not closed"),
        ('["a\tb"]', "$[0]", 1, 2, "a control character in a string"),
        ('["a\\qb"]', "$[0]", 1, 2, "an unknown escape in a string"),
        ("{} {}", "$", 1, 4, "more text after the end of the document"),
        ("['a']", "$[0]", 1, 2, "expected a value"),
        ("// no\n1", "$", 1, 1, "expected a value"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, path: str, line: int, column: int, reason: str) -> None:
    mistake = error(text)
    assert (mistake.path, mistake.line, mistake.column, mistake.reason) == (path, line, column, reason)


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_a_hundred_thousand_levels_are_refused_at_once(opening: str) -> None:
    mistake, taken = effort(lambda: error(opening * 100_000))
    assert mistake.reason == "nested deeper than 64 levels"
    assert taken < 20


def test_the_deepest_that_is_allowed_is_read() -> None:
    assert loads("[" * 8 + "]" * 8, max_depth=8) == [[[[[[[[]]]]]]]]
    assert error("[" * 9 + "]" * 9, max_depth=8).column == 9
    assert loads("[" + "[]," * 500 + '"[[[[[["]', max_depth=2)[-1] == "[[[[[["


def test_another_encoding_and_broken_utf8_are_refused() -> None:
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"):
        assert "UTF-16 or UTF-32" in error('{"a": 1}'.encode(encoding)).reason
    broken = error(b'{"a":\n "\xff"}')
    assert (broken.reason, broken.line, broken.column) == ("not UTF-8", 2, 3)
    assert error(b'"\xed\xa0\x80"').reason == "not UTF-8"


def test_size_is_counted_in_bytes_and_half_a_pair_is_refused() -> None:
    assert loads('"ä"', max_bytes=4) == "ä"
    assert "longer than 3 bytes" in error('"ä"', max_bytes=3).reason
    assert "longer than 3 bytes" in error('"ä"'.encode(), max_bytes=3).reason
    assert error('["a", "\ud800"]').column == 8
    assert loads('"\\ud83d\\ude00"') == "😀"


def test_every_value_of_a_text_has_its_place() -> None:
    text = '{"a": [1, "x"], "b": {}}'
    assert list(walk(text)) == [((), 0), (("a",), 6), (("a", 0), 7), (("a", 1), 10), (("b",), 21)]


def test_a_long_member_name_does_not_fill_the_message() -> None:
    name = "\x1b" * 10_000
    mistake = error('{"' + "\\u001b" * 10_000 + '": 1, "' + "\\u001b" * 10_000 + '": 2}')
    assert name[:100] not in str(mistake)
    assert len(str(mistake)) < 1200
    assert str(mistake).isascii() or "…" in str(mistake)


def test_numbers_stay_what_they_are() -> None:
    assert loads("[1, 1.5, -0.0, 1e3]") == [1, 1.5, -0.0, 1000.0]
    assert math.copysign(1, loads("-0.0")) == -1
    assert isinstance(loads("12345678901234567890"), int)


def test_members_given_twice_can_be_noted_and_nothing_else_is_let_through() -> None:
    noted: list[StrictJsonError] = []
    assert loads('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}', repeated=noted) == {"a": 3, "b": {"c": 2}}
    assert [(one.path, one.column) for one in noted] == [("$.b.c", 24), ("$.a", 33)]
    for broken in ('{"a":1,"a":NaN}', '{"a":1,"a":2', '{"a":1,"a":"\\ud800"}', '{"a":1,"a":[[[]]]}'):
        with pytest.raises(StrictJsonError) as caught:
            loads(broken, max_depth=2, repeated=[])
        assert "duplicate" not in caught.value.reason
    with pytest.raises(StrictJsonError, match="duplicate"):
        loads("{" + ",".join(['"a":1'] * (MAX_REPEATED + 2)) + "}", repeated=[])


@pytest.mark.parametrize("element", ["1", '""', "[]", '{"a":1}', "[[[]]]"])
def test_the_place_of_an_error_costs_no_more_than_a_pass(element: str) -> None:
    """A broken body of 1 MB took seconds: twenty times a good one."""
    text = "[" + ",".join([element] * (2**19 // (len(element) + 1))) + ",]"
    mistake, taken = effort(lambda: error(text))
    assert (mistake.reason, mistake.column, mistake.line) == ("expected a value", len(text), 1)
    _, whole = effort(lambda: loads(text[:-2] + "]"))
    assert taken < 2 * whole + 200  # 407 before


@pytest.mark.slow
@pytest.mark.parametrize("element", ["[[[[1]]]]", "[[[[[[1]]]]]]", '{"a":1,"b":{"c":[]}}', '["\\n"]'])
def test_the_path_is_left_out_behind_too_many_values(element: str) -> None:
    """The path of the error cost ten times the good text; the line and the column are known without it."""
    many = ",".join([element] * 20_000)
    mistake, taken = effort(lambda: error(f"[{many},\n]"))
    assert (mistake.path, mistake.line, mistake.column) == ("$", 2, 1)
    assert mistake.reason.startswith("not JSON: ")
    _, whole = effort(lambda: loads(f"[{many}]"))
    assert taken < 2 * whole + 120


def test_the_reason_is_kept_behind_too_many_values() -> None:
    many = ",".join(["[[[[1]]]]"] * 20_000)
    assert error(f"[{many},NaN]").reason == "NaN is not JSON"
    assert error(f'[{many},{{"a":1,"a":2}}]').reason == "duplicate member"
    assert error(f"[{many},1e999]").reason == "a number too large to be represented"
    assert error(f'[{many},"\\ud800"]').reason == "a string with half a surrogate pair"
    assert error(f"[{many},[[[[[[[[]]]]]]]]]", max_depth=8).reason == "nested deeper than 8 levels"
