"""Results of policy analysis, and the operations of the catalogue.

The results are JSON objects with wire names. The platform may add members, and older platforms lack some.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.models.base import Wire


class CatalogueOperation(Wire):
    """An operation of a service, such as `compute:instances:start`.

    `access_level` is read, write, list or permission.
    """

    name: str
    access_level: str = ""
    description: str = ""


class Simulation(TypedDict):
    """The decision on a request: `decision` is allowed or denied.

    `because` is a sentence for an operation that cannot be on the target. Each of `rules` is a policy rule with its
    result; `decidingRule` and `nearestRule` have its index and name. `missing` are the unknown facts that matter.
    """

    decision: str
    reason: str
    because: NotRequired[str | None]
    decidingRule: NotRequired[dict[str, Any] | None]
    nearestRule: NotRequired[dict[str, Any] | None]
    rules: list[dict[str, Any]]
    someTarget: NotRequired[bool]
    missing: NotRequired[list[dict[str, Any]]]
    asAuthor: NotRequired[bool]
    warnings: NotRequired[list[dict[str, Any]]]


class CoverageMap(TypedDict):
    """The operations that a document allows. `total` is the number of operations of the catalogue.

    Each of `targets` has the numbers `allowed`, `denied`, `effective` and `conditional`, in total and by service, and,
    compared with another document, the names of the operations by kind of change: `gained`, `lost` and others.
    """

    total: int
    targets: list[dict[str, Any]]
    warnings: NotRequired[list[dict[str, Any]]]


class AuthorCheck(TypedDict):
    """Whether a document grants no more than its author has: `answer` is within, beyond or undecided.

    Each of `counterexamples` is a request that the document allows and the author may not send.
    """

    answer: str
    counterexamples: list[dict[str, Any]]
    warnings: NotRequired[list[dict[str, Any]]]


class Access(TypedDict):
    """The operations that a principal may use, with the groups, policies and rules that allow each."""

    principal: dict[str, Any]
    limits: NotRequired[list[dict[str, Any]]]
    policies: list[dict[str, Any]]
    operations: list[dict[str, Any]]


class AllowedPrincipals(TypedDict):
    """The principals that may use an operation on a target; `conditional` depends on unknown facts.

    The lists are truncated; `total` and `conditionalTotal` are the numbers of all, `examined` that of all principals.
    """

    principals: list[dict[str, Any]]
    total: int
    conditional: NotRequired[list[dict[str, Any]]]
    conditionalTotal: NotRequired[int]
    examined: int


class ChangePreview(TypedDict):
    """The effect of a change. Each of `principals` has the names and numbers of operations gained and lost.

    `refused` is the error that the change would cause.
    """

    principals: list[dict[str, Any]]
    refused: NotRequired[dict[str, Any] | None]
