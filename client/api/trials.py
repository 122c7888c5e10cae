"""Calls that try and tell, and change nothing: simulate, coverage, check, access, who, preview.

Their answers are plain documents; a model would add nothing to them. Source: contract: iam simulate; checklist S.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from client.core import Call, Request, path

if TYPE_CHECKING:
    from client.http import Http

Facts = Mapping[str, Any]
"""What is known of a made-up request: sourceIp, currentTime, region, principalType, tenant, requestTags, resourceTags.

One that is left out is unknown, but for currentTime: left out it is now, and None is unknown.
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
    """Whether a document would allow a request, and why, rule by rule.

    Args:
        as_author: Only within what the caller holds.
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
    """Which operations a document gives on some targets (at most 50).

    Args:
        compare: `{"documentText": …}` or `{"policyId": …, "version"?: …}`: what changes against it.
        operations: Name the operations in effect and those under conditions.
    """
    body: dict[str, Any] = {"documentText": document_text, "targets": list(targets), "facts": dict(facts or {})}
    if compare is not None:
        body["compare"] = dict(compare)
    if operations:
        body["operations"] = True
    return _tried(tenant_id, "coverage", body, "total", "targets")


def check(tenant_id: str, document_text: str) -> Call:
    """Whether a document stays within what the caller holds, with counterexamples where it does not."""
    return _tried(tenant_id, "check", {"documentText": document_text}, "answer", "counterexamples")


def access(tenant_id: str, principal_type: str, principal_id: str) -> Call:
    """Everything a principal (api_key, workload_identity, user) may do, with the path."""
    query = (("principalType", principal_type), ("principalId", principal_id))
    request = Request("GET", path("/v1/tenants/{}/iam/access", tenant_id), query)
    return Call(request, "operations", "access", needs=("principal", "policies"))


def who(tenant_id: str, operation: str, target: str, facts: Facts | None = None) -> Call:
    """Everybody who may do something, and through what."""
    body = {"operation": operation, "target": target, "facts": dict(facts or {})}
    return _tried(tenant_id, "who", body, "principals", "total", "examined")


def preview(tenant_id: str, change: str, **names: str) -> Call:
    """What a change would give and take, before it is made.

    Args:
        change: attach, detach, addMember, removeMember, deleteGroup, deletePolicy or updatePolicy.
        names: What it is about, by member of the wire: policyId, groupId, principalType, principalId, documentText.
    """
    return _tried(tenant_id, "preview", {"change": change, **names}, "principals")


def _tried(tenant_id: str, trial: str, body: dict[str, Any], *needs: str) -> Call:
    request = Request("POST", path("/v1/tenants/{}/iam/{}", tenant_id, trial), body=body)
    return Call(request, model=trial, needs=needs, reads=True)


class Trials:
    """The same calls for the screens and the library, answered with plain documents."""

    def __init__(self, http: Http) -> None:
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
