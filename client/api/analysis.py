"""Read-only calls for policy analysis: catalogue, simulate, coverage, check, access, who, preview.

Their responses have no models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from client.transport.request import Call, Request, path

if TYPE_CHECKING:
    from client.transport.async_client import AsyncClient

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
) -> Call:
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
    return _tried(tenant_id, "simulate", body, "decision", "reason", "rules")


def coverage(
    tenant_id: str,
    document_text: str,
    *,
    targets: Sequence[str] = ("*",),
    facts: Facts | None = None,
    compare: Mapping[str, Any] | None = None,
    operations: bool = False,
) -> Call:
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
    return _tried(tenant_id, "coverage", body, "total", "targets")


def check(tenant_id: str, document_text: str) -> Call:
    """Check that a document grants no more than the principal has, with counterexamples."""
    return _tried(tenant_id, "check", {"documentText": document_text}, "answer", "counterexamples")


def access(tenant_id: str, principal_type: str, principal_id: str) -> Call:
    """Return all operations that a principal (api_key, workload_identity, user) may use, with their grants."""
    query = (("principalType", principal_type), ("principalId", principal_id))
    request = Request("GET", path("/v1/tenants/{}/iam/access", tenant_id), query)
    return Call(request, "operations", "access", needs=("principal", "policies"))


def who(tenant_id: str, operation: str, target: str, facts: Facts | None = None) -> Call:
    """Return all principals that may use an operation on a target, with their grants."""
    body = {"operation": operation, "target": target, "facts": dict(facts or {})}
    return _tried(tenant_id, "who", body, "principals", "total", "examined")


def preview(tenant_id: str, change: str, **names: str) -> Call:
    """Return the permissions that a change would add and remove, without making it.

    Args:
        change: attach, detach, addMember, removeMember, deleteGroup, deletePolicy or updatePolicy.
        names: Parameters of the change: policyId, groupId, principalType, principalId, documentText.
    """
    return _tried(tenant_id, "preview", {"change": change, **names}, "principals")


def _tried(tenant_id: str, trial: str, body: dict[str, Any], *needs: str) -> Call:
    request = Request("POST", path("/v1/tenants/{}/iam/{}", tenant_id, trial), body=body)
    return Call(request, model=trial, needs=needs, reads=True)


class Trials:
    """The calls of this module with JSON objects as results."""

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    async def simulate(
        self,
        tenant_id: str,
        document_text: str,
        operation: str,
        target: str,
        facts: Facts | None = None,
        *,
        as_author: bool = False,
    ) -> dict[str, Any]:
        return await self._asked(simulate(tenant_id, document_text, operation, target, facts, as_author=as_author))

    async def coverage(
        self,
        tenant_id: str,
        document_text: str,
        *,
        targets: Sequence[str] = ("*",),
        facts: Facts | None = None,
        compare: Mapping[str, Any] | None = None,
        operations: bool = False,
    ) -> dict[str, Any]:
        call = coverage(tenant_id, document_text, targets=targets, facts=facts, compare=compare, operations=operations)
        return await self._asked(call)

    async def check(self, tenant_id: str, document_text: str) -> dict[str, Any]:
        return await self._asked(check(tenant_id, document_text))

    async def access(self, tenant_id: str, principal_type: str, principal_id: str) -> dict[str, Any]:
        return await self._asked(access(tenant_id, principal_type, principal_id))

    async def who(self, tenant_id: str, operation: str, target: str, facts: Facts | None = None) -> dict[str, Any]:
        return await self._asked(who(tenant_id, operation, target, facts))

    async def preview(self, tenant_id: str, change: str, **names: str) -> dict[str, Any]:
        return await self._asked(preview(tenant_id, change, **names))

    async def _asked(self, call: Call) -> dict[str, Any]:
        found: dict[str, Any] = await self._http.call(call)
        return found


def operations(filter: str = "") -> Call:
    """List the operations whose name contains the text, in any letter case, sorted by name."""
    query = (("filter", filter),) if filter else ()
    return Call(Request("GET", "/v1/iam/catalogue", query), "operations", "catalogue")


class Catalogue:
    """The catalogue calls with JSON objects as results."""

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    async def operations(self, filter: str = "") -> list[dict[str, Any]]:
        """Return objects with name, accessLevel (read, write, list, permission) and description."""
        answer = await self._http.call(operations(filter))
        found: list[dict[str, Any]] = answer["operations"]
        return found
