"""The author's cap: does a draft allow any request its author may not make? Exact, with counterexamples.

The space of requests is cut into atoms (`atoms`, `space`), every rule becomes boxes in it, and boxes are subtracted
from boxes. What is left over is a request the draft would allow and the author may not make; it is built and put to
the ordinary engine on both sides before it is reported.

Two questions are asked. Of every allow of the draft: does it lie within the author's allows and the draft's own denies?
Of every allow of the draft within a deny of the author: does it lie within the draft's own denies? Rules that one rule
of the other side settles are not compared (`pruning`). The other rules are compared in rounds: first without the
draft's denies and without globs that are costly to tell apart. If nothing is left over then, no further rule can
change the answer. A request that is left over and that one of the omitted rules covers brings that rule into the next
round.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from client.policy import conditions
from client.policy.bitsets import MAX_WORK_UNITS, Box, BoxIndex, Budget, OutOfBudget, difference, indices, intersection
from client.policy.conditions import Test
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
    RequestContext,
    Rule,
)
from client.policy.pruning import (
    GlobSet,
    RuleIndex,
    entangled_globs,
    group_rules,
    restrict_to_tenant,
    split_entangled,
    uncovered_rules,
)
from client.policy.request_classes import UNKNOWN as UNKNOWN_ATOM
from client.policy.request_classes import context_of_atoms
from client.policy.request_space import ACTION, ID, RESOURCE, SERVICE, TYPE, CatalogueIndex, Space, split_names
from client.policy.request_space import REGION as REGION_PLACE

MAX_STEPS = 50_000
"""Subtraction steps; beyond, the answer is "undecided", which counts as a refusal."""
MAX_EXAMPLES = 5
MAX_REMAINING = 64
"""Boxes that are left over before the search stops: there are counterexamples enough in them."""
FIRST_BATCH = 8
"""Omitted rules that the second round brings in; each further round brings in four times as many."""
MAX_COVERED_POINTS = 8
"""Requests of a round for which the omitted rules that cover them are looked up."""

# Facts that few denies match, for requests on which a round does not depend.
NEUTRAL_ADDRESS = (4, 0xC6336401)
NEUTRAL_INSTANT = 0.0


class Answer(StrEnum):
    """Whether the draft stays within its author's rights."""

    WITHIN = "within"
    BEYOND = "beyond"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A request the draft would allow and its author may not make."""

    question: AccessRequest
    draft_rule: Source
    # The author's rule that denies it; None: nothing gives it to the author.
    author_deny: Source | None
    # The operation or the region does not exist yet: the draft would outgrow its author as the platform grows.
    future: bool
    # It is the region only; the operation exists.
    new_region: bool = False
    # Rules of either side ask for the time, and this request is one of which it is not known.
    time_unknown: bool = False


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The answer with up to five counterexamples, and how many steps and units of work it took."""

    answer: Answer
    examples: tuple[Counterexample, ...] = ()
    steps: int = 0
    work: int = 0


def check(
    draft: Document,
    author: Sequence[GrantedRule],
    *,
    tenant: str,
    catalogue: Iterable[str],
    regions: Sequence[str] = (),
    budget: int = MAX_STEPS,
    work: int = MAX_WORK_UNITS,
) -> CheckResult:
    """Return whether every request of `tenant` that the draft allows is one the author may make.

    `regions` are the regions that exist, preferred in this order in counterexamples; empty if they are not known.
    """
    if all(rule.denies for rule in draft.rules):
        return CheckResult(Answer.WITHIN)
    steps, units = Budget(budget), Budget(work)
    comparison = _Comparison(draft, author, tenant, catalogue, regions, steps, units)
    try:
        comparison.run()
        answer = Answer.BEYOND if comparison.examples else Answer.WITHIN
    except OutOfBudget:
        answer = Answer.BEYOND if comparison.examples else Answer.UNDECIDED
    examples = comparison.examples
    # One whose operation does not exist yet cannot be tried, so it is returned only if there is no other.
    examples = [one for one in examples if one.new_region or not one.future] or examples
    return CheckResult(answer, tuple(examples), budget - max(steps.left, 0), work - max(units.left, 0))


class _Comparison:
    """One draft and its author: what is asked, in which order, and the counterexamples found so far."""

    def __init__(
        self,
        draft: Document,
        author: Sequence[GrantedRule],
        tenant: str,
        catalogue: Iterable[str],
        regions: Sequence[str],
        steps: Budget,
        work: Budget,
    ) -> None:
        self.tenant = tenant
        self.regions = tuple(dict.fromkeys(regions))
        self.steps = steps
        self.work = work
        self.examples: list[Counterexample] = []
        self._rules = draft.rules, author
        self._names = catalogue
        self._tests: dict[tuple[bool, Constraint], Test] = {}
        drafted, held = _applicable(draft.rules, tenant), _applicable([granted.rule for granted in author], tenant)
        keys = {one.key for rule in (*draft.rules, *(granted.rule for granted in author)) for one in rule.constraints}
        self._uses_region, self._uses_tenant, self._uses_time = (key in keys for key in (REGION, TENANT, CURRENT_TIME))
        self.allows, self.denies = _apart(drafted)
        self.held, self.held_denies = _apart(held)

    @cached_property
    def _engines(self) -> tuple[Engine, Engine]:
        """The draft's and the author's."""
        draft, author = self._rules
        drafted = [GrantedRule(rule, Source("", "draft", index)) for index, rule in enumerate(draft)]
        return Engine(drafted), Engine(author)

    @cached_property
    def _catalogue(self) -> list[list[str]]:
        return split_names(self._names)

    def run(self) -> None:
        """Find counterexamples, up to five. Raises `OutOfBudget`."""
        own_denies = [part for rule in self.denies for part in split_entangled(rule)]
        held = [part for rule in self.held for part in split_entangled(rule)]
        allows = uncovered_rules(self.allows, RuleIndex(self.denies))
        beyond = [part for rule in uncovered_rules(allows, RuleIndex(self.held)) for part in split_entangled(rule)]
        for group in group_rules(beyond):
            self._examine(group, None, held, own_denies)
            if len(self.examples) == MAX_EXAMPLES:
                return
        taken = uncovered_rules(self.held_denies, RuleIndex(self.denies))
        if not taken:
            return
        whole = [part for rule in allows for part in split_entangled(rule)]
        for denied in group_rules(part for rule in taken for part in split_entangled(rule)):
            for group in group_rules(whole):
                self._examine(group, denied, [], own_denies)
                if len(self.examples) == MAX_EXAMPLES:
                    return

    def _examine(
        self, allows: Sequence[Rule], denied: Sequence[Rule] | None, covers: Sequence[Rule], later: Sequence[Rule]
    ) -> None:
        """Compare some allows of the draft, within some denies of the author if any, with what may cover them."""
        tangle = GlobSet(glob for rule in (*allows, *(denied or ())) for glob in entangled_globs(rule))
        chosen: list[Rule] = []
        omitted: list[Rule] = []
        for rule in covers:
            (chosen if tangle.takes(rule) else omitted).append(rule)
        omitted += later
        batch = FIRST_BATCH
        while True:
            space = Space([*allows, *(denied or ()), *chosen], self.tenant, self.work, self.regions)
            left = _Search(space, self.steps).run(allows, denied, chosen)
            if not left or self._report(space, left, omitted):
                return
            missing = self._missing
            if not missing:
                raise AssertionError("the search and the engine disagree")
            # One entangled glob may be enough for all that is left over; each one more doubles what is told apart.
            plain = [place for place in missing if not entangled_globs(omitted[place])]
            taken = set(plain[:batch] or missing[:1])
            chosen += [omitted[place] for place in sorted(taken)]
            omitted = [rule for place, rule in enumerate(omitted) if place not in taken]
            batch *= 4

    def _report(self, space: Space, left: Sequence[Box], omitted: Sequence[Rule]) -> bool:
        """Add the counterexamples among the boxes left over; if there are none, find the omitted rules that cover them.

        Returns whether there were any.
        """
        names = CatalogueIndex(self._catalogue, space)
        found = False
        points = 0
        missing: dict[int, None] = {}
        for box in sorted(left, key=lambda box: not names.within(box)):
            for question, future, new_region in self._questions(space, box, names, omitted):
                example = self._example(question, future, new_region)
                if example is not None:
                    found = True
                    if all(example.question != known.question for known in self.examples):
                        self.examples.append(example)
                    break
                if not found and points < MAX_COVERED_POINTS:
                    points += 1
                    missing |= dict.fromkeys(self._covering(question, omitted))
            if len(self.examples) == MAX_EXAMPLES:
                break
        self._missing = list(missing)
        return found

    def _questions(
        self, space: Space, box: Box, names: CatalogueIndex, omitted: Sequence[Rule]
    ) -> Iterator[tuple[AccessRequest, bool, bool]]:
        """Yield requests of a box, with whether they need something that does not exist yet, and whether a region.

        The second one has facts for keys that only omitted rules use.
        """
        chosen: list[Any] = [
            coordinate.atoms[(mask & -mask).bit_length() - 1]
            for coordinate, mask in zip(space.coordinates, box, strict=True)
        ]
        known = next(space.operations_in(box, names), None)
        operation = known or OperationPattern(chosen[SERVICE], chosen[RESOURCE], chosen[ACTION])
        new_region = False
        if self.regions and chosen[REGION_PLACE] not in self.regions:
            # A region that does not exist is the last choice: no request has it today.
            if box[REGION_PLACE] & space.coordinates[REGION_PLACE].only_unknown():
                chosen[REGION_PLACE] = UNKNOWN_ATOM
            new_region = chosen[REGION_PLACE] is not UNKNOWN_ATOM
        region, kind, name = (STAR if atom is UNKNOWN_ATOM else atom for atom in chosen[REGION_PLACE : ID + 1])
        if kind == space.unnamed(TYPE) and operation.resource not in space.coordinates[TYPE].atoms:
            # Any type that no rule names will do: that of the operation is the one a person expects.
            kind = operation.resource
        target = Target(operation.service, region, space.tenant, kind, name)
        facts = replace(
            context_of_atoms(dict(zip(space.keys, chosen[6:], strict=True))),
            region=region if self._uses_region and region != STAR else None,
            tenant=space.tenant if self._uses_tenant else None,
        )
        future = known is None or new_region
        new_region = new_region and known is not None
        yield AccessRequest(str(operation), str(target), facts), future, new_region
        keys = {constraint.key for rule in omitted for constraint in rule.constraints}.difference(space.keys)
        neutral = _with_neutral(facts, keys, space.keys)
        if neutral != facts:
            yield AccessRequest(str(operation), str(target), neutral), future, new_region

    def _example(self, question: AccessRequest, future: bool, new_region: bool) -> Counterexample | None:
        """Try a request on both sides; None if the draft does not allow it or the author does."""
        draft, author = self._engines
        given, held = (engine.decide(question.operation, question.target, question.facts) for engine in (draft, author))
        if given <= 0 or held > 0:
            return None
        source = draft.source(given)
        assert source is not None
        time_unknown = self._uses_time and question.facts.current_time is None
        return Counterexample(question, source, author.source(held), future, new_region, time_unknown)

    def _covering(self, question: AccessRequest, omitted: Sequence[Rule]) -> list[int]:
        """Return the places of the omitted rules that cover a request."""
        self.work.spend(4 * len(omitted))
        operation, target = parse_operation(question.operation), parse_target(question.target)
        return [
            place
            for place, rule in enumerate(omitted)
            if any(pattern.matches(operation) for pattern in rule.operations)
            and any((may_cover if rule.denies else must_cover)(pattern, target) for pattern in rule.targets)
            and all(self._test(constraint, rule.denies)(question.facts) for constraint in rule.constraints)
        ]

    def _test(self, constraint: Constraint, deny: bool) -> Test:
        test = self._tests.get((deny, constraint))
        if test is None:
            polarity = conditions.may_hold if deny else conditions.must_hold
            test = self._tests[deny, constraint] = polarity(constraint)
        return test


def _applicable(rules: Iterable[Rule], tenant: str) -> list[Rule]:
    return [found for rule in rules if (found := restrict_to_tenant(rule, tenant)) is not None]


def _apart(rules: Sequence[Rule]) -> tuple[list[Rule], list[Rule]]:
    """Return the allows and the denies."""
    return [rule for rule in rules if not rule.denies], [rule for rule in rules if rule.denies]


def _with_neutral(facts: RequestContext, keys: set[str], cut: Sequence[str]) -> RequestContext:
    """Return the facts with known values for some keys; a tag map of which a tag is already known or unknown stays."""
    if any(key.startswith(REQUEST_TAG) for key in keys) and not any(key.startswith(REQUEST_TAG) for key in cut):
        facts = replace(facts, request_tags={})
    if any(key.startswith(RESOURCE_TAG) for key in keys) and not any(key.startswith(RESOURCE_TAG) for key in cut):
        facts = replace(facts, resource_tags={})
    if SOURCE_IP in keys:
        facts = replace(facts, source_ip=NEUTRAL_ADDRESS)
    if CURRENT_TIME in keys:
        facts = replace(facts, current_time=NEUTRAL_INSTANT)
    if PRINCIPAL_TYPE in keys:
        facts = replace(facts, principal_type="user")
    return facts


class _Search:
    def __init__(self, space: Space, steps: Budget) -> None:
        self.space = space
        self.steps = steps

    def run(self, allows: Sequence[Rule], denied: Sequence[Rule] | None, covers: Sequence[Rule]) -> list[Box]:
        """Return the boxes of the allows, within the denied rules if any, that the covers leave."""
        coordinates, work = len(self.space.coordinates), self.space.work
        subtracted = BoxIndex(self._boxes(covers), coordinates, work)
        within = None if denied is None else BoxIndex(self._boxes(denied), coordinates, work)
        boxes = self._boxes(allows)
        left: list[Box] = []
        for world in self.space.worlds():
            for whole in boxes:
                box = intersection(whole, world)
                if box is None:
                    continue
                if within is None:
                    left += self._minus(box, subtracted)
                else:
                    for number in indices(within.meeting(box, within.all)):
                        both = intersection(box, within.boxes[number])
                        assert both is not None
                        left += self._minus(both, subtracted)
                if len(left) > MAX_REMAINING:
                    return left
        return left

    def _boxes(self, rules: Sequence[Rule]) -> list[Box]:
        return list(dict.fromkeys(box for rule in rules for box in self.space.boxes(rule)))

    def _minus(self, box: Box, covers: BoxIndex) -> list[Box]:
        """Return the pieces of a box that the covers leave, depth first: the first pieces are enough."""
        left: list[Box] = []
        stack = [(box, covers.all)]
        while stack:
            self.steps.spend(1)
            self.space.work.spend(10 + len(box))
            rest, among = stack.pop()
            near = covers.meeting(rest, among)
            if not near:
                left.append(rest)
                if len(left) > MAX_REMAINING:
                    return left
            elif not covers.holding(rest, near):
                widest = near & -near
                cover = covers.boxes[widest.bit_length() - 1]
                for piece in difference(rest, cover):
                    self.space.work.spend(len(piece))
                    stack.append((piece, near ^ widest))
        return left
