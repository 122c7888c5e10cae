"""The author's cap: does a draft allow any request its author may not make? Exact, with counterexamples.

The space of requests is cut into atoms (`atoms`), every rule becomes boxes in it, and boxes are subtracted from
boxes. What is left over is a request the draft would allow and the author may not make; it is built and put to the
ordinary engine on both sides before it is reported. policy language: The author's cap.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from service.policy.atoms import UNKNOWN as UNKNOWN_ATOM
from service.policy.atoms import (
    Coordinate,
    fact,
    facts_of,
    id_mask,
    literal_mask,
    operation_part,
    target_id,
    target_part,
)
from service.policy.bits import places_in
from service.policy.boxes import Box, Covers, meet, merged, split, union
from service.policy.engine import Engine, GrantedRule, Source
from service.policy.facts import Question
from service.policy.matching import STAR, OperationPattern, Target
from service.policy.rules import REQUEST_TAG, RESOURCE_TAG, Constraint, Document, Rule
from service.policy.work import LIMIT, OutOfBudget, Work

BUDGET = 50_000
"""Subtraction steps; beyond, the answer is "undecided", which counts as a refusal."""
MOST_EXAMPLES = 5
MOST_LEFT = 64
"""Boxes that are left over before the search stops: there are counterexamples enough in them."""

# Coordinates 0 to 2 are the operation's parts, 3 to 5 the target's region, type and id; facts follow. The target's
# service is the operation's, and its tenant is always the document's, so neither is a coordinate of its own.
SERVICE, RESOURCE, ACTION, REGION, TYPE, ID = range(6)


class Answer(StrEnum):
    """Whether the draft stays within its author's rights."""

    WITHIN = "within"
    BEYOND = "beyond"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A request the draft would allow and its author may not make."""

    question: Question
    draft_rule: Source
    # The author's rule that denies it; None: nothing gives it to the author.
    author_deny: Source | None
    # The operation is not in the catalogue yet: the draft would outgrow its author as the catalogue grows.
    future: bool


@dataclass(frozen=True, slots=True)
class Check:
    """The answer with up to five counterexamples, and how many steps it took."""

    answer: Answer
    examples: tuple[Counterexample, ...] = ()
    steps: int = 0


def check(
    draft: Document,
    author: Sequence[GrantedRule],
    *,
    tenant: str,
    catalogue: Iterable[str],
    budget: int = BUDGET,
    work: int = LIMIT,
) -> Check:
    """Whether every request of `tenant` that the draft allows is one the author may make."""
    if all(rule.denies for rule in draft.rules):
        return Check(Answer.WITHIN)
    engine = Engine(author)
    try:
        space = Space([*draft.rules, *(granted.rule for granted in author)], tenant, Work(work))
        search = _Search(space, budget)
        rest = search.run(draft.rules, [granted.rule for granted in author])
    except OutOfBudget:
        return Check(Answer.UNDECIDED, steps=budget)
    if not rest:
        return Check(Answer.WITHIN, steps=search.steps)
    drafted = Engine([GrantedRule(rule, Source("", "draft", index)) for index, rule in enumerate(draft.rules)])
    examples: list[Counterexample] = []
    names = _Names(catalogue, space)
    for box in sorted(rest, key=lambda box: not names.within(box)):
        example = _example(space, box, names, drafted, engine)
        if example is not None and all(example.question != known.question for known in examples):
            examples.append(example)
        if len(examples) == MOST_EXAMPLES:
            break
    return Check(Answer.BEYOND, tuple(examples), search.steps)


class Space:
    """The coordinates that two sets of rules need, and rules as boxes in them."""

    def __init__(self, rules: Sequence[Rule], tenant: str, work: Work) -> None:
        self.tenant = tenant
        self.work = work
        operations = [pattern for rule in rules for pattern in rule.operations]
        targets = [pattern for rule in rules for pattern in rule.targets]
        services = [pattern.service for pattern in operations] + [target.service for target in targets]
        by_key: dict[str, list[Constraint]] = {}
        for rule in rules:
            for constraint in rule.constraints:
                by_key.setdefault(constraint.key, []).append(constraint)
        self.keys = sorted(by_key)
        self._places = {key: place for place, key in enumerate(self.keys, 6)}
        self.coordinates: list[Coordinate] = [
            operation_part(services, work),
            operation_part([pattern.resource for pattern in operations], work),
            operation_part([pattern.action for pattern in operations], work),
            target_part([target.region for target in targets], work),
            target_part([target.type for target in targets], work),
            target_id([target.id for target in targets], work),
            *(fact(key, by_key[key], work) for key in self.keys),
        ]
        self.full: Box = tuple(coordinate.full for coordinate in self.coordinates)

    def worlds(self) -> list[Box]:
        """The whole space, split where a tag map is known or unknown: its keys are unknown only together."""
        found = [list(self.full)]
        for prefix in (REQUEST_TAG, RESOURCE_TAG):
            places = [6 + number for number, key in enumerate(self.keys) if key.startswith(prefix)]
            if len(places) < 2:
                continue
            split = []
            for world in found:
                for unknown in (False, True):
                    half = list(world)
                    for place in places:
                        coordinate = self.coordinates[place]
                        half[place] = coordinate.only_unknown() if unknown else coordinate.without_unknown()
                    split.append(half)
            found = split
        return [tuple(world) for world in found]

    def boxes(self, rule: Rule) -> list[Box]:
        """A rule as boxes: an allow where it surely holds, a deny where it may hold."""
        facts = list(self.full[6:])
        for constraint in rule.constraints:
            place = self._places[constraint.key]
            facts[place - 6] &= self.coordinates[place].mask_of(constraint, deny=rule.denies)
        if not all(facts):
            return []
        found = set()
        operations, targets = self._operations(rule), self._targets(rule)
        self.work.spend(2 * len(operations) * len(targets) * (6 + len(self.full)))
        for service, resource, action in operations:
            for target_service, region, kind, name in targets:
                both = service & target_service
                if both:
                    found.add((both, resource, action, region, kind, name, *facts))
        return list(found)

    def _operations(self, rule: Rule) -> set[tuple[int, int, int]]:
        parts = self.coordinates
        found = [
            tuple(literal_mask(parts[place], part, deny=rule.denies) for place, part in enumerate(pattern))
            for pattern in rule.operations
        ]
        return {(a, b, c) for a, b, c in merged(found)}

    def _targets(self, rule: Rule) -> set[tuple[int, int, int, int]]:
        parts, deny = self.coordinates, rule.denies
        found = [
            (
                literal_mask(parts[SERVICE], target.service, deny=deny),
                literal_mask(parts[REGION], target.region, deny=deny),
                literal_mask(parts[TYPE], target.type, deny=deny),
                id_mask(parts[ID], target.id, deny=deny),
            )
            for target in rule.targets
            if target.tenant in (STAR, self.tenant)
        ]
        return {(a, b, c, d) for a, b, c, d in merged(found)}

    def unnamed(self, place: int) -> str:
        """The value that stands for all those of a part of the target that no rule names."""
        return str(self.coordinates[place].atoms[-2])

    def operations_in(self, box: Box, names: "_Names") -> Iterator[OperationPattern]:
        """The operations of today's catalogue in the box."""
        for number in places_in(names.within(box)):
            yield OperationPattern(*names.names[number])


class _Names:
    """The catalogue cut by the same atoms: bit i of a set is operation i."""

    def __init__(self, names: Iterable[str], space: Space) -> None:
        self.names = [name.split(":") for name in names]
        self._atoms: list[list[int]] = []
        for place in (SERVICE, RESOURCE, ACTION):
            atoms = space.coordinates[place].atoms
            # The last atom stands for every value that is not named.
            numbers = {value: number for number, value in enumerate(atoms[:-1])}
            sets = [0] * len(atoms)
            for number, name in enumerate(self.names):
                sets[numbers.get(name[place], len(atoms) - 1)] |= 1 << number
            self._atoms.append(sets)

    def within(self, box: Box) -> int:
        """The operations of a box."""
        found = (1 << len(self.names)) - 1
        for place, sets in enumerate(self._atoms):
            found &= union(sets[number] for number in places_in(box[place]))
        return found


class _Search:
    def __init__(self, space: Space, budget: int) -> None:
        self.space = space
        self.budget = budget
        self.steps = 0

    def run(self, draft: Sequence[Rule], author: Sequence[Rule]) -> list[Box]:
        """The boxes of requests the draft allows and the author may not make; empty when there are none."""
        coordinates = len(self.space.coordinates)
        back = self._boxes(draft, deny=True)
        work = self.space.work
        covers = Covers([*back, *self._boxes(author, deny=False)], coordinates, work)
        taken_back = Covers(back, coordinates, work)
        denied = Covers(self._boxes(author, deny=True), coordinates, work)
        allowed = self._boxes(draft, deny=False)
        left: list[Box] = []
        for world in self.space.worlds():
            for whole in allowed:
                box = meet(whole, world)
                if box is None:
                    continue
                left += self._minus(box, covers)
                for number in places_in(denied.meeting(box, denied.all)):
                    both = meet(box, denied.boxes[number])
                    assert both is not None
                    left += self._minus(both, taken_back)
                if len(left) > MOST_LEFT:
                    return left
        return left

    def _boxes(self, rules: Sequence[Rule], *, deny: bool) -> set[Box]:
        return {box for rule in rules if rule.denies is deny for box in self.space.boxes(rule)}

    def _minus(self, box: Box, covers: Covers) -> list[Box]:
        """What the covers leave of a box. Depth first: of a box that is left over the first pieces are enough."""
        left: list[Box] = []
        stack = [(box, covers.all)]
        while stack:
            self.steps += 1
            if self.steps > self.budget:
                raise OutOfBudget
            self.space.work.spend(10 + len(box))
            rest, among = stack.pop()
            near = covers.meeting(rest, among)
            if not near:
                left.append(rest)
                if len(left) > MOST_LEFT:
                    return left
            elif not covers.holding(rest, near):
                widest = near & -near
                cover = covers.boxes[widest.bit_length() - 1]
                for piece in split(rest, cover):
                    self.space.work.spend(len(piece))
                    stack.append((piece, near ^ widest))
        return left


def _example(space: Space, box: Box, names: _Names, draft: Engine, author: Engine) -> Counterexample | None:
    """A concrete request of the box, tried on both sides."""
    chosen = [
        coordinate.atoms[(mask & -mask).bit_length() - 1]
        for coordinate, mask in zip(space.coordinates, box, strict=True)
    ]
    known = next(space.operations_in(box, names), None)
    operation = known or OperationPattern(chosen[SERVICE], chosen[RESOURCE], chosen[ACTION])
    region, kind, name = (STAR if atom is UNKNOWN_ATOM else atom for atom in chosen[REGION : ID + 1])
    if kind == space.unnamed(TYPE) and operation.resource not in space.coordinates[TYPE].atoms:
        # Any type that no rule names will do: that of the operation is the one a person expects.
        kind = operation.resource
    target = Target(operation.service, region, space.tenant, kind, name)
    facts = facts_of(dict(zip(space.keys, chosen[6:], strict=True)))
    question = Question(str(operation), str(target), facts)
    given, held = (engine.decide(question.operation, question.target, facts) for engine in (draft, author))
    if given <= 0 or held > 0:
        raise AssertionError(f"the search and the engine disagree on {question}")
    source = draft.source(given)
    assert source is not None
    return Counterexample(question, source, author.source(held), known is None)
