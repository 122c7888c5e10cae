"""The decision engine: rules compiled once, decided in a few look-ups.

A decision finds `table[operation][head]`, the head being the target up to its first slash, and then, only
where some rule names ids, the leaf of the id. A leaf is a constant verdict or two short tuples of tests:
the denies, then the allows. Missing leaves are built on first touch; the table is bounded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from client.policy import conditions
from client.policy.conditions import Test
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

CompiledDecision = Decision | tuple[tuple[tuple[Test, Decision], ...], tuple[tuple[Test, Decision], ...]]


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
    leaves: dict[str, CompiledDecision]


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
        self._tests: dict[tuple[bool, tuple[Constraint, ...]], Test | None] = {}
        self._truths: dict[Constraint, tuple[Test, Test]] = {}
        self._table: dict[str, dict[str, CompiledDecision | TargetEntry]] = {}
        self._leaves = 0

    def decide(self, operation: str, target: str, facts: RequestContext) -> Decision:
        """The verdict on one request. `target` is a full name; its `*` parts are unknown. Malformed: no match.

        Malformed is a name without an id or with fields that are none; an id may be any text.
        """
        head, _, name = target.partition("/")
        if not name:
            return NO_MATCH
        try:
            leaf = self._table[operation][head]
        except KeyError:
            found = self._head(operation, head, name)
            if found is None:
                return NO_MATCH
            leaf = found
        if leaf.__class__ is TargetEntry:
            try:
                leaf = leaf.leaves[name]
            except KeyError:
                leaf = self._named(operation, head, name, leaf)  # type: ignore[arg-type]
        if leaf.__class__ is int:
            return leaf
        denies, allows = leaf  # type: ignore[misc]
        for test, verdict in denies:
            if test(facts):
                return verdict
        for test, verdict in allows:
            if test(facts):
                return verdict
        return NO_MATCH

    def source(self, verdict: Decision) -> Source | None:
        """Which rule decided; None when none matched."""
        return self.rules[abs(verdict) - 1].source if verdict else None

    def candidates(self, operation: OperationPattern) -> list[int]:
        """The numbers of the rules with a pattern for the operation, in order: eight look-ups."""
        found: set[int] = set()
        for service in (operation.service, STAR):
            for resource in (operation.resource, STAR):
                for action in (operation.action, STAR):
                    found.update(self._by_pattern.get(OperationPattern(service, resource, action), ()))
        return sorted(found)

    def _head(self, operation: str, head: str, name: str) -> CompiledDecision | TargetEntry | None:
        """Build what stands behind an operation and a target's fields; None for a request that is not well-formed."""
        try:
            # Whether the fields are well-formed must not depend on the id that came with them first.
            asked, target = parse_operation(operation), parse_target(f"{head}/{STAR}")
        except InvalidPattern:
            # Not kept: a table filled with nonsense would push out what is asked for every second.
            return None
        rules = []
        for number in self.candidates(asked):
            candidate = _candidate(number, self.rules[number - 1], target)
            if candidate is not None:
                rules.append(candidate)
        self._make_room()
        entry: CompiledDecision | TargetEntry
        if any(candidate.ids is not None or candidate.granted.cap is not None for candidate in rules):
            entry = TargetEntry(target, tuple(rules), {})
        else:
            entry = self._leaf(operation, f"{head}/{name}", rules)
        self._table.setdefault(operation, {})[head] = entry
        return entry

    def _named(self, operation: str, head: str, name: str, entry: TargetEntry) -> CompiledDecision:
        target = entry.target._replace(id=name)
        rules = [candidate for candidate in entry.rules if _holds_for(candidate, target)]
        self._make_room()
        leaf = entry.leaves[name] = self._leaf(operation, f"{head}/{name}", rules)
        return leaf

    def _make_room(self) -> None:
        self._leaves += 1
        if self._leaves > MAX_COMPILED:
            self._table.clear()
            self._leaves = 1

    def _leaf(self, operation: str, text: str, rules: Sequence[Candidate]) -> CompiledDecision:
        """The rules left over as tests, cut after the first that needs none: nothing behind it can decide."""
        denies: list[tuple[Test, Decision]] = []
        allows: list[tuple[Test, Decision]] = []
        for deny, tests in ((True, denies), (False, allows)):
            for candidate in rules:
                granted = candidate.granted
                if granted.rule.denies is not deny:
                    continue
                verdict = -candidate.number if deny else candidate.number
                test = self._test(deny, granted.rule.constraints)
                if granted.cap is not None and not deny:
                    test = _capped(test, granted.cap, operation, text)
                if test is None:
                    if not tests and (deny or not denies):
                        return verdict
                    tests.append((_always, verdict))
                    break
                tests.append((test, verdict))
        return (tuple(denies), tuple(allows)) if denies or allows else NO_MATCH

    def _test(self, deny: bool, constraints: tuple[Constraint, ...]) -> Test | None:
        """One test for each different set of constraints, however many rules share it."""
        key = (deny, constraints)
        if key not in self._tests:
            polarity = conditions.may_hold if deny else conditions.must_hold
            self._tests[key] = conditions.conjunction([polarity(constraint) for constraint in constraints])
        return self._tests[key]

    def truth_tests(self, constraint: Constraint) -> tuple[Test, Test]:
        """Return the tests whether a constraint surely and whether it possibly holds, compiled once."""
        tests = self._truths.get(constraint)
        if tests is None:
            tests = self._truths[constraint] = conditions.must_hold(constraint), conditions.may_hold(constraint)
        return tests


def compile_document(document: Document, policy_id: str = "", name: str = "", cap: Engine | None = None) -> Engine:
    """An engine of one document on its own."""
    return Engine(granted_rules(document, policy_id, name, cap))


def granted_rules(
    document: Document, policy_id: str = "", name: str = "", cap: Engine | None = None
) -> list[GrantedRule]:
    """A document's rules labelled with where they come from, ready to stand beside those of other documents."""
    return [GrantedRule(rule, Source(policy_id, name, index), cap) for index, rule in enumerate(document.rules)]


def _always(facts: RequestContext) -> bool:
    return True


def _capped(test: Test | None, cap: Engine, operation: str, target: str) -> Test:
    if test is None:
        return lambda facts: cap.decide(operation, target, facts) > 0
    return lambda facts: test(facts) and cap.decide(operation, target, facts) > 0


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


def _holds_for(candidate: Candidate, target: Target) -> bool:
    if candidate.ids is None:
        return True
    covers = may_cover if candidate.granted.rule.denies else must_cover
    return any(covers(pattern, target) for pattern in candidate.ids)
