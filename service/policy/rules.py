"""The parts of a policy document once it was read: rules, with patterns and constraints ready to match."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from service.policy.matching import OperationPattern, Target

Access = Literal["allow", "deny"]
Operator = Literal["equals", "notEquals", "like", "ipInRange", "before", "after"]

OPERATORS: tuple[Operator, ...] = ("equals", "notEquals", "like", "ipInRange", "before", "after")

SOURCE_IP = "frn:sourceIp"
CURRENT_TIME = "frn:currentTime"
REGION = "frn:region"
PRINCIPAL_TYPE = "frn:principalType"
TENANT = "frn:tenant"
REQUEST_TAG = "frn:requestTag/"
RESOURCE_TAG = "frn:resourceTag/"

TEXT_OPERATORS: frozenset[str] = frozenset(("equals", "notEquals", "like"))
TIME_OPERATORS: frozenset[str] = frozenset(("before", "after"))
TEXT_KEYS = (REGION, PRINCIPAL_TYPE, TENANT)
TAG_KEYS = (REQUEST_TAG, RESOURCE_TAG)


class Constraint(NamedTuple):
    """One condition; `values` holds one text, or for `ipInRange` the CIDR blocks in their order."""

    operator: Operator
    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule matches when an operation, a target and every constraint do."""

    name: str
    access: Access
    operations: tuple[OperationPattern, ...]
    operation_texts: tuple[str, ...]
    targets: tuple[Target, ...]
    target_texts: tuple[str, ...]
    constraints: tuple[Constraint, ...]

    @property
    def denies(self) -> bool:
        return self.access == "deny"


@dataclass(frozen=True, slots=True)
class Document:
    """A document that was read whole: everything in it is understood."""

    rules: tuple[Rule, ...]
