"""The decision engine. Compiles rules on first use; later decisions take a few dictionary look-ups.

`table[operation][head]` holds the decision for a target up to its first slash. If ids or caps matter, it is a
`TargetEntry` with a decision for each id. A compiled decision is constant, or two tuples of predicates: denies, then
allows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from client.policy import model
from client.policy.matching import (
    STAR,
    InvalidPattern,
    OperationPattern,
    Target,
    fields_may_cover,
    fields_must_cover,
    may_cover,
    must_cover,
    parse_operation,
    parse_target,
)
from client.policy.model import Constraint, Document, Predicate, RequestContext, Rule

NO_MATCH = 0
MAX_COMPILED = 50_000

Decision = int
"""n > 0: allowed by rule n; n < 0: denied by rule -n; 0: no rule matched. Rule numbers start at 1."""

CompiledDecision = Decision | tuple[tuple[tuple[Predicate, Decision], ...], tuple[tuple[Predicate, Decision], ...]]


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a rule: the policy's id and name, and the rule's index in its document."""

    policy_id: str
    policy_name: str
    index: int


class GrantedRule(NamedTuple):
    """A rule attached to a principal. `cap` has its author's rights, which limit its allows."""

    rule: Rule
    source: Source
    cap: "Engine | None" = None


@dataclass(slots=True)
class TargetEntry:
    """Rules with matching target fields, for decisions that depend on ids or caps. The id of `target` is `*`."""

    target: Target
    rules: tuple["Candidate", ...]
    decisions: dict[str, CompiledDecision]


class Candidate(NamedTuple):
    number: int
    granted: GrantedRule
    # None if every id matches.
    ids: tuple[Target, ...] | None


class Engine:
    """Decides requests by a fixed set of rules.

    Threads may share an engine: its rules are constant, and each cache access is a single dictionary read or write,
    atomic in CPython. A race may compile a decision twice and exceed `MAX_COMPILED` slightly.
    """

    def __init__(self, rules: Iterable[GrantedRule]) -> None:
        self.rules = tuple(rules)
        self._by_pattern: dict[OperationPattern, list[int]] = {}
        for number, granted in enumerate(self.rules, 1):
            for pattern in dict.fromkeys(granted.rule.operations):
                self._by_pattern.setdefault(pattern, []).append(number)
        self._predicates: dict[tuple[bool, tuple[Constraint, ...]], Predicate | None] = {}
        self._truth_tests: dict[Constraint, tuple[Predicate, Predicate]] = {}
        self._table: dict[str, dict[str, CompiledDecision | TargetEntry]] = {}
        self._compiled_count = 0

    def decide(self, operation: str, target: str, context: RequestContext) -> Decision:
        """Return the decision on a request.

        `target` is a full name; its `*` parts are unknown, its id may be any text. A name without an id or with invalid
        fields matches no rule.
        """
        head, _, id_ = target.partition("/")
        if not id_:
            return NO_MATCH
        try:
            compiled = self._table[operation][head]
        except KeyError:
            entry = self._compile_entry(operation, head, id_)
            if entry is None:
                return NO_MATCH
            compiled = entry
        if compiled.__class__ is TargetEntry:
            try:
                compiled = compiled.decisions[id_]
            except KeyError:
                compiled = self._compile_for_id(operation, head, id_, compiled)  # type: ignore[arg-type]
        if compiled.__class__ is int:
            return compiled
        denies, allows = compiled  # type: ignore[misc]
        for predicate, decision in denies:
            if predicate(context):
                return decision
        for predicate, decision in allows:
            if predicate(context):
                return decision
        return NO_MATCH

    def source(self, decision: Decision) -> Source | None:
        return self.rules[abs(decision) - 1].source if decision else None

    def candidates(self, operation: OperationPattern) -> list[int]:
        """Return the numbers of the rules with a pattern for the operation, in order."""
        numbers: set[int] = set()
        for service in (operation.service, STAR):
            for resource in (operation.resource, STAR):
                for action in (operation.action, STAR):
                    numbers.update(self._by_pattern.get(OperationPattern(service, resource, action), ()))
        return sorted(numbers)

    def _compile_entry(self, operation: str, head: str, id_: str) -> CompiledDecision | TargetEntry | None:
        """Return None if the request is malformed."""
        try:
            # The validity of the fields must not depend on the first id.
            concrete, target = parse_operation(operation), parse_target(f"{head}/{STAR}")
        except InvalidPattern:
            # Not cached: malformed requests must not evict entries in use.
            return None
        rules = []
        for number in self.candidates(concrete):
            candidate = _candidate(number, self.rules[number - 1], target)
            if candidate is not None:
                rules.append(candidate)
        self._evict()
        entry: CompiledDecision | TargetEntry
        if any(candidate.ids is not None or candidate.granted.cap is not None for candidate in rules):
            entry = TargetEntry(target, tuple(rules), {})
        else:
            entry = self._compile_decision(operation, f"{head}/{id_}", rules)
        self._table.setdefault(operation, {})[head] = entry
        return entry

    def _compile_for_id(self, operation: str, head: str, id_: str, entry: TargetEntry) -> CompiledDecision:
        target = entry.target._replace(id=id_)
        rules = [candidate for candidate in entry.rules if _covers_id(candidate, target)]
        self._evict()
        compiled = entry.decisions[id_] = self._compile_decision(operation, f"{head}/{id_}", rules)
        return compiled

    def _evict(self) -> None:
        self._compiled_count += 1
        if self._compiled_count > MAX_COMPILED:
            self._table.clear()
            self._compiled_count = 1

    def _compile_decision(self, operation: str, text: str, rules: Sequence[Candidate]) -> CompiledDecision:
        """Compile rules to predicates, up to the first unconditional rule: later rules cannot decide."""
        denies: list[tuple[Predicate, Decision]] = []
        allows: list[tuple[Predicate, Decision]] = []
        for deny, predicates in ((True, denies), (False, allows)):
            for candidate in rules:
                granted = candidate.granted
                if granted.rule.denies is not deny:
                    continue
                decision = -candidate.number if deny else candidate.number
                predicate = self._predicate(deny, granted.rule.constraints)
                if granted.cap is not None and not deny:
                    predicate = _apply_cap(predicate, granted.cap, operation, text)
                if predicate is None:
                    if not predicates and (deny or not denies):
                        return decision
                    predicates.append((_always, decision))
                    break
                predicates.append((predicate, decision))
        return (tuple(denies), tuple(allows)) if denies or allows else NO_MATCH

    def _predicate(self, deny: bool, constraints: tuple[Constraint, ...]) -> Predicate | None:
        cache_key = (deny, constraints)
        if cache_key not in self._predicates:
            polarity = model.may_hold if deny else model.must_hold
            self._predicates[cache_key] = model.conjunction([polarity(constraint) for constraint in constraints])
        return self._predicates[cache_key]

    def truth_tests(self, constraint: Constraint) -> tuple[Predicate, Predicate]:
        """Return the `must_hold` and `may_hold` predicates of a constraint."""
        pair = self._truth_tests.get(constraint)
        if pair is None:
            pair = self._truth_tests[constraint] = model.must_hold(constraint), model.may_hold(constraint)
        return pair


def compile_document(document: Document, policy_id: str = "", name: str = "", cap: Engine | None = None) -> Engine:
    return Engine(granted_rules(document, policy_id, name, cap))


def granted_rules(
    document: Document, policy_id: str = "", name: str = "", cap: Engine | None = None
) -> list[GrantedRule]:
    return [GrantedRule(rule, Source(policy_id, name, index), cap) for index, rule in enumerate(document.rules)]


def _always(context: RequestContext) -> bool:
    return True


def _apply_cap(predicate: Predicate | None, cap: Engine, operation: str, target: str) -> Predicate:
    if predicate is None:
        return lambda context: cap.decide(operation, target, context) > 0
    return lambda context: predicate(context) and cap.decide(operation, target, context) > 0


def _candidate(number: int, granted: GrantedRule, target: Target) -> Candidate | None:
    """Return a rule with its matching target patterns; None if no fields match."""
    covers = fields_may_cover if granted.rule.denies else fields_must_cover
    matching = [pattern for pattern in granted.rule.targets if covers(pattern, target)]
    if not matching:
        return None
    # A pattern of stars matches every id.
    for pattern in matching:
        if pattern.id == STAR or not pattern.id.strip(STAR):
            return Candidate(number, granted, None)
    return Candidate(number, granted, tuple(matching))


def _covers_id(candidate: Candidate, target: Target) -> bool:
    if candidate.ids is None:
        return True
    covers = may_cover if candidate.granted.rule.denies else must_cover
    return any(covers(pattern, target) for pattern in candidate.ids)
