"""Each request in docs/decision-point.md gets the answer that follows it there."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.homes import Home

DOCUMENT = Path(__file__).parents[2] / "docs" / "decision-point.md"
EXAMPLE = re.compile(r"```http\n(GET|POST) (\S+)\n(.*?)```\n\n```json\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall(DOCUMENT.read_text())


@pytest.fixture(scope="module")
def key(shared: Home) -> str:
    """A key that was created by the command of the document."""
    options = re.search(r"KEY=\$\(frost -q (account api-key create .*)\)$", DOCUMENT.read_text(), re.MULTILINE)
    assert options
    shared.sign_in()
    result = shared.frost("-q", *options[1].split())
    assert result.code == 0, result
    return result.out.strip()


def masked(answer: Any, example: Any) -> Any:
    """The answer with `…` in place of values that have it in the example."""
    if example == "…" and answer:
        return "…"
    if isinstance(example, dict) and isinstance(answer, dict):
        return {name: masked(value, example.get(name)) for name, value in answer.items()}
    return answer


@pytest.mark.parametrize(("method", "path", "body", "expected"), EXAMPLES)
def test_a_request_has_the_answer_of_the_document(
    shared: Home, key: str, method: str, path: str, body: str, expected: str
) -> None:
    answer = shared.request(method, path, key=key, body=json.loads(body) if body.strip() else None)
    assert answer.status == 200, answer
    assert masked(answer.json(), json.loads(expected)) == json.loads(expected)


def test_the_document_has_an_example_for_each_endpoint() -> None:
    paths = {path for _, path, _, _ in EXAMPLES}
    assert set(re.findall(r"http://localhost(/access/\S+?)\"", DOCUMENT.read_text())) <= paths
    assert DOCUMENT.read_text().count("```http") == len(EXAMPLES) == 9


def test_errors_have_the_text_of_the_document(shared: Home, key: str) -> None:
    text = DOCUMENT.read_text()
    body = {"subject": {"type": "user", "id": "member@aurora.example"}, "action": {"name": "start"}}
    answer = shared.request("POST", "/access/v1/evaluation", key=key, body=body)
    assert answer.status == 400
    assert f"| 400 | a member is missing or has the wrong type | `{answer.body.decode()}` |" in text
    other = shared.frost("-q", "account", "api-key", "create", "--name", "other", "--scopes", "compute:read")
    answer = shared.request("POST", "/access/v1/evaluation", key=other.out.strip(), body=body)
    assert answer.status == 403
    assert f"| 403 | the key lacks the scope | `{answer.body.decode()}` |" in text
    assert shared.request("POST", "/access/v1/evaluation", body=body).status == 401
