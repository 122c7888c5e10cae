"""The engine against the reference, on many thousand small worlds in which rules meet and contradict."""

import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from client.policy.bitsets import Budget
from client.policy.engine import Engine, compile_document, granted_rules
from client.policy.explain import Truth, explain
from client.policy.matching import (
    ANY_TARGET,
    Target,
    class_witnesses,
    compile_glob,
    parse_operation,
    parse_operation_pattern,
    parse_target,
    resolve_target,
)
from client.policy.model import (
    AccessRequest,
    Constraint,
    Document,
    RequestContext,
    Rule,
    parse_address,
    parse_cidr_block,
)
from client.policy.partial import exists_allowed_target
from tests.effort import effort
from tests.policy import reference, worlds

ANYTHING = AccessRequest("compute:instances:read", "*")


def allow_all(*constraints: Constraint) -> Rule:
    return Rule("", "allow", (parse_operation_pattern("*"),), ("*",), (ANY_TARGET,), ("*",), constraints)


def seeds(number: int, quick: int = 2) -> list[Any]:
    """The first few on every run, all of them among the long proofs."""
    return [seed if seed < quick else pytest.param(seed, marks=pytest.mark.slow) for seed in range(number)]


@pytest.mark.parametrize("seed", seeds(20))
def test_the_engine_decides_as_the_reference_does(seed: int) -> None:
    """First touch and warm, with malformed requests in between."""
    chance = random.Random(seed)
    for _ in range(500):
        document = worlds.document(chance)
        engine = compile_document(document)
        for _ in range(12):
            question = worlds.question(chance)
            head = question.target.partition("/")[0]
            for malformed in (head, f"{head}/", head.rpartition(":")[0]):
                assert engine.decide(question.operation, malformed, question.context) == 0, malformed
            expected = reference.decide(list(document.rules), question)
            for _ in ("first touch", "warm"):
                decision = engine.decide(question.operation, question.target, question.context)
                assert decision == expected, (document, question)


def test_a_cap_takes_away_what_the_author_no_longer_holds() -> None:
    chance = random.Random(5)
    for _ in range(300):
        own, author = worlds.document(chance), worlds.document(chance)
        engine = Engine(granted_rules(own, cap=compile_document(author)))
        for _ in range(10):
            question = worlds.question(chance)
            decision = engine.decide(question.operation, question.target, question.context)
            mine, held = (reference.decide(list(one.rules), question) for one in (own, author))
            assert ((decision > 0), (decision < 0)) == (mine > 0 and held > 0, mine < 0), (own, author, question)


@pytest.mark.parametrize("seed", range(4))
def test_the_explanation_agrees_with_the_decision_part_by_part(seed: int) -> None:
    chance = random.Random(1000 + seed)
    for _ in range(500):
        document = worlds.document(chance)
        engine = compile_document(document)
        question = worlds.question(chance)
        explained = explain(engine, question)
        # The region of the request fills an open region of the target.
        target = parse_target(question.target)
        if target.region == "*" and question.context.region is not None:
            target = target._replace(region=question.context.region)
        asked = AccessRequest(question.operation, str(target), question.context)
        assert explained.allowed is (reference.decide(list(document.rules), asked) > 0)
        for trace, rule in zip(explained.rules, document.rules, strict=True):
            assert trace.truth == reference.rule_truth(rule, asked)
            assert trace.applies is (trace.truth != Truth.FALSE if rule.denies else trace.truth is Truth.TRUE)


def test_a_malformed_request_is_no_match_and_leaves_the_table_as_it_was() -> None:
    chance = random.Random(7)
    engine = compile_document(worlds.document(chance))
    for operation, target in (
        ("compute:instances", "*"),
        ("compute:*:read", "*"),
        ("compute:instances:read", "frn:compute:eu"),
        ("compute:instances:read", "instances/a"),
        ("", ""),
    ):
        assert engine.decide(operation, target, RequestContext()) == 0
    assert not engine._table


@pytest.mark.parametrize("seed", seeds(10))
def test_globs_and_their_classes_agree_with_trying_every_short_text(seed: int) -> None:
    chance = random.Random(6000 + seed)
    patterns = list(dict.fromkeys("".join(chance.choices("ab*", k=chance.randint(1, 4))) for _ in range(4)))
    texts = ["".join(letters) for size in range(6) for letters in product("abz", repeat=size)]

    def vectors(of: list[str]) -> set[tuple[bool, ...]]:
        return {tuple(reference.like(pattern, text) for pattern in patterns) for text in of}

    for pattern in patterns:
        for text in texts:
            assert compile_glob(pattern)(text) is reference.like(pattern, text)
    witnesses = list(class_witnesses(patterns, Budget()))
    assert vectors(texts) <= vectors(witnesses)
    # A literal is distinguished even from texts that the same globs match.
    assert len(set(witnesses)) == len(witnesses)


@pytest.mark.parametrize("seed", seeds(4, quick=1))
def test_whether_some_target_would_be_allowed_agrees_with_trying_them(seed: int) -> None:
    chance = random.Random(7000 + seed)
    names = ["".join(letters) for size in (1, 2, 3, 4) for letters in product("abcx", repeat=size)]
    answers: list[bool] = []
    while len(answers) < 200:
        document, author = worlds.document(chance), worlds.document(chance)
        engine = compile_document(document, cap=compile_document(author) if chance.random() < 0.5 else None)
        question = worlds.question(chance)
        operation = parse_operation(question.operation)
        target = parse_target(worlds.target_text(chance, ("a", "*", "*")))
        target = resolve_target(target, operation.service, question.context.region)
        if "*" not in target:
            continue
        patterns = [pattern for rule in (*document.rules, *author.rules) for pattern in rule.targets]
        fields: list[Iterable[str]] = [
            {field} if field != "*" else {pattern[place] for pattern in patterns} - {"*"} | {"elsewhere"}
            for place, field in enumerate(target[1:4], 1)
        ]
        expected = any(
            engine.decide(question.operation, str(Target._make((target.service, *parts))), question.context) > 0
            for parts in product(*fields, names if target.id == "*" else [target.id])
        )
        assert exists_allowed_target(engine, operation, target, question.context) is expected
        answers.append(expected)
    assert 20 < sum(answers) < 180


def test_many_denied_targets_do_not_make_a_trial_endless() -> None:
    many = tuple(parse_target(f"frn:*:*:*:t{number}/i{number}") for number in range(6_000))
    allow = replace(allow_all(), targets=many, target_texts=())
    deny = replace(allow_all(), effect="deny", targets=(parse_target("frn:*:*:*:*/*"),), target_texts=())
    found, taken = effort(lambda: explain(compile_document(Document((allow, deny))), ANYTHING))
    assert found.some_target_allowed is not True
    assert taken < 1_000


def test_missing_keys_are_named_and_a_constraint_is_compiled_once() -> None:
    key = "frn:resourceTag/cost centre"
    engine = compile_document(Document((allow_all(Constraint("equals", key, ("1",))),)))
    assert explain(engine, ANYTHING).missing_keys == (key,)
    blocks = tuple(f"10.{number // 128}.{number % 128 * 2}.0/24" for number in range(9_000))
    engine = compile_document(Document((allow_all(Constraint("ipInRange", "frn:sourceIp", blocks)),) * 20))
    assert explain(engine, ANYTHING).missing_keys == ("frn:sourceIp",)
    explained, taken = effort(lambda: explain(engine, ANYTHING))
    assert explained.missing_keys == ("frn:sourceIp",)
    assert taken < 5


def test_address_blocks_are_read_as_the_standard_library_reads_them() -> None:
    chance = random.Random(18)
    for _ in range(4_000):
        if chance.random() < 0.5:
            address = ".".join(str(chance.choice((0, 1, 10, 127, 255, 256, chance.randrange(300)))) for _ in range(4))
            length = chance.randint(0, 34)
        else:
            numbers = [chance.choice((0, 0, 0xFFFF, chance.randrange(1 << 17))) for _ in range(chance.randint(1, 8))]
            groups = [f"{number:x}" for number in numbers]
            groups[chance.randrange(len(groups)) :] = [""] if chance.random() < 0.8 else groups[-1:]
            address = chance.choice(("", "::ffff:10.0.0.0", "::")) or ":".join(groups) + ":"
            length = chance.randint(0, 130)
        text = f"{address}/{length}"
        expected = result = None
        with suppress(ValueError):
            network = reference.block(text)
            expected = network.version, int(network.network_address), int(network.broadcast_address)
        with suppress(ValueError):
            result = parse_cidr_block(text)
        assert result == expected, text
    invalid = ("10.0.0.0", "10.0.0.0/08", "010.0.0.0/8", "10.0.0.0/255.0.0.0", "fe80::%1/64", "10.0.0/8", "1::2::3/64")
    for text in invalid:
        with pytest.raises(ValueError, match=r".+"):
            parse_cidr_block(text)
    assert parse_address("::ffff:10.1.2.3") == parse_address("10.1.2.3")
