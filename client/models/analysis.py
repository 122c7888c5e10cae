"""Results of the analysis of policies: simulation, coverage, author check, preview; and the details of its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationError

from client.models.base import Instant, Wire
from client.models.iam import PrincipalRef


class DocumentProblem(Wire):
    """An error or a warning about a policy document. Lines and columns are numbered from 1."""

    path: str = ""
    line: int = 1
    column: int = 1
    reason: str = ""
    suggestions: tuple[str, ...] = ()


class DecidingRule(Wire):
    """A policy rule of the document: its index, from 0, and its name."""

    index: int
    name: str = ""


class NearestRule(DecidingRule):
    """The rule with the fewest parts that fail. `failed` is the first: operations, targets, author or a constraint."""

    failed: str | None = None


class SimulatedConstraint(Wire):
    """A constraint of a policy rule; `result` is true, false or unknown."""

    operator: str
    key: str
    values: tuple[str, ...] = ()
    result: str


class SimulatedRule(DecidingRule):
    """A policy rule with its result. `operation`, `target` and `result` are true, false or unknown.

    `fires`: the rule applies to the request. `within_author` is set only if the simulation is limited to the author.
    """

    access: str = ""
    operation: str
    target: str
    constraints: tuple[SimulatedConstraint, ...] = ()
    within_author: bool | None = None
    result: str = ""
    fires: bool = False


class MissingFact(Wire):
    """An unknown fact that could change the decision: its key, and the flag of `iam simulate` that sets it."""

    key: str
    flag: str = ""


class Simulation(Wire):
    """The decision on a request: `decision` is allowed or denied.

    `because` is a sentence for an operation that cannot be on the target. `some_target`: whether the operation is
    allowed on some of the targets; None for a single target, or if it is unknown.
    """

    decision: str
    reason: str
    because: str | None = None
    deciding_rule: DecidingRule | None = None
    nearest_rule: NearestRule | None = None
    rules: tuple[SimulatedRule, ...]
    some_target: bool | None = None
    missing: tuple[MissingFact, ...] = ()
    as_author: bool = False
    warnings: tuple[DocumentProblem, ...] = ()

    @property
    def allowed(self) -> bool:
        return self.decision == "allowed"


class CoverageCounts(Wire):
    """Numbers of operations that a document allows, denies, allows and does not deny, and allows under conditions."""

    allowed: int = 0
    denied: int = 0
    effective: int = 0
    conditional: int = 0


class ServiceCoverage(CoverageCounts):
    """The coverage of a service, which has `total` operations."""

    service: str
    total: int = 0


class TargetCoverage(CoverageCounts):
    """The coverage of a target, in total and by service.

    `gained` and the members after it have the names of changed operations by kind of change, if another document was
    compared. `operations` and `conditional_operations` are set only if requested.
    """

    target: str = "*"
    services: tuple[ServiceCoverage, ...] = ()
    gained: tuple[str, ...] | None = None
    lost: tuple[str, ...] | None = None
    now_unconditional: tuple[str, ...] | None = None
    now_conditional: tuple[str, ...] | None = None
    conditional_gained: tuple[str, ...] | None = None
    conditional_lost: tuple[str, ...] | None = None
    conditions_changed: tuple[str, ...] | None = None
    operations: tuple[str, ...] | None = None
    conditional_operations: tuple[str, ...] | None = None

    def compared_with_nothing(self) -> TargetCoverage:
        """Return the coverage with all requested operations as gained."""
        gained = {"gained": self.operations or (), "conditional_gained": self.conditional_operations or ()}
        return TargetCoverage.model_validate({**self.wire(), **gained})


class CoverageMap(Wire):
    """The operations that a document allows on targets. `total` is the number of operations of the catalogue."""

    total: int
    targets: tuple[TargetCoverage, ...]
    warnings: tuple[DocumentProblem, ...] = ()


class RequestFacts(Wire):
    """The facts of a request. Those that are None are unknown."""

    source_ip: str | None = None
    current_time: str | None = None
    region: str | None = None
    principal_type: str | None = None
    tenant: str | None = None
    request_tags: dict[str, str] | None = None
    resource_tags: dict[str, str] | None = None


class DenyingRule(Wire):
    """A rule of a stored policy that denies a request; `rule_index` is its index from 0."""

    policy_id: str = ""
    policy_name: str = ""
    rule_index: int = 0


class Counterexample(Wire):
    """A request that the document allows and the author may not send, with the rule that allows it.

    `why` is a sentence. `denied_by` is the rule that denies the request to the author; None if no rule allows it.
    `future`: the operation or the region does not exist yet, so that the request cannot be simulated.
    """

    operation: str
    target: str = "*"
    facts: RequestFacts = Field(default_factory=RequestFacts)
    rule_index: int = 0
    rule_name: str = ""
    why: str = ""
    denied_by: DenyingRule | None = None
    future: bool = False


class AuthorCheck(Wire):
    """Whether a document grants no more than its author has: `answer` is within, beyond or undecided."""

    answer: str
    counterexamples: tuple[Counterexample, ...]
    warnings: tuple[DocumentProblem, ...] = ()


class PrincipalChange(PrincipalRef):
    """The effect of a change on an API key or a workload identity: at most 200 names of each kind, and their numbers.

    `inert`: an identity without any permission afterwards. `policies_before` and `policies_after` are numbers.
    """

    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    conditional_gained: tuple[str, ...] = ()
    conditional_lost: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    narrowed: tuple[str, ...] = ()
    conditions_changed: tuple[str, ...] = ()
    gained_count: int = 0
    lost_count: int = 0
    conditional_gained_count: int = 0
    conditional_lost_count: int = 0
    widened_count: int = 0
    narrowed_count: int = 0
    conditions_changed_count: int = 0
    inert: bool = False
    policies_before: int = 0
    policies_after: int = 0

    @property
    def conditional(self) -> Mapping[str, tuple[Sequence[str], int]]:
        """The names and numbers of operations that change under conditions, by the names of the members on the wire."""
        return {
            "conditionalLost": (self.conditional_lost, self.conditional_lost_count),
            "narrowed": (self.narrowed, self.narrowed_count),
            "conditionsChanged": (self.conditions_changed, self.conditions_changed_count),
            "widened": (self.widened, self.widened_count),
            "conditionalGained": (self.conditional_gained, self.conditional_gained_count),
        }

    @property
    def conditional_count(self) -> int:
        """The number of operations that change under conditions."""
        return sum(count for _, count in self.conditional.values())


class PrincipalEffect(PrincipalChange):
    """The effect of one or several changes on a principal, with its state: active, revoked, inert or another."""

    status: str = ""


class PredictedError(Wire):
    """The error that a change would cause."""

    status: int = 0
    code: str = ""
    message: str = ""


class ChangePreview(Wire):
    """The effect of a change on keys and identities. `refused` is the error that the change would cause."""

    principals: tuple[PrincipalChange, ...]
    refused: PredictedError | None = None


class VersionChange(Wire):
    """A newer version of a policy: its author, its time, and the members that differ from the version before."""

    version: int
    changed_by: str = ""
    changed_by_name: str = ""
    changed_at: Instant | None = None
    changed: tuple[str, ...] = ()


class NamedResource(Wire):
    """A resource in the details of an error."""

    id: str = ""
    name: str = ""
    updated_at: Instant | None = None


class ErrorDetails(Wire):
    """The details of an error. Each kind of error has some of the members; the others are empty.

    `id` is the id of a policy that an earlier request stored; `answer` is that of the author check. An outdated write
    has `current`, the current version, and `changed`, the members that differ; a policy has its newer `versions`, the
    oldest first, a group is the `resource`. `organizations` would be without an owner.
    """

    problems: tuple[DocumentProblem, ...] = ()
    suggestions: tuple[str, ...] = ()
    answer: str = ""
    counterexamples: tuple[Counterexample, ...] = ()
    principals: tuple[PrincipalRef, ...] = ()
    versions: tuple[VersionChange, ...] = ()
    current: int | None = None
    changed: tuple[str, ...] = ()
    resource: NamedResource | None = None
    organizations: tuple[NamedResource, ...] = ()
    id: str = ""

    @classmethod
    def read(cls, details: Mapping[str, Any] | None) -> ErrorDetails:
        """Return the details of an error, without the members that do not match the API."""
        details = details if isinstance(details, Mapping) else {}
        try:
            return cls.model_validate(details)
        except ValidationError as error:
            wrong = {problem["loc"][0] for problem in error.errors()}
            return cls.model_validate({name: value for name, value in details.items() if name not in wrong})
