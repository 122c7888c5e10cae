"""The coverage map under conditions and what changes between two documents, against the reference evaluator."""

import random

import pytest

from client.policy.coverage import Coverage, compute_coverage
from client.policy.engine import granted_rules
from client.policy.explain import classify_changes, conditions_by_target, differing_operations
from client.policy.matching import parse_target
from client.policy.model import AccessRequest, Document, RequestContext, Rule
from tests.policy import reference, worlds
from tests.policy.comparisons import CONDITIONAL, EFFECTIVE, MASKS, NONE, question, state


def shown(coverage: Coverage, operation: str) -> str:
    bit = 1 << worlds.CATALOGUE.index(operation)
    assert not coverage.effective & coverage.conditional
    return EFFECTIVE if coverage.effective & bit else CONDITIONAL if coverage.conditional & bit else NONE


@pytest.mark.parametrize("seed", range(10))
def test_an_operation_is_conditional_if_unknown_facts_decide(seed: int) -> None:
    chance, met = random.Random(7000 + seed), set()
    for _ in range(150):
        document, facts = worlds.document(chance), chance.choice((RequestContext(), worlds.facts(chance)))
        targets = [worlds.target_text(chance, ("a", "ab", "*")) for _ in range(3)] + ["*"]
        for coverage in compute_coverage(MASKS, granted_rules(document), list(map(parse_target, targets)), facts):
            for operation in worlds.CATALOGUE:
                asked = question(operation, coverage.target, facts)
                expected = state(document, asked)
                met.add(expected)
                assert shown(coverage, operation) == expected, (document, asked)
    assert met == {NONE, CONDITIONAL, EFFECTIVE}


MOVES = {
    (NONE, EFFECTIVE): {"gained"},
    (CONDITIONAL, EFFECTIVE): {"gained", "nowUnconditional"},
    (EFFECTIVE, NONE): {"lost"},
    (EFFECTIVE, CONDITIONAL): {"lost", "nowConditional"},
    (NONE, CONDITIONAL): {"conditionalGained"},
    (CONDITIONAL, NONE): {"conditionalLost"},
    (NONE, NONE): set(),
    (EFFECTIVE, EFFECTIVE): set(),
}


def unknown_parts(rule: Rule, asked: AccessRequest) -> tuple[object, ...] | None:
    """Return the parts of a rule that a request leaves unknown, from its texts; None if the rule does not match."""
    if reference.rule_truth(rule, asked) == reference.FALSE:
        return None
    truths = {text: reference.target_truth(text, asked.target) for text in rule.target_texts}
    # `*` and the long form of it, or of a service, are the same pattern.
    maybe = {parse_target(text)._replace(service="*") for text, truth in truths.items() if truth == reference.UNKNOWN}
    targets = frozenset(() if reference.TRUE in truths.values() else maybe)
    unknown = [one for one in rule.constraints if reference.constraint_truth(one, asked.context) == reference.UNKNOWN]
    return rule.effect, targets, frozenset((one.operator, one.key, frozenset(one.values)) for one in unknown)


@pytest.mark.parametrize("seed", range(10))
def test_every_change_between_two_documents_is_classified(seed: int) -> None:
    chance = random.Random(7200 + seed)
    met = set()
    for _ in range(150):
        old, facts = worlds.document(chance), chance.choice((RequestContext(), worlds.facts(chance)))
        rules = [one if chance.random() < 0.6 else worlds.rule(chance) for one in old.rules]
        new = Document(tuple(chance.sample(rules, len(rules))))
        target = parse_target(worlds.target_text(chance, ("a", "*")))
        before, after = (compute_coverage(MASKS, granted_rules(one), [target], facts)[0] for one in (old, new))
        differ = differing_operations(
            *(conditions_by_target(MASKS, granted_rules(one), [(target, MASKS.all)], facts)[0] for one in (old, new))
        )
        classes = classify_changes(before, after, differ)
        for place, operation in enumerate(worlds.CATALOGUE):
            asked = question(operation, target, facts)
            move = state(old, asked), state(new, asked)
            met.add(move)
            names = {name for name, mask in classes.items() if mask >> place & 1}
            if move == (CONDITIONAL, CONDITIONAL):
                then, now = ({unknown_parts(rule, asked) for rule in one.rules} - {None} for one in (old, new))
                assert names == ({"conditionsChanged"} if then != now else set()), (old, new, asked)
            else:
                assert names == MOVES[move], (old, new, asked)
    assert met == {*MOVES, (CONDITIONAL, CONDITIONAL)}
