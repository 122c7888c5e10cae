"""Compares the engine with Cedar, on requests without unknown attributes."""

import random
from dataclasses import replace

import cedarpy
import pytest

from client.policy import model
from client.policy.engine import compile_document
from client.policy.instants import parse_stored_timestamp
from client.policy.model import AccessRequest, parse_address
from tests.policy import cedar, worlds


def known_question(chance: random.Random) -> AccessRequest:
    """A request in which everything is known: no open part of the target, every fact."""
    operation = chance.choice(worlds.CATALOGUE)
    region, kind = chance.choice((*worlds.REGIONS, "elsewhere")), chance.choice((*worlds.RESOURCES, "other"))
    name = chance.choice(("a", "ab", "abc", "b", "axb", "zz"))
    address = parse_address(chance.choice([one for one in worlds.ADDRESSES if one != "nonsense"]))
    instant = parse_stored_timestamp(chance.choice(worlds.TIMES))
    facts = worlds.facts(chance)
    return AccessRequest(
        operation,
        f"frn:{operation.partition(':')[0]}:{region}:{chance.choice(worlds.TENANTS)}:{kind}/{name}",
        replace(
            facts,
            source_ip=address,
            current_time=instant + chance.choice((-1, 0, 1)),
            region=facts.region or chance.choice(worlds.REGIONS),
            principal_type=facts.principal_type or "user",
            tenant=facts.tenant or chance.choice(worlds.TENANTS),
            request_tags=facts.request_tags or {},
            resource_tags=facts.resource_tags or {},
        ),
    )


def compare(seed: int, documents: int, each: int) -> int:
    """Compare the decisions of both engines; return how many are allowed."""
    chance, allowed = random.Random(seed), 0
    for _ in range(documents):
        document = worlds.document(chance, most=6)
        engine = compile_document(document)
        questions = [known_question(chance) for _ in range(each)]
        answers = cedarpy.is_authorized_batch(list(map(cedar.request, questions)), cedar.policies(document), [])
        for question, answer in zip(questions, answers, strict=True):
            assert not answer.diagnostics.errors, (answer.diagnostics.errors, document)
            ours = engine.decide(question.operation, question.target, question.context) > 0
            assert ours is answer.allowed, (document, question)
            allowed += ours
    return allowed


def test_both_engines_decide_alike() -> None:
    assert 200 < compare(1, 40, 50) < 1_800


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_both_engines_decide_100_000_requests_alike(seed: int) -> None:
    compare(100 + seed, 100, 50)


def test_the_comparison_sees_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "may_hold", lambda constraint: lambda known: False)
    with pytest.raises(AssertionError):
        compare(1, 40, 50)
