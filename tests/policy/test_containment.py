"""Compares the author check with exhaustive enumeration, and tests cases that are easy to get wrong."""

import random
from dataclasses import replace
from typing import Any

import pytest

from client.policy.containment import Answer, check
from client.policy.engine import granted_rules
from client.policy.matching import ANY_TARGET, parse_target
from client.policy.model import Document, Rule
from tests.effort import effort
from tests.policy import enumeration, worlds
from tests.policy.comparisons import TAG, allow, asked, confirmed, deny, disagreement, pair, ranges, rules


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_the_check_agrees_with_trying_every_request_of_a_small_universe(seed: int) -> None:
    assert disagreement(seed, 40) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 108))
def test_the_same_at_length(seed: int) -> None:
    assert disagreement(seed, 250) is None


def test_both_answers_are_met_often_enough_to_mean_something() -> None:
    chance = random.Random(0)
    answers = [asked(*pair(chance, 1)).answer for _ in range(200)]
    assert min(answers.count(Answer.WITHIN), answers.count(Answer.BEYOND)) > 40


# Traps


def answer(draft: list[Rule], author: list[Rule]) -> Answer:
    return asked(draft, author).answer


def test_todays_operations_one_by_one_do_not_hold_a_star() -> None:
    found = asked(rules(allow("*")), rules(allow(*worlds.CATALOGUE)))
    assert found.answer is Answer.BEYOND
    assert found.examples
    assert all(example.future for example in found.examples)
    assert answer(rules(allow(*worlds.CATALOGUE)), rules(allow("*"))) is Answer.WITHIN


def test_two_ranges_together_hold_one() -> None:
    halves = rules(allow("*", **ranges("10.0.0.0/9")), allow("*", **ranges("10.128.0.0/9")))
    assert answer(rules(allow("*", **ranges("10.0.0.0/8"))), halves) is Answer.WITHIN
    assert answer(rules(allow("*", **ranges("10.0.0.0/7"))), halves) is Answer.BEYOND


def test_every_address_of_version_6_holds_none_of_version_4() -> None:
    assert answer(rules(allow("*", **ranges("10.0.0.0/8"))), rules(allow("*", **ranges("::/0")))) is Answer.BEYOND
    both = rules(allow("*", **ranges("::/0", "0.0.0.0/0")))
    assert answer(rules(allow("*", **ranges("10.0.0.0/8", "2001:db8::/32"))), both) is Answer.WITHIN
    # A draft without the constraint also allows a request whose address nobody knows.
    assert answer(rules(allow("*")), both) is Answer.BEYOND


def test_a_mapped_block_is_one_of_version_4() -> None:
    mapped, plain = rules(allow("*", **ranges("::ffff:10.0.0.0/104"))), rules(allow("*", **ranges("10.0.0.0/8")))
    assert answer(mapped, plain) is answer(plain, mapped) is Answer.WITHIN


def test_a_deny_of_the_draft_makes_up_for_one_of_the_author() -> None:
    author = rules(allow("*"), deny("*:*:delete", targets=["frn:compute:*:*:*/*"]))
    assert answer(rules(allow("*")), author) is Answer.BEYOND
    assert answer(rules(allow("*"), deny("compute:*")), author) is Answer.WITHIN
    assert answer(rules(allow("*"), deny("compute:instances:*")), author) is Answer.BEYOND


def test_a_counterexample_of_a_deny_names_it() -> None:
    (example, *_) = asked(rules(allow("*")), rules(allow("*"), deny("*:*:delete"))).examples
    assert example.author_deny is not None
    assert (example.author_deny.index, example.request.operation.split(":")[2]) == (1, "delete")


def test_the_documents_tenant_is_the_only_one() -> None:
    here = rules(allow("*", targets=["frn:*:*:t1:*/*"]))
    assert answer(rules(allow("*")), here) is Answer.WITHIN
    assert answer(rules(allow("*")), rules(allow("*", targets=["frn:*:*:t2:*/*"]))) is Answer.BEYOND


def test_tags_are_unknown_only_together() -> None:
    def tagged(operator: str, key: str, value: str) -> dict[str, Any]:
        return {"constraints": {operator: {f"frn:resourceTag/{key}": value}}}

    # Whoever knows that one tag is there knows of every other whether it is.
    author = rules(allow("*", **tagged("equals", "env", "dev")), allow("*", **tagged("notEquals", "env", "dev")))
    assert answer(rules(allow("*", **tagged("equals", "team", "web"))), author) is Answer.WITHIN
    assert answer(rules(allow("*")), author) is Answer.BEYOND


def test_a_comparison_that_exceeds_its_steps_is_undecided() -> None:
    halves = rules(allow("*", **ranges("10.0.0.0/9")), allow("*", **ranges("10.128.0.0/9")))
    for draft in (rules(allow("*", **ranges("10.0.0.0/8"))), rules(allow("*"))):
        found = check(
            Document(tuple(draft)), granted_rules(Document(tuple(halves))), tenant="t", catalogue=(), max_steps=0
        )
        assert (found.answer, found.examples) == (Answer.UNDECIDED, ())


# Region and tenant


def test_the_region_constraint_and_the_region_of_the_target_are_the_same_region() -> None:
    def only(operator: str, region: str) -> dict[str, Any]:
        return {"constraints": {operator: {"frn:region": region}}}

    here = {"targets": ["frn:compute:eu:*:instances/*"]}
    assert answer(rules(allow("*", **here)), rules(allow("*", **only("equals", "eu")))) is Answer.WITHIN
    assert answer(rules(allow("*", **here)), rules(allow("*", **only("like", "*u")))) is Answer.WITHIN
    assert answer(rules(allow("*", **here)), rules(allow("*", **only("notEquals", "us")))) is Answer.WITHIN
    assert answer(rules(allow("*", **here)), rules(allow("*", **only("equals", "us")))) is Answer.BEYOND
    assert answer(rules(allow("*", **only("equals", "eu"))), rules(allow("*", **here))) is Answer.BEYOND
    everywhere = {"targets": ["frn:*:eu:*:*/*"]}
    assert answer(rules(allow("*", **only("equals", "eu"))), rules(allow("*", **everywhere))) is Answer.WITHIN
    denied = rules(allow("*"), deny("*", **only("equals", "us")))
    assert answer(rules(allow("*", **here)), denied) is Answer.WITHIN
    assert answer(rules(allow("*")), denied) is Answer.BEYOND
    # A request without a region meets no constraint on one, and no target that names one.
    assert answer(rules(allow("*")), rules(allow("*", **only("like", "*")))) is Answer.BEYOND


def test_the_tenant_constraint_is_decided_by_the_tenant_of_the_document() -> None:
    def only(operator: str, tenant: str) -> dict[str, Any]:
        return {"constraints": {operator: {"frn:tenant": tenant}}}

    assert answer(rules(allow("*")), rules(allow("*", **only("equals", "t1")))) is Answer.WITHIN
    assert answer(rules(allow("*")), rules(allow("*", **only("like", "t*")))) is Answer.WITHIN
    assert answer(rules(allow("*")), rules(allow("*", **only("equals", "t2")))) is Answer.BEYOND
    assert answer(rules(allow("*", **only("equals", "t2"))), rules(allow("storage:*"))) is Answer.WITHIN
    assert answer(rules(allow("*")), rules(allow("*"), deny("*", **only("notEquals", "t1")))) is Answer.WITHIN
    assert answer(rules(allow("*")), rules(allow("*"), deny("*", **only("notEquals", "t2")))) is Answer.BEYOND


@pytest.mark.parametrize("value", ["", "*", "e u", "a:b", "a/b"])
def test_a_text_that_is_no_region_is_no_request(value: str) -> None:
    """No request has such a region, so an allow for it gives nothing."""
    draft = rules(allow("*", constraints={"equals": {"frn:region": value}}))
    assert answer(draft, rules(allow("storage:volumes:read"))) is Answer.WITHIN


def test_a_counterexample_has_a_region_that_exists_if_there_is_one() -> None:
    def regions(draft: list[Rule], author: list[Rule]) -> list[tuple[str, str | None, bool]]:
        found = check(
            Document(tuple(draft)),
            granted_rules(Document(tuple(author))),
            tenant="t1",
            catalogue=worlds.CATALOGUE,
            regions=("eu", "us"),
        )
        return [
            (parse_target(one.request.target).region, one.request.context.region, one.future) for one in found.examples
        ]

    anywhere = rules(allow("compute:instances:read", constraints={"like": {"frn:region": "*"}}))
    eu = {"equals": {"frn:region": "eu"}}
    assert regions(anywhere, rules(allow("storage:*"))) == [("eu", "eu", False)]
    assert regions(anywhere, rules(allow("*", constraints=eu))) == [("us", "us", False)]
    both = rules(allow("*", constraints=eu), allow("*", targets=["frn:*:us:*:*/*"]))
    # Only regions that do not exist escape: refused, and marked.
    ((region, fact, future),) = regions(anywhere, both)
    assert (region not in ("eu", "us", "*"), fact, future) == (True, region, True)
    assert regions(rules(allow("compute:instances:read")), both) == [("*", None, False)]


# Few rules of which each doubles what must be told apart

WORDS = [f"confidential-{number:02}-project" for number in range(30)]
BY_TAG = [{"constraints": {"like": {"frn:resourceTag/env": f"*{word}*"}}} for word in WORDS]
BY_ID = [{"targets": [f"frn:*:*:*:*/*-{word}-*"]} for word in WORDS]


def bounded(draft: list[Rule], author: list[Rule]) -> Answer:
    """The answer within a fortieth of the steps and a tenth of the work that a check may take."""
    return check(
        Document(tuple(draft)),
        granted_rules(Document(tuple(author))),
        tenant="t1",
        catalogue=worlds.CATALOGUE,
        max_steps=1_250,
        max_work=400_000,
    ).answer


@pytest.mark.parametrize("each", [BY_TAG, BY_ID])
@pytest.mark.parametrize("number", [10, 15, 30])
def test_many_denies_with_a_word_between_stars_are_decided(each: list[dict[str, Any]], number: int) -> None:
    denies = [deny("*", **one) for one in each[:number]]
    draft = rules(allow("compute:*"), *denies)
    everything, reading = rules(allow("*")), rules(allow("*:*:read"))
    assert bounded(draft, everything) is Answer.WITHIN
    assert bounded(draft, rules(allow("*"), deny("storage:*"))) is Answer.WITHIN
    assert bounded(draft, draft) is Answer.WITHIN
    assert bounded(draft, rules(allow("*"), *denies)) is Answer.WITHIN
    assert bounded(draft, reading) is Answer.BEYOND
    assert bounded(rules(allow("compute:*")), draft) is Answer.BEYOND
    assert bounded(rules(allow("compute:*"), *denies[1:]), draft) is Answer.BEYOND


@pytest.mark.parametrize("each", [BY_TAG, BY_ID])
def test_many_allows_with_a_word_between_stars_are_decided(each: list[dict[str, Any]]) -> None:
    draft = rules(*(allow("compute:*", **one) for one in each))
    assert bounded(draft, rules(*(allow("*", **one) for one in each))) is Answer.WITHIN
    assert bounded(draft, rules(*(allow("*", **one) for one in each[1:]))) is Answer.BEYOND
    assert bounded(draft, [*draft, *rules(deny("*:*:delete"))]) is Answer.BEYOND
    targets = [one for each_one in BY_ID for one in each_one["targets"]]
    assert bounded(rules(allow("compute:*", targets=targets)), rules(allow("*", targets=targets))) is Answer.WITHIN


def test_a_deny_that_is_needed_is_found_among_many() -> None:
    lacking = rules(allow("*"), deny("compute:*", constraints={"like": {"frn:resourceTag/env": f"*{WORDS[17]}*"}}))
    denies = [deny("*", **one) for one in BY_TAG]
    assert bounded(rules(allow("compute:*"), *denies), lacking) is Answer.WITHIN
    assert bounded(rules(allow("compute:*"), *denies[:17], *denies[18:]), lacking) is Answer.BEYOND
    # Not by a rule that says the same, but by one that holds more.
    wider = [*denies[:17], deny("*", constraints={"like": {"frn:resourceTag/env": "*confidential-17-*"}}), *denies[18:]]
    assert bounded(rules(allow("compute:*"), *wider), lacking) is Answer.WITHIN


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("number", [100, 400, 500])
def test_many_random_rules_against_themselves_are_decided(seed: int, number: int) -> None:
    chance = random.Random(8000 + seed)
    draft = [worlds.rule(chance) for _ in range(number)]
    author = list(draft)
    chance.shuffle(author)
    assert bounded(draft, author) is Answer.WITHIN
    fewer = [rule for rule in author if not rule.denies or chance.random() < 0.5]
    assert bounded(draft, fewer) is Answer.WITHIN


# The shortcuts against trying everything


def near(chance: random.Random) -> tuple[list[Rule], list[Rule]]:
    """A draft and an author whose rules are the draft's, each as it is or a little wider, narrower or missing."""
    allowed = {"frn:region", "frn:tenant"} if chance.random() < 0.5 else {chance.choice((TAG, "frn:principalType"))}

    def plain(rule: Rule) -> Rule:
        return replace(rule, constraints=tuple(one for one in rule.constraints if one.key in allowed))

    def varied(rule: Rule) -> Rule:
        kind = chance.randrange(8)
        other = worlds.rule(chance)
        if kind == 0 and rule.constraints:
            return replace(rule, constraints=rule.constraints[1:])
        if kind == 1:
            return plain(replace(rule, constraints=(*rule.constraints, *other.constraints)))
        if kind == 2:
            return replace(rule, operations=other.operations, operation_texts=other.operation_texts)
        if kind == 3:
            return replace(rule, targets=other.targets, target_texts=other.target_texts)
        if kind == 4:
            return replace(rule, targets=(ANY_TARGET,), target_texts=("*",))
        return rule

    draft = [plain(worlds.rule(chance)) for _ in range(chance.randint(1, 6))]
    author = [varied(rule) for rule in draft if chance.random() < 0.9]
    chance.shuffle(author)
    return draft, author


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 12))])
def test_rules_that_almost_agree_are_compared_as_trying_every_request_does(seed: int) -> None:
    chance = random.Random(9000 + seed)
    answers = dict.fromkeys(Answer, 0)
    for _ in range(40):
        draft, author = near(chance)
        escape = enumeration.escapes(draft, author, "t1")
        found = asked(draft, author)
        answers[found.answer] += 1
        if found.answer is Answer.WITHIN:
            assert escape is None, (draft, author)
        else:
            assert confirmed(found, draft, author), (draft, author)
    assert min(answers[Answer.WITHIN], answers[Answer.BEYOND]) > 5
    assert answers[Answer.UNDECIDED] == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_counterexample_is_one_in_the_judgement_of_the_reference(seed: int) -> None:
    chance = random.Random(9500 + seed)
    for _ in range(40):
        draft = [worlds.rule(chance) for _ in range(chance.randint(5, 30))]
        author = [rule for rule in draft if chance.random() < 0.9] + [worlds.rule(chance) for _ in range(5)]
        found = asked(draft, author)
        assert found.answer is not Answer.UNDECIDED
        assert found.answer is Answer.WITHIN or confirmed(found, draft, author)


def test_a_bounded_time_has_bounds_on_both_sides() -> None:
    def times(**operators: str) -> dict[str, Any]:
        return {"constraints": {operator: {"frn:currentTime": value} for operator, value in operators.items()}}

    whole = rules(allow("*", **times(after="0001-01-01T00:00:00Z", before="9999-12-31T23:59:59Z")))
    part = rules(allow("*", **times(after="2026-01-01T00:00:00Z", before="2027-01-01T00:00:00Z")))
    assert answer(part, whole) is Answer.WITHIN
    assert answer(whole, part) is Answer.BEYOND


def test_the_first_and_the_last_day_of_the_calendar_are_days() -> None:
    for operator, value in (("before", "0001-01-01T12:00:00Z"), ("after", "9999-12-31T12:00:00Z")):
        draft = rules(allow("*", constraints={operator: {"frn:currentTime": value}}))
        assert answer(draft, rules(allow("compute:*"))) is Answer.BEYOND


def test_globs_that_name_every_common_letter_are_told_apart_all_the_same() -> None:
    target = "frn:compute:*:*:instances/abcdefghijklmnopqrstuvwxyz0123456789äöüßñçøåþð*"
    assert answer(rules(allow("*", targets=[target])), rules(allow("storage:*"))) is Answer.BEYOND


LETTERS = "".join(map(chr, range(0x4E00, 0x4E00 + 20_000)))
LARGE = {
    "ids": rules(allow("*", targets=[f"frn:*:*:*:t/i{number}" for number in range(9_000)])),
    "types and ids": rules(allow("*", targets=[f"frn:*:*:*:t{number}/i{number}" for number in range(6_000)])),
    "a long glob": rules(allow("*", targets=[f"frn:*:*:*:t/{LETTERS}*"])),
    "a glob of stars": rules(allow("*", targets=[f"frn:*:*:*:t/{'a*' * 100_000}"])),
    "globs": rules(allow("*"), deny("*", targets=[f"frn:*:*:*:t{number}/*{number}*" for number in range(3_000)])),
    "blocks": rules(allow("*", **ranges(*(f"10.{n // 128}.{n % 128 * 2}.0/24" for n in range(9_000))))),
    "keys": rules(
        allow("*"), deny("*", constraints={"equals": {f"frn:resourceTag/k{number}": "v" for number in range(5_000)}})
    ),
    "values": rules(*(allow("*", constraints={"equals": {"frn:region": f"r{number}"}}) for number in range(500))),
    "others": rules(allow("*", targets=[f"frn:*:*:*:any-other-{number}/x" for number in range(2, 6_000)])),
}


@pytest.mark.parametrize("kind", LARGE)
def test_whatever_a_quarter_of_a_megabyte_holds_is_examined_in_bounded_time(kind: str) -> None:
    found, taken = effort(lambda: asked(LARGE[kind], rules(allow("storage:volumes:read"), deny("*:*:delete"))))
    assert found.answer in (Answer.BEYOND, Answer.UNDECIDED)
    assert taken < 2_000


def test_no_work_left_is_undecided() -> None:
    for units in range(0, 400, 20):
        found = check(
            Document(tuple(rules(allow("*", **ranges("10.0.0.0/8"))))), (), tenant="t", catalogue=(), max_work=units
        )
        assert found.answer is not Answer.WITHIN
