"""Evaluations that are checked by hand are those that the models accept."""

from typing import Any

from fastapi.exceptions import RequestValidationError
from hypothesis import example, given
from hypothesis import strategies as st

from service.authzen import request_bodies
from service.authzen.request_bodies import EvaluationRequest, EvaluationsRequest, parse_evaluation, parse_evaluations
from service.errors import ApiError

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


def outcome(parse: Any, body: Any) -> EvaluationsRequest | str:
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
        return outcome(parse, body)
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
    assert outcome(parse_evaluation, body) == by_model(parse_evaluation, body)


@given(BODIES)
def test_evaluations_are_those_of_the_model(body: Any) -> None:
    assert outcome(parse_evaluations, body) == by_model(parse_evaluations, body)


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
