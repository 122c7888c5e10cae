"""Policies and their history over HTTP. contract: Access policies; checklist O, H"""

from typing import Annotated, Any
from uuid import uuid4

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.responses import JSONResponse, Response

from client.policy.document import canonical_text
from service import errors, validation
from service.api.changes import change
from service.api.dependencies import IdempotencyKey, IfMatch, PageParamsDep, PlatformDep, TenantContextDep
from service.api.idempotency import resolve_idempotency_key
from service.api.pagination import page_of
from service.api.protected_route import protected_router
from service.api.responses import audit_in_tenant, no_content, or_404, with_etag
from service.audit.events import AuditEvent
from service.authz.context import TenantContext
from service.authz.paths import POLICIES, POLICY
from service.context import Platform
from service.db.engine import Record
from service.iam import affected_principals, author_check, policy_queries, representations
from service.iam.policy_body import PolicyBody, policy_body
from service.iam.policy_documents import read_document, required

router = protected_router("policies")

AttacheeType = Annotated[str | None, Query(alias="attacheeType")]
AttacheeId = Annotated[str | None, Query(alias="attacheeId")]
Name = Annotated[str | None, Query(description="Exactly this name")]
Sent = Annotated[PolicyBody, Depends(policy_body)]

TEXT = {"type": "string"}


def _body(*needed: str) -> dict[str, Any]:
    """The description of a body that is read from its bytes, for the API's document."""
    members = {"name": TEXT, "description": TEXT, "document": {"type": "object"}}
    schema = {"type": "object", "properties": members, "required": list(needed), "additionalProperties": False}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


class Rollback(BaseModel):
    """The body that takes an earlier document back."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: int = Field(ge=1, le=2**31 - 1)


@router.post(POLICIES, operation_id="createPolicy", status_code=201, openapi_extra=_body("name", "document"))
def create_policy(
    context: TenantContextDep, platform: PlatformDep, body: Sent, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """A new policy, within what its author holds. The same body under the same `Idempotency-Key` answers with the
    same policy, as it is now."""
    tenant_id, now, wanted = context.tenant_id, platform.clock.now(), str(uuid4())
    if body.name is None:
        raise errors.invalid_input('"name" is required', member="name", reason="missing")
    name, description = validation.display_name(body.name, "name"), validation.description(body.description or "")
    text = read_draft(platform, context, required(body.document))
    with change(platform, context) as (connection, context):
        request = (tenant_id, name, description, text)
        policy_id = resolve_idempotency_key(
            connection, context, idempotency_key, AuditEvent.POLICY_CREATE, request, wanted, now
        )
        if policy_id == wanted:
            author_check.require_within(author_check.author_of(connection, platform, context), text)
            shown = {
                "name": name,
                "description": description,
                "document": text,
                "authored_by": context.principal.user_id,
            }
            changed = [member for member in ("description", "document", "name") if shown[member]]
            policy_queries.add(
                connection,
                shown | {"id": policy_id, "tenant_id": tenant_id, "created_at": now, "updated_at": now},
                shown | _entry(context, now, "create", changed),
            )
            audit_in_tenant(connection, context, AuditEvent.POLICY_CREATE, f"policy:{policy_id}", now, {"name": name})
        return with_etag(representations.policy(get_policy_or_404(connection, context, policy_id)), 201)


@router.get(POLICIES, operation_id="listPolicies")
def list_policies(
    context: TenantContextDep,
    platform: PlatformDep,
    paging: PageParamsDep,
    attachee_type: AttacheeType = None,
    attachee_id: AttacheeId = None,
    name: Name = None,
) -> JSONResponse:
    """The tenant's policies in the order they were made; with the pair only those attached to it, with a name only
    those that have it: names need not be unique."""
    tenant_id = context.tenant_id
    attachee = attachee_of(attachee_type, attachee_id)
    name = None if name is None else validation.stored_name(name)
    page = page_of(
        platform, paging, "policies", tenant_id, *(attachee or ()), *(() if name is None else ("name", name))
    )
    with platform.database.read() as connection:
        rows = policy_queries.page(connection, tenant_id, attachee, name, page.after, page.limit)
    rows, cursor = page.cut(rows, "created_at", "id")
    return JSONResponse({"policies": [representations.policy(row) for row in rows], "nextCursor": cursor})


@router.get(POLICY, operation_id="getPolicy")
def get_policy(context: TenantContextDep, platform: PlatformDep, policy_id: str) -> JSONResponse:
    """One policy with its document in canonical form."""
    with platform.database.read() as connection:
        return with_etag(representations.policy(get_policy_or_404(connection, context, policy_id)))


@router.patch(POLICY, operation_id="updatePolicy", openapi_extra=_body())
def update_policy(
    context: TenantContextDep, platform: PlatformDep, policy_id: str, body: Sent, if_match: IfMatch = None
) -> JSONResponse:
    """Change the members that are given. A new document makes the caller its author; the same one changes nothing."""
    wanted = {}
    if body.name is not None:
        wanted["name"] = validation.display_name(body.name, "name")
    if body.description is not None:
        wanted["description"] = validation.description(body.description)
    if body.document is not None:
        wanted["document"] = read_draft(platform, context, body.document)
    if not wanted:
        raise errors.invalid_input("nothing to change: give name, description or document", reason="nothing_to_change")
    if body.document is None:
        with platform.database.read() as connection:
            document = get_policy_or_404(connection, context, policy_id).document
            author = author_check.author_of(connection, platform, context)
        # Before the writer's turn; the answer is remembered.
        author_check.check_document(author, document)
    with change(platform, context) as (connection, context):
        before = lock_policy_or_404(connection, context, policy_id, if_match)
        changed = write(connection, platform, context, before, wanted, "update")
        return with_etag(representations.policy(get_policy_or_404(connection, context, policy_id)), changed=changed)


@router.delete(POLICY, operation_id="deletePolicy", status_code=204)
def delete_policy(
    context: TenantContextDep, platform: PlatformDep, policy_id: str, if_match: IfMatch = None
) -> Response:
    """Remove a policy, its attachments and its history, in one transaction."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    with change(platform, context) as (connection, context):
        policy = lock_policy_or_404(connection, context, policy_id, if_match)
        affected_principals.check_affected_principals(
            connection, author_check.author_of(connection, platform, context), policy_id
        )
        policy_queries.remove(connection, tenant_id, policy_id)
        details = {"name": policy.name, "version": policy.version, "attachments": policy.attachment_count}
        audit_in_tenant(connection, context, AuditEvent.POLICY_DELETE, f"policy:{policy_id}", now, details)
    return no_content()


@router.get(f"{POLICY}/versions", operation_id="listPolicyVersions")
def list_policy_versions(
    context: TenantContextDep, platform: PlatformDep, paging: PageParamsDep, policy_id: str
) -> JSONResponse:
    """What a policy was, newest first."""
    tenant_id = context.tenant_id
    page = page_of(platform, paging, "versions", tenant_id, policy_id)
    with platform.database.read() as connection:
        get_policy_or_404(connection, context, policy_id)
        before = page.after[0] if page.after else None
        rows = policy_queries.version_page(connection, tenant_id, policy_id, before, page.limit)
    rows, cursor = page.cut(rows, "version")
    return JSONResponse({"versions": [representations.version(row) for row in rows], "nextCursor": cursor})


@router.get(POLICY + "/versions/{version}", operation_id="getPolicyVersion")
def get_policy_version(context: TenantContextDep, platform: PlatformDep, policy_id: str, version: str) -> JSONResponse:
    """One version of a policy."""
    with platform.database.read() as connection:
        get_policy_or_404(connection, context, policy_id)
        return JSONResponse(representations.version(get_version_or_404(connection, context, policy_id, version)))


@router.post(f"{POLICY}/rollback", operation_id="rollBackPolicy")
def roll_back_policy(
    context: TenantContextDep, platform: PlatformDep, policy_id: str, body: Rollback, if_match: IfMatch = None
) -> JSONResponse:
    """Take the document of an earlier version back, as a new version by the caller and within what they hold."""
    with platform.database.read() as connection:
        get_policy_or_404(connection, context, policy_id)
        earlier = get_version_or_404(connection, context, policy_id, str(body.version))
        author = author_check.author_of(connection, platform, context)
    # Examined before the writer's turn, and remembered.
    author_check.check_document(author, earlier.document)
    with change(platform, context) as (connection, context):
        before = lock_policy_or_404(connection, context, policy_id, if_match)
        earlier = get_version_or_404(connection, context, policy_id, str(body.version))
        changed = write(connection, platform, context, before, {"document": earlier.document}, "rollback", body.version)
        return with_etag(representations.policy(get_policy_or_404(connection, context, policy_id)), changed=changed)


def read_draft(platform: Platform, context: TenantContext, text: str) -> str:
    """A document as it will be stored; read and examined before the writer's turn, so that others need not wait."""
    with platform.database.read() as connection:
        author = author_check.author_of(connection, platform, context)
    reading = read_document(platform, author.known, text)
    draft = canonical_text(reading.document)
    author_check.check_document(author, draft)
    return draft


def write(
    connection: Connection,
    platform: Platform,
    context: TenantContext,
    before: Record,
    wanted: dict[str, str],
    change: str,
    rolled_back_to: int | None = None,
) -> bool:
    """Make what is wanted the next version of a policy; False when it is that already."""
    now = platform.clock.now()
    changes = {name: value for name, value in wanted.items() if getattr(before, name) != value}
    if not changes:
        return False
    # A name or a description alone is changed only by an author who could have written the text.
    author = author_check.author_of(connection, platform, context)
    affected_principals.check_update(connection, author, before, changes.get("document", before.document))
    author_id = author.user_id if "document" in changes else before.authored_by
    shown = {name: getattr(before, name) for name in ("name", "description", "document")} | changes
    number = before.version + 1
    policy_queries.change(
        connection,
        before.tenant_id,
        before.id,
        number,
        shown | {"authored_by": author_id, "updated_at": now},
        shown
        | {"authored_by": author_id, "rolled_back_to": rolled_back_to}
        | _entry(context, now, change, sorted(changes)),
    )
    details: dict[str, Any] = {"version": number, "changed": sorted(changes)}
    if rolled_back_to is not None:
        details["rolledBackTo"] = rolled_back_to
    audit_in_tenant(connection, context, AuditEvent(f"policy.{change}"), f"policy:{before.id}", now, details)
    return True


def _entry(context: TenantContext, at: Any, change: str, changed: list[str]) -> dict[str, Any]:
    """What the history says of a change beside what the policy became."""
    return {"changed_by": context.principal.user_id, "changed_at": at, "change": change, "changed": changed}


def lock_policy_or_404(
    connection: Connection, context: TenantContext, policy_id: str, if_match: str | None = None
) -> Record:
    """Return the policy of the path in the version that `If-Match` names; call it inside `change`."""
    tenant_id = context.tenant_id
    expected = validation.expected_version(if_match)
    policy = get_policy_or_404(connection, context, policy_id)
    if expected is not None and expected != policy.version:
        since = policy_queries.versions_after(connection, tenant_id, policy_id, expected)
        changed = sorted({name for row in since for name in row.changed})
        details = {"changed": changed, "versions": [representations.change(row) for row in since]}
        validation.require_version(expected, policy.version, details)
    return policy


def get_policy_or_404(connection: Connection, context: TenantContext, policy_id: str) -> Record:
    """The policy of the path in the tenant of the path, or the flat 404."""
    return or_404(policy_queries.get(connection, context.tenant_id, policy_id) if validation.is_id(policy_id) else None)


def get_version_or_404(connection: Connection, context: TenantContext, policy_id: str, version: str) -> Record:
    """A version of the policy of the path, or the flat 404."""
    number = int(version) if version.isascii() and version.isdigit() and len(version) < 10 else 0
    return or_404(policy_queries.version(connection, context.tenant_id, policy_id, number))


def attachee_of(kind: str | None, identifier: str | None) -> tuple[str, str] | None:
    """What a listing is narrowed to; both of the pair, or none."""
    return validation.paired_filter(("attacheeType", kind), ("attacheeId", identifier), validation.ATTACHEE_TYPES)
