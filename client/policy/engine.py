"""The decision engine: rules compiled once, decided in a few look-ups.

A decision finds `table[operation][head]`, the head being the target up to its first slash, and then, only
where some rule names ids, the leaf of the id. A leaf is a constant verdict or two short tuples of tests:
the denies, then the allows. Missing leaves are built on first touch; the table is bounded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from client.policy import conditions
from client.policy.conditions import Predicate
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
from client.policy.model import Constraint, Document, RequestContext, Rule

NO_MATCH = 0
MAX_COMPILED = 50_000

Decision = int
"""Above 0: allowed by rule number n; below 0: denied by rule number -n; 0: no rule matched. Rules count from 1."""

CompiledDecision = Decision | tuple[tuple[tuple[Predicate, Decision], ...], tuple[tuple[Predicate, Decision], ...]]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a rule stands: the policy's id and name, and its place in that document, from 0."""

    policy_id: str
    policy_name: str
    index: int


class GrantedRule(NamedTuple):
    """A rule as it works for a principal. What an allow gives ends where `cap`, its author's rights, ends."""

    rule: Rule
    source: Source
    cap: "Engine | None" = None


@dataclass(slots=True)
class TargetEntry:
    """Rules whose target fields match, kept where one of them names ids or has a cap; `target` is without its id."""

    target: Target
    rules: tuple["Candidate", ...]
    decisions: dict[str, CompiledDecision]


class Candidate(NamedTuple):
    number: int
    granted: GrantedRule
    # None: any id will do.
    ids: tuple[Target, ...] | None


class Engine:
    """Immutable once built: a change of rules makes a new one, which is swapped in."""

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
        """The verdict on one request. `target` is a full name; its `*` parts are unknown. Malformed: no match.

        Malformed is a name without an id or with fields that are none; an id may be any text.
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
        """Which rule decided; None when none matched."""
        return self.rules[abs(decision) - 1].source if decision else None

    def candidates(self, operation: OperationPattern) -> list[int]:
        """The numbers of the rules with a pattern for the operation, in order: eight look-ups."""
        numbers: set[int] = set()
        for service in (operation.service, STAR):
            for resource in (operation.resource, STAR):
                for action in (operation.action, STAR):
                    numbers.update(self._by_pattern.get(OperationPattern(service, resource, action), ()))
        return sorted(numbers)

    def _compile_entry(self, operation: str, head: str, id_: str) -> CompiledDecision | TargetEntry | None:
        """Build what stands behind an operation and a target's fields; None for a request that is not well-formed."""
        try:
            # Whether the fields are well-formed must not depend on the id that came with them first.
            concrete, target = parse_operation(operation), parse_target(f"{head}/{STAR}")
        except InvalidPattern:
            # Not kept: a table filled with nonsense would push out what is asked for every second.
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
        """The rules left over as tests, cut after the first that needs none: nothing behind it can decide."""
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
                    predicate = _capped(predicate, granted.cap, operation, text)
                if predicate is None:
                    if not predicates and (deny or not denies):
                        return decision
                    predicates.append((_always, decision))
                    break
                predicates.append((predicate, decision))
        return (tuple(denies), tuple(allows)) if denies or allows else NO_MATCH

    def _predicate(self, deny: bool, constraints: tuple[Constraint, ...]) -> Predicate | None:
        """One test for each different set of constraints, however many rules share it."""
        cache_key = (deny, constraints)
        if cache_key not in self._predicates:
            polarity = conditions.may_hold if deny else conditions.must_hold
            self._predicates[cache_key] = conditions.conjunction([polarity(constraint) for constraint in constraints])
        return self._predicates[cache_key]

    def truth_tests(self, constraint: Constraint) -> tuple[Predicate, Predicate]:
        """Return the tests whether a constraint surely and whether it possibly holds, compiled once."""
        pair = self._truth_tests.get(constraint)
        if pair is None:
            pair = self._truth_tests[constraint] = conditions.must_hold(constraint), conditions.may_hold(constraint)
        return pair


def compile_document(document: Document, policy_id: str = "", name: str = "", cap: Engine | None = None) -> Engine:
    """An engine of one document on its own."""
    return Engine(granted_rules(document, policy_id, name, cap))


def granted_rules(
    document: Document, policy_id: str = "", name: str = "", cap: Engine | None = None
) -> list[GrantedRule]:
    """A document's rules labelled with where they come from, ready to stand beside those of other documents."""
    return [GrantedRule(rule, Source(policy_id, name, index), cap) for index, rule in enumerate(document.rules)]


def _always(context: RequestContext) -> bool:
    return True


def _capped(predicate: Predicate | None, cap: Engine, operation: str, target: str) -> Predicate:
    if predicate is None:
        return lambda context: cap.decide(operation, target, context) > 0
    return lambda context: predicate(context) and cap.decide(operation, target, context) > 0


def _candidate(number: int, granted: GrantedRule, target: Target) -> Candidate | None:
    """Return a rule whose target fields hold; its ids are left for the leaf."""
    covers = fields_may_cover if granted.rule.denies else fields_must_cover
    matching = [pattern for pattern in granted.rule.targets if covers(pattern, target)]
    if not matching:
        return None
    # A pattern of stars only matches any id; every other one is tried by name.
    for pattern in matching:
        if pattern.id == STAR or not pattern.id.strip(STAR):
            return Candidate(number, granted, None)
    return Candidate(number, granted, tuple(matching))


def _covers_id(candidate: Candidate, target: Target) -> bool:
    if candidate.ids is None:
        return True
    covers = may_cover if candidate.granted.rule.denies else must_cover
    return any(covers(pattern, target) for pattern in candidate.ids)
