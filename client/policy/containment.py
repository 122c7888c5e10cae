"""The author check: an exact search for requests that a draft allows and its author may not make.

Each dimension of the request space is divided into atoms (`request_classes`), each rule becomes boxes
(`request_space`), and boxes are subtracted from boxes. The engines of both sides decide a request of a remaining box
before it is reported.

The draft is within its author's rights if both hold: its allows are covered by the author's allows and its own denies;
the parts of its allows that an author's deny covers are covered by its own denies. Rules that a single rule of the
other side settles are removed (`request_space`). The others are compared in rounds. The first round omits the draft's
denies and globs that are costly to distinguish. This is sound: omitted rules only subtract, so an empty remainder is
final, and an omitted rule that covers a remaining request is added in the next round.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from client.policy import model
from client.policy.bitsets import MAX_WORK_UNITS, Box, BoxIndex, Budget, OutOfBudget, difference, indices, intersection
from client.policy.engine import Engine, GrantedRule, Source
from client.policy.matching import STAR, OperationPattern, Target, may_cover, must_cover, parse_operation, parse_target
from client.policy.model import (
    CURRENT_TIME,
    PRINCIPAL_TYPE,
    REGION,
    REQUEST_TAG,
    RESOURCE_TAG,
    SOURCE_IP,
    TENANT,
    AccessRequest,
    Constraint,
    Document,
    Predicate,
    RequestContext,
    Rule,
)
from client.policy.problems import MAX_EXAMPLES
from client.policy.request_classes import UNKNOWN as UNKNOWN_ATOM
from client.policy.request_classes import context_of_atoms
from client.policy.request_space import (
    ACTION,
    ID,
    RESOURCE,
    SERVICE,
    TYPE,
    CatalogueIndex,
    GlobSet,
    RuleIndex,
    Space,
    entangled_globs,
    group_rules,
    restrict_to_tenant,
    split_entangled,
    split_names,
    uncovered_rules,
)
from client.policy.request_space import REGION as REGION_AXIS

MAX_STEPS = 50_000
"""Beyond this number of subtraction steps the answer is "undecided", which callers must refuse."""
MAX_REMAINING = 64
"""Limit on remaining boxes: they contain enough counterexamples."""
FIRST_BATCH = 8
"""Omitted rules added in the second round; quadruples in each further round."""
MAX_COMPARED_POINTS = 8
"""Requests of a round that are compared with omitted rules."""

# Values that few denies match.
NEUTRAL_ADDRESS = (4, 0xC6336401)
NEUTRAL_TIME = 0.0


class Answer(StrEnum):
    WITHIN = "within"
    BEYOND = "beyond"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Counterexample:
    request: AccessRequest
    draft_rule: Source
    # The author's rule that denies it; None if no allow matches.
    author_deny: Source | None
    # The operation or the region does not exist yet.
    future: bool
    # Only the region does not exist yet.
    new_region: bool = False
    # Rules have time constraints, and the request has no time.
    time_unknown: bool = False


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The answer, up to five counterexamples, and the steps and units of work used."""

    answer: Answer
    examples: tuple[Counterexample, ...] = ()
    steps: int = 0
    work_units: int = 0


def check(
    draft: Document,
    author: Sequence[GrantedRule],
    *,
    tenant: str,
    catalogue: Iterable[str],
    regions: Sequence[str] = (),
    max_steps: int = MAX_STEPS,
    max_work: int = MAX_WORK_UNITS,
) -> CheckResult:
    """Return whether the author may make every request of `tenant` that the draft allows.

    Args:
        regions: The existing regions in order of preference for counterexamples; empty if unknown.
    """
    if all(rule.denies for rule in draft.rules):
        return CheckResult(Answer.WITHIN)
    steps, work = Budget(max_steps), Budget(max_work)
    comparison = _Comparison(draft, author, tenant, catalogue, regions, steps, work)
    try:
        comparison.run()
        answer = Answer.BEYOND if comparison.examples else Answer.WITHIN
    except OutOfBudget:
        answer = Answer.BEYOND if comparison.examples else Answer.UNDECIDED
    examples = comparison.examples
    # Users cannot try a future operation, so it is a last resort.
    examples = [example for example in examples if example.new_region or not example.future] or examples
    return CheckResult(answer, tuple(examples), max_steps - max(steps.remaining, 0), max_work - max(work.remaining, 0))


class _Comparison:
    def __init__(
        self,
        draft: Document,
        author: Sequence[GrantedRule],
        tenant: str,
        catalogue: Iterable[str],
        regions: Sequence[str],
        step_budget: Budget,
        work_budget: Budget,
    ) -> None:
        self.tenant = tenant
        self.regions = tuple(dict.fromkeys(regions))
        self.step_budget = step_budget
        self.work_budget = work_budget
        self.examples: list[Counterexample] = []
        self._rules = draft.rules, author
        self._operation_names = catalogue
        self._predicates: dict[tuple[bool, Constraint], Predicate] = {}
        draft_rules, author_rules = (
            _applicable(draft.rules, tenant),
            _applicable([granted.rule for granted in author], tenant),
        )
        keys = {
            constraint.key
            for rule in (*draft.rules, *(granted.rule for granted in author))
            for constraint in rule.constraints
        }
        self._uses_region, self._uses_tenant, self._uses_time = (key in keys for key in (REGION, TENANT, CURRENT_TIME))
        self.allows, self.denies = _split_by_effect(draft_rules)
        self.author_allows, self.author_denies = _split_by_effect(author_rules)

    @cached_property
    def _engines(self) -> tuple[Engine, Engine]:
        draft, author = self._rules
        draft_rules = [GrantedRule(rule, Source("", "draft", index)) for index, rule in enumerate(draft)]
        return Engine(draft_rules), Engine(author)

    @cached_property
    def _catalogue(self) -> list[list[str]]:
        return split_names(self._operation_names)

    def run(self) -> None:
        """Collect up to five counterexamples. Raises `OutOfBudget`."""
        own_denies = [piece for rule in self.denies for piece in split_entangled(rule)]
        author_allows = [piece for rule in self.author_allows for piece in split_entangled(rule)]
        open_allows = uncovered_rules(self.allows, RuleIndex(self.denies))
        uncovered = [
            piece
            for rule in uncovered_rules(open_allows, RuleIndex(self.author_allows))
            for piece in split_entangled(rule)
        ]
        for group in group_rules(uncovered):
            self._compare(group, None, author_allows, own_denies)
            if len(self.examples) == MAX_EXAMPLES:
                return
        relevant_denies = uncovered_rules(self.author_denies, RuleIndex(self.denies))
        if not relevant_denies:
            return
        draft_allows = [piece for rule in open_allows for piece in split_entangled(rule)]
        for denies in group_rules(piece for rule in relevant_denies for piece in split_entangled(rule)):
            for group in group_rules(draft_allows):
                self._compare(group, denies, [], own_denies)
                if len(self.examples) == MAX_EXAMPLES:
                    return

    def _compare(
        self,
        allows: Sequence[Rule],
        within: Sequence[Rule] | None,
        author_allows: Sequence[Rule],
        draft_denies: Sequence[Rule],
    ) -> None:
        """Compare allows, limited to denies of the author if given, with the rules that may cover them."""
        globs = GlobSet(glob for rule in (*allows, *(within or ())) for glob in entangled_globs(rule))
        compared: list[Rule] = []
        omitted: list[Rule] = []
        for rule in author_allows:
            (compared if globs.try_add(rule) else omitted).append(rule)
        omitted += draft_denies
        batch = FIRST_BATCH
        while True:
            space = Space([*allows, *(within or ()), *compared], self.tenant, self.work_budget, self.regions)
            remaining_boxes = _Search(space, self.step_budget).run(allows, within, compared)
            missing = self._collect_examples(space, remaining_boxes, omitted) if remaining_boxes else None
            if missing is None:
                return
            if not missing:
                raise AssertionError("the search and the engine disagree")
            # A single entangled glob may cover all boxes, and each further glob doubles the number of classes.
            plain_rules = [index for index in missing if not entangled_globs(omitted[index])]
            added = set(plain_rules[:batch] or missing[:1])
            compared += [omitted[index] for index in sorted(added)]
            omitted = [rule for index, rule in enumerate(omitted) if index not in added]
            batch *= 4

    def _collect_examples(
        self, space: Space, remaining_boxes: Sequence[Box], omitted: Sequence[Rule]
    ) -> list[int] | None:
        """Return None if the boxes contain counterexamples, else the indices of omitted rules that cover requests."""
        catalogue = CatalogueIndex(self._catalogue, space)
        has_example = False
        examined = 0
        missing: dict[int, None] = {}
        for box in sorted(remaining_boxes, key=lambda box: not catalogue.within(box)):
            for request, future, new_region in self._requests(space, box, catalogue, omitted):
                example = self._try_request(request, future, new_region)
                if example is not None:
                    has_example = True
                    if all(example.request != other.request for other in self.examples):
                        self.examples.append(example)
                    break
                if not has_example and examined < MAX_COMPARED_POINTS:
                    examined += 1
                    missing |= dict.fromkeys(self._matching_rules(request, omitted))
            if len(self.examples) == MAX_EXAMPLES:
                break
        return None if has_example else list(missing)

    def _requests(
        self, space: Space, box: Box, catalogue: CatalogueIndex, omitted: Sequence[Rule]
    ) -> Iterator[tuple[AccessRequest, bool, bool]]:
        """Yield requests of a box with `Counterexample.future` and `new_region`.

        The second request has values for keys that only omitted rules use.
        """
        witnesses: list[Any] = [
            dimension.atoms[(mask & -mask).bit_length() - 1]
            for dimension, mask in zip(space.dimensions, box, strict=True)
        ]
        existing = next(space.known_operations(box, catalogue), None)
        operation = existing or OperationPattern(witnesses[SERVICE], witnesses[RESOURCE], witnesses[ACTION])
        new_region = False
        if self.regions and witnesses[REGION_AXIS] not in self.regions:
            if box[REGION_AXIS] & space.dimensions[REGION_AXIS].only_unknown():
                witnesses[REGION_AXIS] = UNKNOWN_ATOM
            new_region = witnesses[REGION_AXIS] is not UNKNOWN_ATOM
        region, type_, id_ = (STAR if atom is UNKNOWN_ATOM else atom for atom in witnesses[REGION_AXIS : ID + 1])
        if type_ == space.unnamed_value(TYPE) and operation.resource not in space.dimensions[TYPE].atoms:
            # Any type that no rule names is correct; the operation's is the most familiar.
            type_ = operation.resource
        target = Target(operation.service, region, space.tenant, type_, id_)
        context = replace(
            context_of_atoms(dict(zip(space.keys, witnesses[6:], strict=True))),
            region=region if self._uses_region and region != STAR else None,
            tenant=space.tenant if self._uses_tenant else None,
        )
        future = existing is None or new_region
        new_region = new_region and existing is not None
        yield AccessRequest(str(operation), str(target), context), future, new_region
        keys = {constraint.key for rule in omitted for constraint in rule.constraints}.difference(space.keys)
        neutral = _with_neutral(context, keys, space.keys)
        if neutral != context:
            yield AccessRequest(str(operation), str(target), neutral), future, new_region

    def _try_request(self, request: AccessRequest, future: bool, new_region: bool) -> Counterexample | None:
        """Return None if the draft denies the request or the author may make it."""
        draft, author = self._engines
        draft_decision, author_decision = (
            engine.decide(request.operation, request.target, request.context) for engine in (draft, author)
        )
        if draft_decision <= 0 or author_decision > 0:
            return None
        source = draft.source(draft_decision)
        assert source is not None
        time_unknown = self._uses_time and request.context.current_time is None
        return Counterexample(request, source, author.source(author_decision), future, new_region, time_unknown)

    def _matching_rules(self, request: AccessRequest, omitted: Sequence[Rule]) -> list[int]:
        self.work_budget.consume(4 * len(omitted))
        operation, target = parse_operation(request.operation), parse_target(request.target)
        return [
            index
            for index, rule in enumerate(omitted)
            if any(pattern.matches(operation) for pattern in rule.operations)
            and any((may_cover if rule.denies else must_cover)(pattern, target) for pattern in rule.targets)
            and all(self._predicate(constraint, rule.denies)(request.context) for constraint in rule.constraints)
        ]

    def _predicate(self, constraint: Constraint, deny: bool) -> Predicate:
        predicate = self._predicates.get((deny, constraint))
        if predicate is None:
            polarity = model.may_hold if deny else model.must_hold
            predicate = self._predicates[deny, constraint] = polarity(constraint)
        return predicate


def _applicable(rules: Iterable[Rule], tenant: str) -> list[Rule]:
    return [restricted for rule in rules if (restricted := restrict_to_tenant(rule, tenant)) is not None]


def _split_by_effect(rules: Sequence[Rule]) -> tuple[list[Rule], list[Rule]]:
    return [rule for rule in rules if not rule.denies], [rule for rule in rules if rule.denies]


def _with_neutral(context: RequestContext, keys: set[str], dimension_keys: Sequence[str]) -> RequestContext:
    """Return the context with neutral values for keys, except in tag maps that have a dimension."""
    if any(key.startswith(REQUEST_TAG) for key in keys) and not any(
        key.startswith(REQUEST_TAG) for key in dimension_keys
    ):
        context = replace(context, request_tags={})
    if any(key.startswith(RESOURCE_TAG) for key in keys) and not any(
        key.startswith(RESOURCE_TAG) for key in dimension_keys
    ):
        context = replace(context, resource_tags={})
    if SOURCE_IP in keys:
        context = replace(context, source_ip=NEUTRAL_ADDRESS)
    if CURRENT_TIME in keys:
        context = replace(context, current_time=NEUTRAL_TIME)
    if PRINCIPAL_TYPE in keys:
        context = replace(context, principal_type="user")
    return context


class _Search:
    def __init__(self, space: Space, step_budget: Budget) -> None:
        self.space = space
        self.step_budget = step_budget

    def run(self, allows: Sequence[Rule], denies: Sequence[Rule] | None, author_allows: Sequence[Rule]) -> list[Box]:
        """Return the boxes of the allows (limited to the denies if given) outside the author's allows."""
        dimensions, budget = len(self.space.dimensions), self.space.budget
        index = BoxIndex(self._boxes(author_allows), dimensions, budget)
        index_of_denies = None if denies is None else BoxIndex(self._boxes(denies), dimensions, budget)
        boxes = self._boxes(allows)
        remaining_boxes: list[Box] = []
        for subspace in self.space.subspaces():
            for full_box in boxes:
                box = intersection(full_box, subspace)
                if box is None:
                    continue
                if index_of_denies is None:
                    remaining_boxes += self._subtract(box, index)
                else:
                    for number in indices(index_of_denies.overlapping(box, index_of_denies.all)):
                        overlap = intersection(box, index_of_denies.boxes[number])
                        assert overlap is not None
                        remaining_boxes += self._subtract(overlap, index)
                if len(remaining_boxes) > MAX_REMAINING:
                    return remaining_boxes
        return remaining_boxes

    def _boxes(self, rules: Sequence[Rule]) -> list[Box]:
        return list(dict.fromkeys(box for rule in rules for box in self.space.boxes(rule)))

    def _subtract(self, box: Box, index: BoxIndex) -> list[Box]:
        """Return disjoint pieces of a box outside the indexed boxes, at most `MAX_REMAINING` + 1, depth first."""
        remaining_boxes: list[Box] = []
        stack = [(box, index.all)]
        while stack:
            self.step_budget.consume(1)
            self.space.budget.consume(10 + len(box))
            remainder, candidates = stack.pop()
            overlapping = index.overlapping(remainder, candidates)
            if not overlapping:
                remaining_boxes.append(remainder)
                if len(remaining_boxes) > MAX_REMAINING:
                    return remaining_boxes
            elif not index.containing(remainder, overlapping):
                lowest_bit = overlapping & -overlapping
                cover = index.boxes[lowest_bit.bit_length() - 1]
                for piece in difference(remainder, cover):
                    self.space.budget.consume(len(piece))
                    stack.append((piece, overlapping ^ lowest_bit))
        return remaining_boxes
