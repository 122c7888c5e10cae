"""Both readers of request bodies agree."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from client.models import strict_json
from client.models.strict_json import MAX_DEPTH, StrictJsonError
from service import json_bodies
from service.json_bodies import MAX_PLAIN_BYTES, NotPlain
from tests.json_values import VALUES

TEXTS = st.text('[]{},:"\\u0123dDeE+-. \n\ttruefalsnNI\ufeffé', max_size=30)


def outcome(read: Any, data: bytes) -> Any:
    try:
        value = read(data)
    except StrictJsonError as error:
        return str(error)
    # Distinguishes 1, 1.0 and true, and the order of members.
    return repr(value)


@settings(deadline=None)
@given(TEXTS)
@example('{"a":1,"a":2}')
@example('{"a":{"b":1,"b":2}}')
@example('{"a":":","a":1}')
@example('{"a":1,"a":2,"b":"\\u003a"}')
@example("18446744073709551616")
@example("-9223372036854775809")
@example("[1e999,-1E+999]")
@example("1" * 101)
@example("-0")
@example("[1.0,1E5,-0.0]")
@example('"\\ud800"')
@example("NaN")
@example("\ufeff{}")
@example("")
def test_a_text_has_the_same_value_or_error(text: str) -> None:
    data = text.encode()
    assert outcome(json_bodies.loads, data) == outcome(strict_json.loads, data)


@settings(deadline=None)
@given(VALUES, st.sampled_from([None, 2]))
def test_a_value_is_read_as_it_was_written(value: Any, indent: int | None) -> None:
    data = json.dumps(value, ensure_ascii=False, indent=indent).encode()
    assert outcome(json_bodies.loads, data) == outcome(strict_json.loads, data)


@pytest.mark.parametrize("innermost", ["", "1", '{"a":[]}'])
@pytest.mark.parametrize("depth", range(MAX_DEPTH - 3, MAX_DEPTH + 3))
def test_nesting_has_the_same_limit(depth: int, innermost: str) -> None:
    data = ("[" * depth + innermost + "]" * depth).encode()
    assert outcome(json_bodies.loads, data) == outcome(strict_json.loads, data)


@pytest.mark.parametrize("data", [b"\xff", b'"\xed\xa0\x80"', '{"a":1}'.encode("utf-16"), b'"\x01"', b"[1,]", b"01"])
def test_a_text_that_is_not_json_has_the_same_error(data: bytes) -> None:
    with pytest.raises(NotPlain):
        json_bodies.loads_plain(data)
    assert outcome(json_bodies.loads, data) == outcome(strict_json.loads, data)


def test_a_long_text_is_not_plain() -> None:
    data = b'"' + b"a" * (MAX_PLAIN_BYTES - 2) + b'"'
    assert json_bodies.loads_plain(data) == "a" * (MAX_PLAIN_BYTES - 2)
    with pytest.raises(NotPlain):
        json_bodies.loads_plain(data + b" ")
    assert json_bodies.loads(data + b" ") == "a" * (MAX_PLAIN_BYTES - 2)


def test_an_evaluation_is_plain() -> None:
    part = {"type": "user", "id": "4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5", "properties": {"n": 1.5, "é": True}}
    body = {"evaluations": [{"subject": part, "action": {"name": "compute:instances:start"}, "resource": part}] * 50}
    for indent in (None, 2):
        assert json_bodies.loads_plain(json.dumps(body, ensure_ascii=False, indent=indent).encode()) == body
