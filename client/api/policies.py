"""Calls about access policies, their versions and attachments.

Documents are sent as the author's text, so that errors have its lines and columns.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from client.errors import Exit, FrostError
from client.transport.call import (
    Call,
    Model,
    Request,
    if_match,
    new_idempotency_key,
    no_content,
    page_query,
    path,
    record,
    records,
)

if TYPE_CHECKING:
    from client.models.iam import Attachment, Policy, PolicyVersion

POLICY: Model[Policy] = Model("iam.Policy")
POLICY_VERSION: Model[PolicyVersion] = Model("iam.PolicyVersion")
ATTACHMENT: Model[Attachment] = Model("iam.Attachment")

NEEDS = ("id", "name", "document", "version")
REFUSED = "INVALID_POLICY_DOCUMENT"


def page(
    tenant_id: str,
    *,
    limit: int | None = None,
    cursor: str = "",
    attachee: tuple[str, str] | None = None,
    name: str | None = None,
    similar_name: str | None = None,
) -> Call[list[Policy]]:
    """List a page of the tenant's policies, oldest first.

    Args:
        attachee: Type and id of an attachee; only the policies attached directly to it.
        name: Only the policies with exactly this name.
        similar_name: Only those with this name or one that differs only in letter case, compatibility characters or
            invisible ones. Earlier versions of the platform ignore it and return all policies.
    """
    named = [(key, value) for key, value in (("name", name), ("similarName", similar_name)) if value is not None]
    chosen = (*_pair(attachee), *named)
    return records(Request("GET", _policies(tenant_id), page_query(limit, cursor, *chosen)), "policies", POLICY)


def get(tenant_id: str, policy_id: str) -> Call[Policy]:
    return record(Request("GET", _policy(tenant_id, policy_id)), POLICY, NEEDS)


def create(
    tenant_id: str, name: str, description: str, document_text: str, *, idempotency_key: str = ""
) -> Call[Policy]:
    """Create a policy. Raises FrostError (exit 2), with line and column, if the document is not JSON.

    Args:
        idempotency_key: A key to repeat the same creation safely; by default each call creates a policy.
    """
    body = _body({"name": name, "description": description}, document_text)
    key = idempotency_key or new_idempotency_key()
    request = Request("POST", _policies(tenant_id), body=body, idempotency_key=key)
    return record(request, POLICY, NEEDS)


def update(
    tenant_id: str,
    policy_id: str,
    *,
    name: str | None = None,
    description: str | None = None,
    document_text: str | None = None,
    version: int | None = None,
) -> Call[Policy]:
    """Update the members that are not None.

    Args:
        version: The version that the change is based on; the platform refuses it if there is a newer one.
    """
    members = {"name": name, "description": description}
    body = _body({member: value for member, value in members.items() if value is not None}, document_text)
    request = Request("PATCH", _policy(tenant_id, policy_id), body=body, headers=if_match(version))
    return record(request, POLICY, NEEDS)


def delete(tenant_id: str, policy_id: str, version: int | None = None) -> Call[None]:
    """Delete a policy with its attachments and versions."""
    return no_content(Request("DELETE", _policy(tenant_id, policy_id), headers=if_match(version)))


def version_page(
    tenant_id: str, policy_id: str, *, limit: int | None = None, cursor: str = ""
) -> Call[list[PolicyVersion]]:
    """List a page of a policy's versions, newest first."""
    route = path("/v1/tenants/{}/iam/policies/{}/versions", tenant_id, policy_id)
    return records(Request("GET", route, page_query(limit, cursor)), "versions", POLICY_VERSION)


def version(tenant_id: str, policy_id: str, number: int) -> Call[PolicyVersion]:
    route = path("/v1/tenants/{}/iam/policies/{}/versions/{}", tenant_id, policy_id, str(number))
    return record(Request("GET", route), POLICY_VERSION, ("version", "document"))


def roll_back(tenant_id: str, policy_id: str, number: int, version: int | None = None) -> Call[Policy]:
    """Make the document of an earlier version the newest one; name and description do not change."""
    route = path("/v1/tenants/{}/iam/policies/{}/rollback", tenant_id, policy_id)
    request = Request("POST", route, body={"version": number}, headers=if_match(version))
    return record(request, POLICY, NEEDS)


def attachment_page(
    tenant_id: str,
    policy_id: str,
    *,
    limit: int | None = None,
    cursor: str = "",
    attachee: tuple[str, str] | None = None,
) -> Call[list[Attachment]]:
    """List a page of a policy's attachments; with `attachee` (type, id), at most that one."""
    request = Request("GET", _attachments(tenant_id, policy_id), page_query(limit, cursor, *_pair(attachee)))
    return records(request, "attachments", ATTACHMENT)


def attach(tenant_id: str, policy_id: str, attachee_type: str, attachee_id: str) -> Call[None]:
    body = {"attacheeType": attachee_type, "attacheeId": attachee_id}
    return no_content(Request("POST", _attachments(tenant_id, policy_id), body=body))


def detach(tenant_id: str, policy_id: str, attachee_type: str, attachee_id: str) -> Call[None]:
    return no_content(Request("DELETE", _attachments(tenant_id, policy_id), _pair((attachee_type, attachee_id))))


def compact_text(document: object) -> str:
    """Return a stored document as text to send. Indented, a document near the limit of 256 KiB would exceed it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


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
