"""Policy attachments over HTTP.

A detach or a change of scopes must not remove the last grant of a workload identity. Other changes may: the identity
is then inert.
"""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.responses import Response

from service import errors, validation
from service.api.changes import change
from service.api.dependencies import PageParamsDep, PlatformDep, TenantContextDep, page_of
from service.api.protected_route import protected_router
from service.api.responses import audit_in_tenant, no_content, or_404
from service.audit.entries import AuditEvent
from service.authz.endpoints import ATTACHMENTS
from service.errors import ApiError
from service.iam import affected_principals, author_check, group_queries, policy_queries, representations
from service.iam.policies import (
    AttacheeId,
    AttacheeType,
    attachee_of,
    get_policy_or_404,
    lock_policy_or_404,
)
from service.json_bodies import JSONResponse
from service.principals import queries

router = protected_router("policies")


class NewAttachment(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    attachee_type: str = Field(alias="attacheeType", description="api_key, workload_identity or group")
    attachee_id: str = Field(alias="attacheeId")


@router.post(ATTACHMENTS, operation_id="attachPolicy", status_code=204)
def attach_policy(context: TenantContextDep, platform: PlatformDep, policy_id: str, body: NewAttachment) -> Response:
    """Attach a policy to an API key, a workload identity or a group. It applies from the next request."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    kind, attachee_id = (
        validation.require_choice("attacheeType", body.attachee_type, validation.ATTACHEE_TYPES),
        body.attachee_id,
    )

    def require_authority(connection: Connection) -> None:
        policy = get_policy_or_404(connection, context, policy_id)
        require_principal(connection, tenant_id, kind, attachee_id)
        affected_principals.check_attach(
            connection, author_check.author_of(connection, platform, context), policy, kind, attachee_id
        )

    # Cache the check for the write transaction.
    with platform.database.read() as connection:
        require_authority(connection)
    with change(platform, context) as (connection, context):
        lock_policy_or_404(connection, context, policy_id)
        require_authority(connection)
        if policy_queries.attached(connection, tenant_id, policy_id, kind, attachee_id):
            return no_content(changed=False)
        policy_queries.attach(
            connection,
            {
                "policy_id": policy_id,
                "attachee_type": kind,
                "attachee_id": attachee_id,
                "tenant_id": tenant_id,
                "attached_by": context.principal.user_id,
                "attached_at": now,
            },
        )
        details = {"attacheeType": kind, "attacheeId": attachee_id}
        audit_in_tenant(connection, context, AuditEvent.POLICY_ATTACH, f"policy:{policy_id}", now, details)
    return no_content()


@router.get(ATTACHMENTS, operation_id="listPolicyAttachments")
def list_policy_attachments(
    context: TenantContextDep,
    platform: PlatformDep,
    paging: PageParamsDep,
    policy_id: str,
    attachee_type: AttacheeType = None,
    attachee_id: AttacheeId = None,
) -> JSONResponse:
    """List the attachments of a policy in order of creation, optionally only that of one attachee."""
    tenant_id = context.tenant_id
    attachee = attachee_of(attachee_type, attachee_id)
    page = page_of(platform, paging, "attachments", tenant_id, policy_id, *(attachee or ()))
    with platform.database.read() as connection:
        get_policy_or_404(connection, context, policy_id)
        rows = policy_queries.attachment_page(connection, tenant_id, policy_id, attachee, page.after, page.limit)
    rows, cursor = page.cut(rows, "attached_at", "attachee_type", "attachee_id")
    return JSONResponse({"attachments": [representations.attachment(row) for row in rows], "nextCursor": cursor})


@router.delete(ATTACHMENTS, operation_id="detachPolicy", status_code=204)
def detach_policy(
    context: TenantContextDep,
    platform: PlatformDep,
    policy_id: str,
    attachee_type: Annotated[str, Query(alias="attacheeType")],
    attachee_id: Annotated[str, Query(alias="attacheeId")],
) -> Response:
    """Detach a policy, unless it is the last grant of a workload identity."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    kind = validation.require_choice("attacheeType", attachee_type, validation.ATTACHEE_TYPES)
    with change(platform, context) as (connection, context):
        lock_policy_or_404(connection, context, policy_id)
        if not validation.is_id(attachee_id) or not policy_queries.attached(
            connection, tenant_id, policy_id, kind, attachee_id
        ):
            raise errors.not_found()
        principals = affected_principals.affected_by_attachment(connection, kind, attachee_id)
        author_check.require_authority_over(
            connection, author_check.author_of(connection, platform, context), principals
        )
        bindings = [identifier for kind, identifier in principals if kind == "workload_identity"]
        before = granted_identities(connection, tenant_id, bindings)
        policy_queries.detach(connection, tenant_id, policy_id, kind, attachee_id)
        require_remaining_grants(connection, tenant_id, before)
        details = {"attacheeType": kind, "attacheeId": attachee_id}
        audit_in_tenant(connection, context, AuditEvent.POLICY_DETACH, f"policy:{policy_id}", now, details)
    return no_content()


def granted_identities(connection: Connection, tenant_id: str, bindings: Sequence[str]) -> set[str]:
    """Return the identities with scopes or a policy, direct or through a group."""
    scoped = {row.id for row in queries.identities_among(connection, tenant_id, bindings) if row.scopes}
    return scoped | queries.granted_policies(connection, tenant_id, bindings)


def require_remaining_grants(connection: Connection, tenant_id: str, before: set[str]) -> None:
    """Refuse a change on this connection that removed the last grant of an identity, with `last_grant_error`."""
    last_grant_error(sorted(before - granted_identities(connection, tenant_id, sorted(before))))


def last_grant_error(left: Sequence[str]) -> None:
    """Refuse a change that leaves identities without grants.

    Raises:
        ApiError: 400 BINDING_WOULD_HAVE_NO_GRANT naming the identities.
    """
    if left:
        raise ApiError(
            400,
            "BINDING_WOULD_HAVE_NO_GRANT",
            "the binding would be left with no grant source",
            details={"bindingIds": left[:20]},
            hint="give it scopes or another policy first, or delete the binding",
        )


def require_principal(connection: Connection, tenant_id: str, kind: str, identifier: str) -> None:
    """Require that a key, identity or group of the tenant has this id.

    Raises:
        ApiError: flat 404, also for deleted objects and other tenants.
    """
    if not validation.is_id(identifier):
        raise errors.not_found()
    lookup = {
        "api_key": queries.key,
        "workload_identity": queries.identity,
        "group": group_queries.get,
    }[kind]
    or_404(lookup(connection, tenant_id, identifier))
