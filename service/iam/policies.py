"""Policies and their history over HTTP."""

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import uuid4

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.responses import Response

from service import errors, validation
from service.api.changes import change, resolve_idempotency_key
from service.api.dependencies import IdempotencyKey, IfMatch, PageParamsDep, PlatformDep, TenantContextDep, page_of
from service.api.protected_route import protected_router
from service.api.responses import audit_in_tenant, created, etag, no_content, or_404, with_etag
from service.audit.entries import AuditEvent
from service.authz.context import TenantContext
from service.authz.endpoints import POLICIES, POLICY
from service.context import Platform
from service.db.engine import Record
from service.iam import affected_principals, author_check, policy_queries, representations
from service.iam.author_check import Author
from service.iam.policy_documents import Draft, PolicyBody, policy_body, read_document, required
from service.json_bodies import JSONResponse

router = protected_router("policies")

AttacheeType = Annotated[str | None, Query(alias="attacheeType")]
AttacheeId = Annotated[str | None, Query(alias="attacheeId")]
Name = Annotated[str | None, Query(description="Exactly this name")]
SimilarName = Annotated[
    str | None,
    Query(
        alias="similarName",
        description="This name, or one that differs only in letter case, compatibility characters or invisible ones",
    ),
]
Sent = Annotated[PolicyBody, Depends(policy_body)]

TEXT = {"type": "string"}


def _body(*needed: str) -> dict[str, Any]:
    members = {"name": TEXT, "description": TEXT, "document": {"type": "object"}}
    schema = {"type": "object", "properties": members, "required": list(needed), "additionalProperties": False}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


class Rollback(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    version: int = Field(ge=1, le=2**31 - 1)


@router.post(POLICIES, operation_id="createPolicy", status_code=201, openapi_extra=_body("name", "document"))
def create_policy(
    context: TenantContextDep, platform: PlatformDep, body: Sent, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Create a policy within the rights of its author.

    A repeated request with the same `Idempotency-Key` returns the same policy in its current version.
    """
    tenant_id, now, new_id = context.tenant_id, platform.clock.now(), str(uuid4())
    if body.name is None:
        raise errors.invalid_input('"name" is required', member="name", reason="missing")
    name, description = validation.display_name(body.name, "name"), validation.description(body.description or "")
    draft = read_draft(platform, context, required(body.document))
    with change(platform, context) as (connection, context):
        request = (tenant_id, name, description, draft.canonical_text)
        policy_id = resolve_idempotency_key(
            connection, context, idempotency_key, AuditEvent.POLICY_CREATE, request, new_id, now
        )
        if policy_id == new_id:
            author_check.require_within(author_check.author_of(connection, platform, context), draft)
            content = {
                "name": name,
                "description": description,
                "document": draft.canonical_text,
                "authored_by": context.principal.user_id,
            }
            changed = [member for member in ("description", "document", "name") if content[member]]
            policy_queries.add(
                connection,
                content | {"id": policy_id, "tenant_id": tenant_id, "created_at": now, "updated_at": now},
                content | _entry(context, now, "create", changed),
            )
            audit_in_tenant(connection, context, AuditEvent.POLICY_CREATE, f"policy:{policy_id}", now, {"name": name})
        document = representations.policy(get_policy_or_404(connection, context, policy_id))
        return created(document, POLICY, headers=etag(document), tenant_id=context.tenant_id, policy_id=policy_id)


@router.get(POLICIES, operation_id="listPolicies")
def list_policies(
    context: TenantContextDep,
    platform: PlatformDep,
    paging: PageParamsDep,
    attachee_type: AttacheeType = None,
    attachee_id: AttacheeId = None,
    name: Name = None,
    similar_name: SimilarName = None,
) -> JSONResponse:
    """List the policies of a tenant in order of creation, optionally filtered by attachee and name.

    Names are not unique.
    """
    tenant_id = context.tenant_id
    attachee = attachee_of(attachee_type, attachee_id)
    if name is not None and similar_name is not None:
        raise errors.invalid_input("name and similarName exclude each other", member="similarName", reason="exclusive")
    kind, given = ("name", name) if similar_name is None else ("similarName", similar_name)
    stored = None if given is None else validation.stored_name(given)
    filtered = () if stored is None else (kind, stored)
    page = page_of(platform, paging, "policies", tenant_id, *(attachee or ()), *filtered)
    with platform.database.read() as connection:
        names = None if stored is None else [stored]
        if stored is not None and similar_name is not None:
            names = [*policy_queries.similar_names(connection, tenant_id, stored)]
        rows = policy_queries.page(connection, tenant_id, attachee, names, page.after, page.limit)
    rows, cursor = page.cut(rows, "created_at", "id")
    return JSONResponse({"policies": [representations.policy(row) for row in rows], "nextCursor": cursor})


@router.get(POLICY, operation_id="getPolicy")
def get_policy(context: TenantContextDep, platform: PlatformDep, policy_id: str) -> JSONResponse:
    """Return a policy with its document in canonical form."""
    with platform.database.read() as connection:
        return with_etag(representations.policy(get_policy_or_404(connection, context, policy_id)))


@router.patch(POLICY, operation_id="updatePolicy", openapi_extra=_body())
def update_policy(
    context: TenantContextDep, platform: PlatformDep, policy_id: str, body: Sent, if_match: IfMatch = None
) -> JSONResponse:
    """Change the members in the body. The principal becomes the author of a changed document."""
    members, draft = {}, None
    if body.name is not None:
        members["name"] = validation.display_name(body.name, "name")
    if body.description is not None:
        members["description"] = validation.description(body.description)
    if body.document is not None:
        draft = read_draft(platform, context, body.document)
    elif not members:
        raise errors.invalid_input("nothing to change: give name, description or document", reason="nothing_to_change")
    else:
        with platform.database.read() as connection:
            document = get_policy_or_404(connection, context, policy_id).document
            author = author_check.author_of(connection, platform, context)
        # Cache the check for the write transaction.
        author_check.check_document(author, Draft.stored(document))
    with change(platform, context) as (connection, context):
        before = lock_policy_or_404(connection, context, policy_id, if_match)
        author = author_check.author_of(connection, platform, context)
        row = write(connection, platform, context, author, before, members, draft, "update")
        return with_etag(representations.policy(row), changed=row is not before)


@router.delete(POLICY, operation_id="deletePolicy", status_code=204)
def delete_policy(
    context: TenantContextDep, platform: PlatformDep, policy_id: str, if_match: IfMatch = None
) -> Response:
    """Delete a policy with its attachments and history."""
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
    """List the versions of a policy, newest first."""
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
    """Return a version of a policy."""
    with platform.database.read() as connection:
        get_policy_or_404(connection, context, policy_id)
        return JSONResponse(representations.version(get_version_or_404(connection, context, policy_id, version)))


@router.post(f"{POLICY}/rollback", operation_id="rollBackPolicy")
def roll_back_policy(
    context: TenantContextDep, platform: PlatformDep, policy_id: str, body: Rollback, if_match: IfMatch = None
) -> JSONResponse:
    """Restore the document of an earlier version as a new version, within the rights of the principal."""
    with platform.database.read() as connection:
        get_policy_or_404(connection, context, policy_id)
        earlier = get_version_or_404(connection, context, policy_id, str(body.version))
        author = author_check.author_of(connection, platform, context)
    draft = Draft.stored(earlier.document)
    # Cache the check for the write transaction.
    author_check.check_document(author, draft)
    with change(platform, context) as (connection, context):
        before = lock_policy_or_404(connection, context, policy_id, if_match)
        # The policy may have been deleted since.
        get_version_or_404(connection, context, policy_id, str(body.version))
        author = author_check.author_of(connection, platform, context)
        row = write(connection, platform, context, author, before, {}, draft, "rollback", body.version)
        return with_etag(representations.policy(row), changed=row is not before)


def read_draft(platform: Platform, context: TenantContext, text: str) -> Draft:
    """Parse a document and cache its author check for the write transaction."""
    with platform.database.read() as connection:
        author = author_check.author_of(connection, platform, context)
    draft = Draft.of(read_document(platform, author.catalogue, text).document)
    author_check.check_document(author, draft)
    return draft


def write(
    connection: Connection,
    platform: Platform,
    context: TenantContext,
    author: Author,
    before: Record,
    members: Mapping[str, str],
    draft: Draft | None,
    change: str,
    rolled_back_to: int | None = None,
) -> Record:
    """Write the next version of a policy and return it; return `before` without changes."""
    now = platform.clock.now()
    values = dict(members) if draft is None else {**members, "document": draft.canonical_text}
    changes = {name: value for name, value in values.items() if getattr(before, name) != value}
    if not changes:
        return before
    # A new name or description also requires the right to write the document.
    new = draft if draft is not None and "document" in changes else Draft.stored(before.document)
    affected_principals.check_update(connection, author, before, new)
    author_id = author.user_id if "document" in changes else before.authored_by
    content = {name: getattr(before, name) for name in ("name", "description", "document")} | changes
    row = policy_queries.change(
        connection,
        before,
        content | {"authored_by": author_id, "updated_at": now},
        content
        | {"authored_by": author_id, "rolled_back_to": rolled_back_to}
        | _entry(context, now, change, sorted(changes)),
    )
    details: dict[str, Any] = {"version": row.version, "changed": sorted(changes)}
    if rolled_back_to is not None:
        details["rolledBackTo"] = rolled_back_to
    audit_in_tenant(connection, context, AuditEvent(f"policy.{change}"), f"policy:{before.id}", now, details)
    return row


def _entry(context: TenantContext, at: Any, change: str, changed: list[str]) -> dict[str, Any]:
    return {"changed_by": context.principal.user_id, "changed_at": at, "change": change, "changed": changed}


def lock_policy_or_404(
    connection: Connection, context: TenantContext, policy_id: str, if_match: str | None = None
) -> Record:
    """Return the policy of the path in the version of `If-Match`. Call it inside `change`."""
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
    """Return the policy of the path, or raise the flat 404."""
    return or_404(policy_queries.get(connection, context.tenant_id, policy_id) if validation.is_id(policy_id) else None)


def get_version_or_404(connection: Connection, context: TenantContext, policy_id: str, version: str) -> Record:
    number = int(version) if version.isascii() and version.isdigit() and len(version) < 10 else 0
    return or_404(policy_queries.version(connection, context.tenant_id, policy_id, number))


def attachee_of(kind: str | None, identifier: str | None) -> tuple[str, str] | None:
    return validation.paired_filter(("attacheeType", kind), ("attacheeId", identifier), validation.ATTACHEE_TYPES)
