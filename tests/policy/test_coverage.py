"""The coverage map under conditions and what changes between two documents, against the reference evaluator."""

import random

import pytest

from client.policy.coverage import Catalogue, compute_coverage
from client.policy.document import parse_document
from client.policy.engine import granted_rules
from client.policy.explain import classify_changes, conditions_by_target, differing_operations
from client.policy.matching import ANY_TARGET, parse_target
from client.policy.model import AccessRequest, Document, RequestContext, Rule, parse_address
from tests.policy import reference, worlds
from tests.policy.comparisons import CONDITIONAL, EFFECTIVE, MASKS, NONE, map_difference, question, shown, state


@pytest.mark.parametrize("seed", range(10))
def test_an_operation_is_conditional_if_unknown_facts_decide(seed: int) -> None:
    met: set[str] = set()
    assert map_difference(7000 + seed, 150, met) is None
    assert met == {NONE, CONDITIONAL, EFFECTIVE}


def test_known_facts_change_only_conditional_operations() -> None:
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


def changes(before: str, after: str, facts: RequestContext) -> dict[str, list[str]]:
    catalogue = Catalogue(worlds.CATALOGUE)
    granted = [
        granted_rules(parse_document(f'{{"schemaVersion":"1","rules":[{one}]}}', catalogue).document) if one else []
        for one in (before, after)
    ]
    then, now = (compute_coverage(MASKS, one, [ANY_TARGET], facts)[0] for one in granted)
    target = [(ANY_TARGET, MASKS.all)]
    differ = differing_operations(*(conditions_by_target(MASKS, one, target, facts)[0] for one in granted))
    return {name: MASKS.names(mask) for name, mask in classify_changes(then, now, differ).items() if mask}


def rule(block: str = "", *, access: str = "allow", targets: str = "*", operations: str = "compute:*") -> str:
    limit = f', "constraints": {{"ipInRange": {{"frn:sourceIp": [{block}]}}}}' if block else ""
    return f'{{"access": "{access}", "operations": ["{operations}"], "targets": ["{targets}"]{limit}}}'


OFFICE, NAMED = rule('"10.0.0.0/8"'), rule('"192.0.2.0/24","10.0.0.0/8"').replace("{", '{"name": "other", ', 1)
DENY_ALL = rule(access="deny", operations="*:*:*")
ONE, OTHER = "frn:*:*:*:instances/a", "frn:*:*:*:instances/b"
TAGGED = rule()[:-1] + ', "constraints": {"equals": {"frn:resourceTag/env": "dev"}}}'
UNKNOWN, INSIDE = RequestContext(), RequestContext(source_ip=parse_address("10.1.2.3"))


def test_a_change_is_named_for_each_operation() -> None:
    compute = [name for name in worlds.CATALOGUE if name.startswith("compute:")]
    for before, after, facts, names in (
        ("", OFFICE, UNKNOWN, {"conditionalGained"}),
        (OFFICE, f"{OFFICE},{DENY_ALL}", UNKNOWN, {"conditionalLost"}),
        (OFFICE, rule('"10.0.0.0/9"'), UNKNOWN, {"conditionsChanged"}),
        # Another order and name.
        (rule('"10.0.0.0/8","192.0.2.0/24"'), NAMED, UNKNOWN, set()),
        (rule(), OFFICE, UNKNOWN, {"lost", "nowConditional"}),
        (OFFICE, rule(), UNKNOWN, {"gained", "nowUnconditional"}),
        # A known address outside and inside.
        (OFFICE, rule('"10.0.0.0/16"'), INSIDE, {"lost"}),
        (OFFICE, rule('"10.1.0.0/16"'), INSIDE, set()),
        # An open target, another one, and its service.
        ("", rule(targets=ONE), UNKNOWN, {"conditionalGained"}),
        (rule(targets=ONE), rule(targets=OTHER), UNKNOWN, {"conditionsChanged"}),
        (rule(targets=ONE), rule(targets=ONE.replace("*", "compute", 1)), UNKNOWN, set()),
        # Another operator and value.
        (TAGGED, TAGGED.replace("equals", "like"), UNKNOWN, {"conditionsChanged"}),
        (TAGGED, TAGGED.replace("dev", "prod"), UNKNOWN, {"conditionsChanged"}),
    ):
        assert changes(before, after, facts) == dict.fromkeys(names, compute), (before, after)
