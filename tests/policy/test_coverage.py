"""The coverage map under conditions and what changes between two documents, against the reference evaluator."""

import random

import pytest

from client.policy.coverage import Catalogue, compute_coverage
from client.policy.document import parse_document
from client.policy.engine import granted_rules
from client.policy.explain import classify_changes, conditions_by_target, differing_operations
from client.policy.matching import ANY_TARGET, Target, parse_target
from client.policy.model import AccessRequest, Document, RequestContext, Rule, parse_address
from tests.policy import reference, worlds
from tests.policy.comparisons import CONDITIONAL, EFFECTIVE, MASKS, NONE, map_difference, question, shown, state


@pytest.mark.parametrize("seed", range(10))
def test_an_operation_is_conditional_exactly_when_what_is_unknown_decides(seed: int) -> None:
    met: set[str] = set()
    assert map_difference(7000 + seed, 150, met) is None
    assert met == {NONE, CONDITIONAL, EFFECTIVE}


def test_what_is_in_effect_stays_so_and_what_is_nothing_stays_nothing_as_facts_become_known() -> None:
    chance = random.Random(7100)
    turned = set()
    for _ in range(400):
        document, facts = worlds.document(chance), worlds.facts(chance)
        target = parse_target(worlds.target_text(chance, ("a", "*")))
        unknown, known = (
            compute_coverage(MASKS, granted_rules(document), [target], one)[0] for one in (RequestContext(), facts)
        )
        for operation in worlds.CATALOGUE:
            then, now = shown(unknown, operation), shown(known, operation)
            turned.add((then, now))
            assert then in (CONDITIONAL, now)
    assert {(CONDITIONAL, EFFECTIVE), (CONDITIONAL, NONE)} <= turned


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


def said(rule: Rule, asked: AccessRequest) -> tuple[object, ...] | None:
    """What a rule still depends on for one request, from its texts; None when it does not match."""
    if reference.rule_truth(rule, asked) == reference.FALSE:
        return None
    truths = {text: reference.target_truth(text, asked.target) for text in rule.target_texts}
    # `*` and the long form of it, or of a service, are the same pattern.
    maybe = {parse_target(text)._replace(service="*") for text, truth in truths.items() if truth == reference.UNKNOWN}
    targets = frozenset(() if reference.TRUE in truths.values() else maybe)
    unknown = [one for one in rule.constraints if reference.constraint_truth(one, asked.context) == reference.UNKNOWN]
    return rule.effect, targets, frozenset((one.operator, one.key, frozenset(one.values)) for one in unknown)


@pytest.mark.parametrize("seed", range(10))
def test_every_move_between_two_documents_is_told_and_none_besides(seed: int) -> None:
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
        found = classify_changes(before, after, differ)
        for place, operation in enumerate(worlds.CATALOGUE):
            asked = question(operation, target, facts)
            move = state(old, asked), state(new, asked)
            met.add(move)
            told = {name for name, mask in found.items() if mask >> place & 1}
            if move == (CONDITIONAL, CONDITIONAL):
                then, now = ({said(rule, asked) for rule in one.rules} - {None} for one in (old, new))
                assert told == ({"conditionsChanged"} if then != now else set()), (old, new, asked)
            else:
                assert told == MOVES[move], (old, new, asked)
    assert met == {*MOVES, (CONDITIONAL, CONDITIONAL)}


def told(
    before: str, after: str, target: Target = ANY_TARGET, facts: RequestContext | None = None
) -> dict[str, list[str]]:
    """What changes between two documents of one rule each, without what is empty."""
    facts = facts or RequestContext()
    catalogue = Catalogue(worlds.CATALOGUE)
    held = [
        granted_rules(parse_document('{"schemaVersion":"1","rules":[' + one + "]}", catalogue).document) if one else []
        for one in (before, after)
    ]
    then, now = (compute_coverage(MASKS, one, [target], facts)[0] for one in held)
    differ = differing_operations(*(conditions_by_target(MASKS, one, [(target, MASKS.all)], facts)[0] for one in held))
    return {name: MASKS.names(mask) for name, mask in classify_changes(then, now, differ).items() if mask}


def rule(block: str = "", *, access: str = "allow", targets: str = '"*"', operations: str = '"compute:*"') -> str:
    limit = f', "constraints": {{"ipInRange": {{"frn:sourceIp": [{block}]}}}}' if block else ""
    return f'{{"access": "{access}", "operations": [{operations}], "targets": [{targets}]{limit}}}'


COMPUTE = [name for name in worlds.CATALOGUE if name.startswith("compute:")]


def test_the_first_rule_of_an_office_is_not_nothing() -> None:
    assert told("", rule('"10.0.0.0/8"')) == {"conditionalGained": COMPUTE}


def test_a_deny_of_everything_takes_what_was_allowed_under_a_condition() -> None:
    allowed = rule('"10.0.0.0/8"')
    everything = rule(access="deny", operations='"*:*:*"')
    assert told(allowed, f"{allowed},{everything}") == {"conditionalLost": COMPUTE}


def test_another_block_is_another_condition_and_its_order_or_another_name_is_not() -> None:
    assert told(rule('"10.0.0.0/8"'), rule('"10.0.0.0/9"')) == {"conditionsChanged": COMPUTE}
    one, other = rule('"10.0.0.0/8","192.0.2.0/24"'), rule('"192.0.2.0/24","10.0.0.0/8"')
    assert told(one, other.replace('{"access"', '{"name": "other", "access"', 1)) == {}


def test_a_limit_that_is_added_or_lifted_is_told_beside_the_loss_and_the_gain() -> None:
    assert told(rule(), rule('"10.0.0.0/8"')) == {"lost": COMPUTE, "nowConditional": COMPUTE}
    assert told(rule('"10.0.0.0/8"'), rule()) == {"gained": COMPUTE, "nowUnconditional": COMPUTE}


def test_a_fact_that_is_known_is_no_condition() -> None:
    inside = RequestContext(source_ip=parse_address("10.1.2.3"))
    assert told(rule('"10.0.0.0/8"'), rule('"10.0.0.0/16"'), facts=inside) == {"lost": COMPUTE}
    assert told(rule('"10.0.0.0/8"'), rule('"10.1.0.0/16"'), facts=inside) == {}


def test_an_open_target_is_a_condition_of_its_own() -> None:
    a, b = '"frn:*:*:*:instances/a"', '"frn:*:*:*:instances/b"'
    assert told("", rule(targets=a)) == {"conditionalGained": COMPUTE}
    assert told(rule(targets=a), rule(targets=b)) == {"conditionsChanged": COMPUTE}
    only_compute = a.replace("frn:*", "frn:compute")
    assert told(rule(targets=a), rule(targets=only_compute)) == {}


def test_constraints_are_told_apart_by_all_they_say() -> None:
    tag = ', "constraints": {"equals": {"frn:resourceTag/env": "dev"}}}'
    one = rule()[:-1] + tag
    assert told(one, one.replace("equals", "like")) == {"conditionsChanged": COMPUTE}
    assert told(one, one.replace("dev", "prod")) == {"conditionsChanged": COMPUTE}
