"""JSON answers: the bytes of the standard encoder, from one class."""

import re
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from starlette import responses

import service
from service.json_response import JSONResponse


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


@pytest.mark.parametrize("content", [datetime.now(UTC), {1, 2}, b"bytes", object(), "\ud800"], ids=type)
def test_a_value_without_a_json_form_is_refused(content: Any) -> None:
    with pytest.raises((TypeError, UnicodeEncodeError), match=r"not JSON serializable|surrogates"):
        JSONResponse({"value": content})


def test_no_other_json_response_is_used() -> None:
    imports = re.compile(r"from (starlette|fastapi)\.responses import [^\n]*(\([^)]*)?JSON")
    files = [*Path(service.__file__).parent.rglob("*.py")]
    assert len(files) > 100
    assert [file.name for file in files if imports.search(file.read_text())] == []
