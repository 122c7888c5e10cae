"""Read-only calls for policy analysis: catalogue, simulate, coverage, check, access, who, preview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from client.transport.call import Call, Model, ModelT, Request, path, record, records

if TYPE_CHECKING:
    from client.models.analysis import AuthorCheck, ChangePreview, CoverageMap, Simulation
    from client.models.iam import Access, AllowedPrincipals, CatalogueOperation

CATALOGUE_OPERATION: Model[CatalogueOperation] = Model("iam.CatalogueOperation")
SIMULATION: Model[Simulation] = Model("analysis.Simulation")
COVERAGE_MAP: Model[CoverageMap] = Model("analysis.CoverageMap")
AUTHOR_CHECK: Model[AuthorCheck] = Model("analysis.AuthorCheck")
CHANGE_PREVIEW: Model[ChangePreview] = Model("analysis.ChangePreview")
ACCESS: Model[Access] = Model("iam.Access")
ALLOWED_PRINCIPALS: Model[AllowedPrincipals] = Model("iam.AllowedPrincipals")

Facts = Mapping[str, Any]
"""A simulated request context: sourceIp, currentTime, region, principalType, tenant, requestTags, resourceTags.

Missing members are unknown, except currentTime: missing is the current time, None is unknown.
"""


def simulate(
    tenant_id: str,
    document_text: str,
    operation: str,
    target: str,
    facts: Facts | None = None,
    *,
    as_author: bool = False,
) -> Call[Simulation]:
    """Evaluate a request against a document, with the reason and each policy rule.

    Args:
        as_author: Limit the document to the principal's own permissions.
    """
    body: dict[str, Any] = {
        "documentText": document_text,
        "operation": operation,
        "target": target,
        "facts": dict(facts or {}),
    }
    if as_author:
        body["asAuthor"] = True
    return _analyse(tenant_id, "simulate", body, SIMULATION, "decision", "reason", "rules")


def coverage(
    tenant_id: str,
    document_text: str,
    *,
    targets: Sequence[str] = ("*",),
    facts: Facts | None = None,
    compare: Mapping[str, Any] | None = None,
    operations: bool = False,
) -> Call[CoverageMap]:
    """Return the operations that a document allows on targets (at most 50).

    Args:
        compare: `{"documentText": …}` or `{"policyId": …, "version"?: …}`: the document to compare with.
        operations: List the names of the operations in effect and of the conditional ones.
    """
    body: dict[str, Any] = {"documentText": document_text, "targets": list(targets), "facts": dict(facts or {})}
    if compare is not None:
        body["compare"] = dict(compare)
    if operations:
        body["operations"] = True
    return _analyse(tenant_id, "coverage", body, COVERAGE_MAP, "total", "targets")


def check(tenant_id: str, document_text: str) -> Call[AuthorCheck]:
    """Check that a document grants no more than the principal has, with counterexamples."""
    return _analyse(tenant_id, "check", {"documentText": document_text}, AUTHOR_CHECK, "answer", "counterexamples")


def access(tenant_id: str, principal_type: str, principal_id: str) -> Call[Access]:
    """Return all operations that a principal (api_key, workload_identity, user) may use, with their grants."""
    query = (("principalType", principal_type), ("principalId", principal_id))
    request = Request("GET", path("/v1/tenants/{}/iam/access", tenant_id), query)
    return record(request, ACCESS, ("principal", "policies"), member="operations")


def who(tenant_id: str, operation: str, target: str, facts: Facts | None = None) -> Call[AllowedPrincipals]:
    """Return all principals that may use an operation on a target, with their grants."""
    body = {"operation": operation, "target": target, "facts": dict(facts or {})}
    return _analyse(tenant_id, "who", body, ALLOWED_PRINCIPALS, "principals", "total", "examined")


def preview(tenant_id: str, change: str, **names: str) -> Call[ChangePreview]:
    """Return the permissions that a change would add and remove, without making it.

    Args:
        change: attach, detach, addMember, removeMember, deleteGroup, deletePolicy or updatePolicy.
        names: Parameters of the change: policyId, groupId, principalType, principalId, documentText.
    """
    return _analyse(tenant_id, "preview", {"change": change, **names}, CHANGE_PREVIEW, "principals")


def _analyse(tenant_id: str, analysis: str, body: dict[str, Any], model: Model[ModelT], *needs: str) -> Call[ModelT]:
    request = Request("POST", path("/v1/tenants/{}/iam/{}", tenant_id, analysis), body=body)
    return record(request, model, needs, reads=True)


def operations(filter: str = "") -> Call[list[CatalogueOperation]]:
    """List the operations with the text in their names, in any letter case, sorted by name."""
    query = (("filter", filter),) if filter else ()
    return records(Request("GET", "/v1/iam/catalogue", query), "operations", CATALOGUE_OPERATION)
