"""Calls about access policies, their versions and attachments.

Documents are sent as the author's text, so that errors have its lines and columns.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from client.errors import Exit, FrostError
from client.transport.request import MOST, Call, Request, if_match, new_idempotency_key, path, query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from client.models.policies import Attachment, Policy, PolicyVersion
    from client.transport.async_client import AsyncClient

MODEL = "policies.Policy"
VERSION = "policies.PolicyVersion"
NEEDS = ("id", "name", "document", "version")
REFUSED = "INVALID_POLICY_DOCUMENT"


def page(
    tenant_id: str,
    *,
    limit: int | None = None,
    cursor: str = "",
    attachee: tuple[str, str] | None = None,
    name: str | None = None,
) -> Call:
    """List a page of the tenant's policies, oldest first.

    Args:
        attachee: Type and id of an attachee; only the policies attached directly to it.
        name: Only the policy with exactly this name.
    """
    chosen = (*_pair(attachee), *(() if name is None else (("name", name),)))
    return Call(Request("GET", _policies(tenant_id), query(limit, cursor, *chosen)), "policies", MODEL)


def get(tenant_id: str, policy_id: str) -> Call:
    return Call(Request("GET", _policy(tenant_id, policy_id)), model=MODEL, needs=NEEDS)


def create(tenant_id: str, name: str, description: str, document_text: str, *, idempotency_key: str = "") -> Call:
    """Create a policy. Raises FrostError (exit 2), with line and column, if the document is not JSON.

    Args:
        idempotency_key: A key to repeat the same creation safely; by default each call creates a policy.
    """
    body = _body({"name": name, "description": description}, document_text)
    key = idempotency_key or new_idempotency_key()
    request = Request("POST", _policies(tenant_id), body=body, idempotency_key=key)
    return Call(request, model=MODEL, needs=NEEDS)


def update(
    tenant_id: str,
    policy_id: str,
    *,
    name: str | None = None,
    description: str | None = None,
    document_text: str | None = None,
    version: int | None = None,
) -> Call:
    """Update the members that are not None.

    Args:
        version: The version that the change is based on; the platform refuses it if there is a newer one.
    """
    given = {"name": name, "description": description}
    body = _body({member: value for member, value in given.items() if value is not None}, document_text)
    request = Request("PATCH", _policy(tenant_id, policy_id), body=body, headers=if_match(version))
    return Call(request, model=MODEL, needs=NEEDS)


def delete(tenant_id: str, policy_id: str, version: int | None = None) -> Call:
    """Delete a policy with its attachments and versions."""
    return Call(Request("DELETE", _policy(tenant_id, policy_id), headers=if_match(version)))


def version_page(tenant_id: str, policy_id: str, *, limit: int | None = None, cursor: str = "") -> Call:
    """List a page of a policy's versions, newest first."""
    route = path("/v1/tenants/{}/iam/policies/{}/versions", tenant_id, policy_id)
    return Call(Request("GET", route, query(limit, cursor)), "versions", VERSION)


def version(tenant_id: str, policy_id: str, number: int) -> Call:
    route = path("/v1/tenants/{}/iam/policies/{}/versions/{}", tenant_id, policy_id, str(number))
    return Call(Request("GET", route), model=VERSION, needs=("version", "document"))


def roll_back(tenant_id: str, policy_id: str, number: int, version: int | None = None) -> Call:
    """Make the document of an earlier version the newest one; name and description do not change."""
    route = path("/v1/tenants/{}/iam/policies/{}/rollback", tenant_id, policy_id)
    request = Request("POST", route, body={"version": number}, headers=if_match(version))
    return Call(request, model=MODEL, needs=NEEDS)


def attachment_page(
    tenant_id: str,
    policy_id: str,
    *,
    limit: int | None = None,
    cursor: str = "",
    attachee: tuple[str, str] | None = None,
) -> Call:
    """List a page of a policy's attachments; with `attachee` (type, id), at most that one."""
    request = Request("GET", _attachments(tenant_id, policy_id), query(limit, cursor, *_pair(attachee)))
    return Call(request, "attachments", "policies.Attachment")


def attach(tenant_id: str, policy_id: str, attachee_type: str, attachee_id: str) -> Call:
    body = {"attacheeType": attachee_type, "attacheeId": attachee_id}
    return Call(Request("POST", _attachments(tenant_id, policy_id), body=body))


def detach(tenant_id: str, policy_id: str, attachee_type: str, attachee_id: str) -> Call:
    return Call(Request("DELETE", _attachments(tenant_id, policy_id), _pair((attachee_type, attachee_id))))


def _policies(tenant_id: str) -> str:
    return path("/v1/tenants/{}/iam/policies", tenant_id)


def _policy(tenant_id: str, policy_id: str) -> str:
    return path("/v1/tenants/{}/iam/policies/{}", tenant_id, policy_id)


def _attachments(tenant_id: str, policy_id: str) -> str:
    return path("/v1/tenants/{}/iam/policies/{}/attachments", tenant_id, policy_id)


def _pair(attachee: tuple[str, str] | None) -> tuple[tuple[str, str], ...]:
    return (("attacheeType", attachee[0]), ("attacheeId", attachee[1])) if attachee else ()


def _body(members: dict[str, str], document_text: str | None) -> bytes:
    """Return a body with the unchanged document. As it is valid JSON, it cannot change other members."""
    pieces = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in members.items()]
    if document_text is not None:
        require_json(document_text)
        pieces.append(f'"document":{document_text}')
    return f"{{{','.join(pieces)}}}".encode()


def require_json(document_text: str) -> None:
    """Refuse text that is not JSON before it is sent, with the platform's message.

    The platform alone validates the document.

    Raises:
        FrostError: INVALID_POLICY_DOCUMENT (exit 2), with the problem in its details.
    """
    try:
        json.loads(document_text)
        document_text.encode()
        return
    except (ValueError, RecursionError):
        pass
    # The strict reader is slower than json; it gives the message and the position.
    from client.models import strict_json

    try:
        strict_json.loads(document_text)
    except strict_json.StrictJsonError as error:
        problem: dict[str, Any] = {
            "path": error.path,
            "line": error.line,
            "column": error.column,
            "reason": error.reason,
            "suggestions": [],
        }
        raise FrostError(
            "the policy document is not JSON", code=REFUSED, exit_code=Exit.USAGE, details={"problems": [problem]}
        ) from error


class Policies:
    """The calls of this module with models as results."""

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    def pages(self, tenant_id: str, *, attachee: tuple[str, str] | None = None) -> AsyncIterator[list[Policy]]:
        return self._http.pages(lambda cursor: page(tenant_id, limit=MOST, cursor=cursor, attachee=attachee))

    async def get(self, tenant_id: str, policy_id: str) -> Policy:
        found: Policy = await self._http.record(get(tenant_id, policy_id))
        return found

    async def create(
        self, tenant_id: str, name: str, description: str, document_text: str, *, idempotency_key: str = ""
    ) -> Policy:
        call = create(tenant_id, name, description, document_text, idempotency_key=idempotency_key)
        found: Policy = await self._http.record(call)
        return found

    async def update(
        self,
        tenant_id: str,
        policy_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        document_text: str | None = None,
        version: int | None = None,
    ) -> Policy:
        """Update the members that are not None. Raises FrostError STALE_VERSION if `version` is not the newest."""
        call = update(
            tenant_id, policy_id, name=name, description=description, document_text=document_text, version=version
        )
        found: Policy = await self._http.record(call)
        return found

    async def delete(self, tenant_id: str, policy_id: str, version: int | None = None) -> None:
        await self._http.call(delete(tenant_id, policy_id, version))

    def version_pages(self, tenant_id: str, policy_id: str) -> AsyncIterator[list[PolicyVersion]]:
        return self._http.pages(lambda cursor: version_page(tenant_id, policy_id, limit=MOST, cursor=cursor))

    async def version(self, tenant_id: str, policy_id: str, number: int) -> PolicyVersion:
        found: PolicyVersion = await self._http.record(version(tenant_id, policy_id, number))
        return found

    async def roll_back(self, tenant_id: str, policy_id: str, number: int, version: int | None = None) -> Policy:
        found: Policy = await self._http.record(roll_back(tenant_id, policy_id, number, version))
        return found

    def attachment_pages(
        self, tenant_id: str, policy_id: str, *, attachee: tuple[str, str] | None = None
    ) -> AsyncIterator[list[Attachment]]:
        return self._http.pages(
            lambda cursor: attachment_page(tenant_id, policy_id, limit=MOST, cursor=cursor, attachee=attachee)
        )

    async def attach(self, tenant_id: str, policy_id: str, attachee_type: str, attachee_id: str) -> bool:
        """Attach a policy. Return whether it was not attached before."""
        return (await self._http.change(attach(tenant_id, policy_id, attachee_type, attachee_id))).changed

    async def detach(self, tenant_id: str, policy_id: str, attachee_type: str, attachee_id: str) -> None:
        await self._http.call(detach(tenant_id, policy_id, attachee_type, attachee_id))
