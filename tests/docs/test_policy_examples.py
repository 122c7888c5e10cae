"""The decisions in docs/policies.md are those of a real platform."""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.docs.pages import ROOT, Page
from tests.homes import Home

PAGE = Page(ROOT / "docs" / "policies.md")
EXAMPLE = re.compile(r"```json\n(?P<document>[^`]*)```\n\n(?P<requests>(?:\|.*\n)+)")
ERRORS = re.compile(r"```json\n(?P<document>[^`]*)```\n\n```text\n(?P<problems>\d[^`]*)```")
REQUEST = re.compile(r"\| `(?P<options>--operation .*)` \| (?P<decision>.*) \|")


class Example(NamedTuple):
    document: str
    options: str
    decision: str


def examples() -> Iterator[Example]:
    for example in EXAMPLE.finditer(PAGE.text):
        for row in REQUEST.finditer(example["requests"]):
            yield Example(example["document"], row["options"], row["decision"])


def decision_text(answer: dict[str, Any]) -> str:
    """Return an answer of the simulator in the words of the document."""
    if answer["decidingRule"] is not None:
        return f"{answer['decision']} by rule {answer['decidingRule']['index'] + 1}"
    return f"{answer['decision']}: " + {
        "no_match": "no rule matches",
        "unknown_context": "not enough is known",
    }.get(answer["reason"], answer["reason"])


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.options)
def test_a_request_has_the_decision_of_its_row(shared: Home, example: Example) -> None:
    answer = shared.json("iam", "simulate", "--document", example.document, *shlex.split(example.options))
    assert decision_text(answer) == example.decision


def test_every_valid_document_has_requests() -> None:
    documents = {block.text for block in PAGE.code_blocks if block.language == "json"}
    wrong = {match["document"] for match in ERRORS.finditer(PAGE.text)}
    assert {example.document for example in examples()} == documents - wrong
    assert all(json.loads(document) for document in documents)


def test_a_wrong_document_is_refused_with_the_problems_that_the_text_shows(shared: Home) -> None:
    (wrong,) = ERRORS.finditer(PAGE.text)
    result = shared.frost("iam", "policy", "check", "--document", wrong["document"])
    assert result.code == 2
    problems = wrong["problems"].replace("\n      ", " ").splitlines()
    assert [line.removeprefix("  --document:") for line in result.err.splitlines()[1:]] == problems
