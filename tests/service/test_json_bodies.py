"""JSON bodies: both readers of requests agree with each other and with the models, and answers have the bytes of the
standard encoder."""

import json
import re
import weakref
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import example, given
from hypothesis import strategies as st
from starlette import responses

import service
from client.models import strict_json
from client.models.strict_json import MAX_DEPTH, StrictJsonError
from service import json_bodies
from service.authzen import request_bodies
from service.authzen.request_bodies import EvaluationRequest, EvaluationsRequest, parse_evaluation, parse_evaluations
from service.errors import ApiError
from service.json_bodies import MAX_PLAIN_BYTES, PORTION, JSONResponse, ListResponse, NotPlain
from tests.json_values import VALUES

TEXTS = st.text('[]{},:"\\u0123dDeE+-. \n\ttruefalsnNI\ufeffé', max_size=30)


class Entry(dict[str, Any]):
    """An entry of a list, which can be referred to weakly."""

    __hash__ = object.__hash__  # type: ignore[assignment]


EXAMPLES = ['{"a":1,"a":2}', '{"a":{"b":1,"b":2}}', '{"a":":","a":1}', '{"a":1,"a":2,"b":"\\u003a"}', "[1e999,-1E+999]"]
EXAMPLES += ["18446744073709551616", "-9223372036854775809", "1" * 101, "-0", "[1.0,1E5,-0.0]", '"\\ud800"', "NaN"]
EXAMPLES += ["\ufeff{}", ""]


def outcome(read: Any, data: bytes) -> Any:
    try:
        value = read(data)
    except StrictJsonError as error:
        return str(error)
    # Distinguishes 1, 1.0 and true, and the order of members.
    return repr(value)


def every_example(test: Callable[[str], None]) -> Callable[[str], None]:
    for text in EXAMPLES:
        test = example(text)(test)
    return test


@given(TEXTS)
@every_example
def test_a_text_has_the_same_value_or_error(text: str) -> None:
    data = text.encode()
    assert outcome(json_bodies.loads, data) == outcome(strict_json.loads, data)


@given(VALUES, st.sampled_from([None, 2]))
def test_a_value_is_read_as_it_was_written(value: Any, indent: int | None) -> None:
    data = json.dumps(value, ensure_ascii=False, indent=indent).encode()
    assert outcome(json_bodies.loads, data) == outcome(strict_json.loads, data)


def test_nesting_has_the_same_limit() -> None:
    for depth, innermost in product(range(MAX_DEPTH - 3, MAX_DEPTH + 3), ("", "1", '{"a":[]}')):
        data = ("[" * depth + innermost + "]" * depth).encode()
        assert outcome(json_bodies.loads, data) == outcome(strict_json.loads, data)


def test_a_text_that_is_not_json_has_the_same_error() -> None:
    for data in (b"\xff", b'"\xed\xa0\x80"', '{"a":1}'.encode("utf-16"), b'"\x01"', b"[1,]", b"01"):
        with pytest.raises(NotPlain):
            json_bodies.loads_plain(data)
        assert outcome(json_bodies.loads, data) == outcome(strict_json.loads, data)


def test_an_evaluation_is_plain_and_a_long_text_is_not() -> None:
    part = {"type": "user", "id": "4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5", "properties": {"n": 1.5, "é": True}}
    body = {"evaluations": [{"subject": part, "action": {"name": "compute:instances:start"}, "resource": part}] * 50}
    for indent in (None, 2):
        assert json_bodies.loads_plain(json.dumps(body, ensure_ascii=False, indent=indent).encode()) == body
    data = b'"' + b"a" * (MAX_PLAIN_BYTES - 2) + b'"'
    assert json_bodies.loads_plain(data) == "a" * (MAX_PLAIN_BYTES - 2)
    with pytest.raises(NotPlain):
        json_bodies.loads_plain(data + b" ")
    assert json_bodies.loads(data + b" ") == "a" * (MAX_PLAIN_BYTES - 2)


class Colour(StrEnum):
    RED = "red"


def test_an_answer_has_the_bytes_of_the_standard_encoder() -> None:
    deep: list[Any] = []
    for _ in range(400):
        deep = [deep]
    for content in (
        *({}, [], None, True, "Zoë, 東京, 🧊", {"colour": Colour.RED}, {1: "a number as a name"}, (1, ("two", [3]))),
        'quotes ", slashes / and \\, \x00 \x1f \x7f \u2028 \u2029 \b\f\n\r\t',
        [0, -1, 2**53, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, 10**99],
        [0.0, -0.0, 0.1, 1.5, 100.0, 1e15, 1e16, 123456789.123, 1e-4],
        {"b": 1, "a": {"nested": [{"deep": [[]]}]}, "": "", "é": None},
        ["x" * 100_000],
    ):
        assert JSONResponse(content).body == responses.JSONResponse(content).body, content
    assert JSONResponse(deep).body == b"[" * 401 + b"]" * 401


@pytest.mark.parametrize("size", [0, 1, PORTION, PORTION + 1, 3 * PORTION])
@pytest.mark.parametrize("others", [{}, {"next": None, "total": 2**64}], ids=len)
def test_a_list_is_encoded_in_portions_to_the_bytes_of_the_whole(size: int, others: dict[str, Any]) -> None:
    alive = weakref.WeakSet[Entry]()

    def entries() -> Iterator[Entry]:
        for number in range(size):
            entry = Entry(id=number, name="Zoë")
            alive.add(entry)
            assert len(alive) <= 2 * PORTION  # the former portion is freed after the next one is read
            yield entry

    response = ListResponse("entries", entries(), others)
    whole = JSONResponse({"entries": [{"id": number, "name": "Zoë"} for number in range(size)], **others})
    assert response.body == whole.body
    assert response.raw_headers == whole.raw_headers


@pytest.mark.parametrize("content", [datetime.now(UTC), {1, 2}, b"bytes", object(), "\ud800"], ids=type)
def test_a_value_without_a_json_form_is_refused(content: Any) -> None:
    with pytest.raises((TypeError, UnicodeEncodeError), match=r"not JSON serializable|surrogates"):
        JSONResponse({"value": content})


def test_no_other_json_response_is_used() -> None:
    imports = re.compile(r"from (starlette|fastapi)\.responses import [^\n]*(\([^)]*)?JSON")
    files = [*Path(service.__file__).parent.rglob("*.py")]
    assert len(files) > 100
    assert [file.name for file in files if imports.search(file.read_text())] == []


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
WRONG = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)
NAMES = st.text(max_size=3)
PROPERTIES = st.none() | st.dictionaries(NAMES, WRONG, max_size=2)


def part(*names: str) -> st.SearchStrategy[Any]:
    """A subject, action or resource: valid, without a member, or with another value of a member."""
    valid = st.fixed_dictionaries(dict.fromkeys(names, NAMES), optional={"properties": PROPERTIES, "other": WRONG})
    partial = st.fixed_dictionaries({}, optional={**dict.fromkeys(names, NAMES), "properties": WRONG})
    changed = st.fixed_dictionaries(dict.fromkeys(names, NAMES | WRONG))
    return valid | valid | partial | changed | WRONG


PARTS = {"subject": part("type", "id"), "action": part("name"), "resource": part("type", "id")}
EVALUATIONS = st.fixed_dictionaries(PARTS, optional={"context": PROPERTIES | WRONG, "other": WRONG})
ITEMS = st.fixed_dictionaries({}, optional=PARTS | {"context": PROPERTIES | WRONG}) | WRONG
BODIES = st.fixed_dictionaries(
    {},
    optional=PARTS | {"context": PROPERTIES, "evaluations": st.none() | st.lists(ITEMS, max_size=3), "options": WRONG},
)


def parsed_outcome(parse: Any, body: Any) -> EvaluationsRequest | str:
    try:
        parsed: EvaluationsRequest = parse(body)
    except RequestValidationError as error:
        return repr(error.errors()[0]["loc"]) + error.errors()[0]["msg"]
    except ApiError as error:
        return error.message
    return parsed


def by_model(parse: Any, body: Any) -> EvaluationsRequest | str:
    """Parse a body without the check by hand."""
    original = request_bodies._read
    try:
        request_bodies._read = lambda _: None  # type: ignore[assignment]
        return parsed_outcome(parse, body)
    finally:
        request_bodies._read = original


@given(EVALUATIONS | WRONG)
@example(
    {
        "subject": {"type": "user", "id": "a", "properties": []},
        "action": {"name": "b"},
        "resource": {"type": "c", "id": "d"},
    }
)
def test_an_evaluation_is_the_one_of_the_model(body: Any) -> None:
    assert parsed_outcome(parse_evaluation, body) == by_model(parse_evaluation, body)


@given(BODIES)
def test_evaluations_are_those_of_the_model(body: Any) -> None:
    assert parsed_outcome(parse_evaluations, body) == by_model(parse_evaluations, body)


def test_defaults_complete_members_and_properties_are_not_merged() -> None:
    body = {
        "subject": {"type": "user", "id": "ada"},
        "action": {"name": "read", "properties": {"a": "b"}},
        "resource": {"type": "instance"},
        "context": {"ip": "192.0.2.1"},
        "evaluations": [
            {"resource": {"id": "i"}},
            {"action": {}, "resource": {"id": "j", "type": "volume"}, "context": {}},
        ],
    }
    first, second = parse_evaluations(body).evaluations
    expected = EvaluationRequest("user", "ada", "read", {"a": "b"}, "instance", "i", None, {"ip": "192.0.2.1"})
    assert first == expected
    changed = {"action_properties": None, "resource_type": "volume", "resource_id": "j", "context": {}}
    assert second == expected._replace(**changed)
