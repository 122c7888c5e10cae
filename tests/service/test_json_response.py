"""JSON answers: the bytes of the standard encoder, from one class."""

import ast
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from starlette import responses

import service
from service.json_bodies import JSONResponse


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        None,
        True,
        "Zoë, 東京, 🧊",
        'quotes ", slashes / and \\, \x00 \x1f \x7f \u2028 \u2029 \b\f\n\r\t',
        [0, -1, 2**53, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, 10**99],
        [0.0, -0.0, 0.1, 1.5, 100.0, 1e15, 1e16, 123456789.123, 1e-4],
        {"b": 1, "a": {"nested": [{"deep": [[]]}]}, "": "", "é": None},
        {1: "a number as a name"},
        (1, ("two", [3])),
        {"colour": Colour.RED},
        ["x" * 100_000],
    ],
    ids=repr,
)
def test_an_answer_has_the_bytes_of_the_standard_encoder(content: Any) -> None:
    assert JSONResponse(content).body == responses.JSONResponse(content).body


@pytest.mark.parametrize("content", [datetime.now(UTC), {1, 2}, b"bytes", object(), "\ud800"], ids=type)
def test_a_value_without_a_json_form_is_refused(content: Any) -> None:
    with pytest.raises((TypeError, UnicodeEncodeError), match=r"not JSON serializable|surrogates"):
        JSONResponse({"value": content})


def test_deep_nesting_is_encoded() -> None:
    content: list[Any] = []
    for _ in range(400):
        content = [content]
    assert JSONResponse(content).body == b"[" * 401 + b"]" * 401


def test_no_other_json_response_is_used() -> None:
    folder = Path(service.__file__).parent
    others = [
        path.name
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and node.module in ("starlette.responses", "fastapi.responses")
        and any("JSON" in name.name for name in node.names)
    ]
    assert others == []
