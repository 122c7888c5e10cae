"""Compares the author check with exhaustive enumeration, and tests cases that are easy to get wrong."""

import random
from collections import Counter
from typing import Any

import pytest

from client.policy.containment import Answer, check
from client.policy.engine import granted_rules
from client.policy.matching import parse_target
from client.policy.model import Document, Rule
from tests.effort import effort
from tests.policy import enumeration, worlds
from tests.policy.comparisons import (
    ALL,
    BEYOND,
    BOTH_HALVES,
    WITHIN,
    allow,
    asked,
    confirmed,
    deny,
    pair,
    ranges,
    rules,
)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 60))])
def test_the_check_agrees_with_the_enumeration(seed: int) -> None:
    chance, answers = random.Random(seed), Counter[Answer]()
    for _ in range(40):
        draft, author = pair(chance, chance.choice((0, 0, 1, 1, 2)))
        escape = enumeration.escapes(draft, author, "t1")
        result = asked(draft, author)
        answers[result.answer] += 1
        if result.answer is Answer.WITHIN:
            assert escape is None, (draft, author)
        else:
            assert confirmed(result, draft, author), (draft, author)
    assert min(answers[Answer.WITHIN], answers[Answer.BEYOND]) > 5
    assert answers[Answer.UNDECIDED] == 0


@pytest.mark.parametrize(("expected", "cases"), [(Answer.WITHIN, WITHIN), (Answer.BEYOND, BEYOND)])
def test_cases_that_random_rules_seldom_have(expected: Answer, cases: dict[str, tuple[list[Rule], list[Rule]]]) -> None:
    for name, (draft, author) in cases.items():
        assert asked(draft, author).answer is expected, name


def test_counterexamples_of_future_operations_and_of_a_deny() -> None:
    result = asked(rules(allow("*")), rules(allow(*worlds.CATALOGUE)))
    assert result.answer is Answer.BEYOND
    assert result.examples
    assert all(example.future for example in result.examples)
    (example, *_) = asked(rules(allow("*")), rules(allow("*"), deny("*:*:delete"))).examples
    assert example.author_deny is not None
    assert (example.author_deny.index, example.request.operation.split(":")[2]) == (1, "delete")


def test_a_comparison_that_exceeds_its_steps_or_work_is_undecided() -> None:
    author = granted_rules(Document(tuple(BOTH_HALVES)))
    draft = Document(tuple(rules(allow("*", **ranges("10.0.0.0/8")))))
    for one in (draft, Document(tuple(ALL))):
        result = check(one, author, tenant="t", catalogue=(), max_steps=0)
        assert (result.answer, result.examples) == (Answer.UNDECIDED, ())
    for units in range(0, 400, 20):
        assert check(draft, (), tenant="t", catalogue=(), max_work=units).answer is not Answer.WITHIN


def test_a_counterexample_has_a_region_that_exists_if_there_is_one() -> None:
    def regions(draft: list[Rule], author: list[Rule]) -> list[tuple[str, str | None, bool]]:
        rights = granted_rules(Document(tuple(author)))
        known = {"tenant": "t1", "catalogue": worlds.CATALOGUE, "regions": ("eu", "us")}
        examples = check(Document(tuple(draft)), rights, **known).examples
        return [(parse_target(one.request.target).region, one.request.context.region, one.future) for one in examples]

    anywhere = rules(allow("compute:instances:read", constraints={"like": {"frn:region": "*"}}))
    eu = {"equals": {"frn:region": "eu"}}
    assert regions(anywhere, rules(allow("storage:*"))) == [("eu", "eu", False)]
    assert regions(anywhere, rules(allow("*", constraints=eu))) == [("us", "us", False)]
    both = rules(allow("*", constraints=eu), allow("*", targets=["frn:*:us:*:*/*"]))
    # Only regions that do not exist escape: refused, and marked.
    ((region, fact, future),) = regions(anywhere, both)
    assert (region not in ("eu", "us", "*"), fact, future) == (True, region, True)
    assert regions(rules(allow("compute:instances:read")), both) == [("*", None, False)]


# Few rules, each of which doubles the number of classes of requests

WORDS = [f"confidential-{number:02}-project" for number in range(30)]
BY_TAG = [{"constraints": {"like": {"frn:resourceTag/env": f"*{word}*"}}} for word in WORDS]
BY_ID = [{"targets": [f"frn:*:*:*:*/*-{word}-*"]} for word in WORDS]


def bounded(draft: list[Rule], author: list[Rule]) -> Answer:
    """The answer within a fortieth of the steps and a tenth of the work that a check may take."""
    rights = granted_rules(Document(tuple(author)))
    bounds = {"max_steps": 1_250, "max_work": 400_000}
    return check(Document(tuple(draft)), rights, tenant="t1", catalogue=worlds.CATALOGUE, **bounds).answer


@pytest.mark.parametrize("each", [BY_TAG, BY_ID])
@pytest.mark.parametrize("number", [10, 15, 30])
def test_many_denies_with_a_word_between_stars_are_decided(each: list[dict[str, Any]], number: int) -> None:
    denies = [deny("*", **one) for one in each[:number]]
    draft = rules(allow("compute:*"), *denies)
    everything, others = rules(allow("*")), rules(allow("*"), deny("storage:*"))
    for author in (everything, others, draft, rules(allow("*"), *denies)):
        assert bounded(draft, author) is Answer.WITHIN
    assert bounded(draft, rules(allow("*:*:read"))) is Answer.BEYOND
    assert bounded(rules(allow("compute:*")), draft) is Answer.BEYOND
    assert bounded(rules(allow("compute:*"), *denies[1:]), draft) is Answer.BEYOND


def test_a_deny_that_is_needed_is_found_among_many() -> None:
    lacking = rules(allow("*"), deny("compute:*", constraints={"like": {"frn:resourceTag/env": f"*{WORDS[17]}*"}}))
    denies = [deny("*", **one) for one in BY_TAG]
    assert bounded(rules(allow("compute:*"), *denies), lacking) is Answer.WITHIN
    assert bounded(rules(allow("compute:*"), *denies[:17], *denies[18:]), lacking) is Answer.BEYOND
    # Not by a rule that says the same, but by one that holds more.
    wider = [*denies[:17], deny("*", constraints={"like": {"frn:resourceTag/env": "*confidential-17-*"}}), *denies[18:]]
    assert bounded(rules(allow("compute:*"), *wider), lacking) is Answer.WITHIN


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("number", "times"), [(4, 75), (100, 1), (400, 1), (500, 1)])
def test_rules_are_within_themselves_also_with_fewer_denies(seed: int, number: int, times: int) -> None:
    chance = random.Random(8000 + seed)
    for _ in range(times):
        draft = [worlds.rule(chance) for _ in range(number)]
        author = [*draft, worlds.rule(chance, deny=0)]
        chance.shuffle(author)
        assert bounded(draft, author) is Answer.WITHIN
        fewer = [rule for rule in author if not rule.denies or chance.random() < 0.5]
        assert bounded(draft, fewer) is Answer.WITHIN


LETTERS = "".join(map(chr, range(0x4E00, 0x4E00 + 20_000)))
LARGE = {
    "types and ids": rules(allow("*", targets=[f"frn:*:*:*:t{number}/i{number}" for number in range(6_000)])),
    "a long glob": rules(allow("*", targets=[f"frn:*:*:*:t/{LETTERS}*"])),
    "a glob of stars": rules(allow("*", targets=[f"frn:*:*:*:t/{'a*' * 100_000}"])),
    "globs": rules(allow("*"), deny("*", targets=[f"frn:*:*:*:t{number}/*{number}*" for number in range(3_000)])),
    "blocks": rules(allow("*", **ranges(*(f"10.{n // 128}.{n % 128 * 2}.0/24" for n in range(9_000))))),
    "keys": rules(
        allow("*"), deny("*", constraints={"equals": {f"frn:resourceTag/k{number}": "v" for number in range(5_000)}})
    ),
    "values": rules(*(allow("*", constraints={"equals": {"frn:region": f"r{number}"}}) for number in range(500))),
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind == "a long glob" else kind for kind in LARGE]
)
def test_large_documents_are_compared_in_bounded_time(kind: str) -> None:
    found, taken = effort(lambda: asked(LARGE[kind], rules(allow("storage:volumes:read"), deny("*:*:delete"))))
    assert found.answer in (Answer.BEYOND, Answer.UNDECIDED)
    assert taken < 2_000
