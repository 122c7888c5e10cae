"""Which rules a request depends on that is not allowed for certain: what is not known of it may turn out for them."""

from typing import NamedTuple

from service.policy.engine import Engine, GrantedRule
from service.policy.facts import Facts
from service.policy.matching import may_cover, read_operation, read_target, surely_covers


class Turning(NamedTuple):
    """The allows that may hold and the denies that may stand against them; both empty where nothing can turn out."""

    allows: tuple[GrantedRule, ...] = ()
    denies: tuple[GrantedRule, ...] = ()


def turning(engine: Engine, operation: str, target: str, facts: Facts) -> Turning:
    """What the facts and target parts that are not known decide. Each rule is looked at by itself, as in a map."""
    asked = read_target(target)
    allows, denies = [], []
    for number in engine.candidates(read_operation(operation)):
        granted = engine.rules[number - 1]
        rule = granted.rule
        if not any(may_cover(pattern, asked) for pattern in rule.targets):
            continue
        tests = [engine.truth_tests(constraint) for constraint in rule.constraints]
        if not all(possibly(facts) for _, possibly in tests):
            continue
        if not rule.denies:
            if granted.cap is None or _may(granted.cap, operation, target, facts):
                allows.append(granted)
        elif any(surely_covers(pattern, asked) for pattern in rule.targets) and all(
            surely(facts) for surely, _ in tests
        ):
            return Turning()
        else:
            denies.append(granted)
    return Turning(tuple(allows), tuple(denies))


def _may(cap: Engine, operation: str, target: str, facts: Facts) -> bool:
    return cap.decide(operation, target, facts) > 0 or bool(turning(cap, operation, target, facts).allows)
