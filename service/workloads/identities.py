"""Routes of workload identity bindings, which make a service account a principal."""

from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.responses import Response

from service import errors, validation
from service.api.changes import change
from service.api.dependencies import PageParamsDep, PlatformDep, TenantContextDep, page_of
from service.api.protected_route import protected_router
from service.api.responses import audit_in_tenant, created, no_content, or_404
from service.audit.entries import AuditEvent
from service.authz.context import TenantContext
from service.authz.endpoints import BINDING, BINDINGS
from service.db.engine import Record
from service.errors import ApiError
from service.iam import attachments, author_check, representations
from service.iam.author_check import Author
from service.iam.policy_documents import Draft
from service.json_bodies import JSONResponse
from service.principals import queries
from service.principals.grants import policies_for_principal, policy_documents

router = protected_router("workload identities")


class NewBinding(BaseModel):
    """A service account; without scopes, it has only the grants of its policies."""

    model_config = ConfigDict(extra="forbid", strict=True)

    cluster_id: str = Field(alias="clusterId")
    namespace: str
    service_account: str = Field(alias="serviceAccount")
    scopes: list[str] | None = None


class BindingScopes(BaseModel):
    """The new scopes; empty by default."""

    model_config = ConfigDict(extra="forbid", strict=True)

    scopes: list[str] | None = None


@router.post(BINDINGS, operation_id="createBinding", status_code=201)
def create_binding(context: TenantContextDep, platform: PlatformDep, body: NewBinding) -> JSONResponse:
    """Create a binding with scopes that the caller has."""
    tenant_id, now, binding_id = context.tenant_id, platform.clock.now(), str(uuid4())
    subject = {
        "cluster_id": body.cluster_id,
        "namespace": validation.dns_label("namespace", body.namespace),
        "service_account": validation.dns_subdomain("serviceAccount", body.service_account),
    }
    scopes = validation.scopes(body.scopes or [])

    def require_authority(connection: Connection, context: TenantContext) -> None:
        if not validation.is_id(body.cluster_id) or not queries.cluster_exists(connection, tenant_id, body.cluster_id):
            raise errors.not_found()
        require_unbound(connection, tenant_id, subject)
        require_scopes(author_check.author_of(connection, platform, context), scopes)

    # Checked first without locks to warm the cache.
    with platform.database.read() as connection:
        require_authority(connection, context)
    with change(platform, context) as (connection, context):
        require_authority(connection, context)
        values = subject | {"id": binding_id, "tenant_id": tenant_id, "scopes": scopes}
        queries.add_identity(
            connection, values | {"created_by": context.principal.user_id, "created_at": now, "updated_at": now}
        )
        details = subject | {"scopes": scopes}
        audit_in_tenant(
            connection, context, AuditEvent.WORKLOAD_IDENTITY_CREATE, f"workload_identity:{binding_id}", now, details
        )
        document = binding_wire(connection, get_binding_or_404(connection, context, binding_id))
        return created(document, BINDING, tenant_id=tenant_id, binding_id=binding_id)


@router.get(BINDINGS, operation_id="listBindings")
def list_bindings(context: TenantContextDep, platform: PlatformDep, paging: PageParamsDep) -> JSONResponse:
    """List the tenant's bindings in the order of creation."""
    tenant_id = context.tenant_id
    page = page_of(platform, paging, "bindings", tenant_id)
    with platform.database.read() as connection:
        rows, cursor = page.cut(
            queries.identity_page(connection, tenant_id, page.after, page.limit), "created_at", "id"
        )
        granted = queries.granted_policies(connection, tenant_id, [row.id for row in rows])
    return JSONResponse(
        {"bindings": [representations.binding(row, row.id in granted) for row in rows], "nextCursor": cursor}
    )


@router.get(BINDING, operation_id="getBinding")
def get_binding(context: TenantContextDep, platform: PlatformDep, binding_id: str) -> JSONResponse:
    """Return a binding."""
    with platform.database.read() as connection:
        return JSONResponse(binding_wire(connection, get_binding_or_404(connection, context, binding_id)))


@router.put(BINDING, operation_id="updateBinding")
def update_binding(
    context: TenantContextDep, platform: PlatformDep, binding_id: str, body: BindingScopes
) -> JSONResponse:
    """Replace the scopes of a binding. Removing its last grant is refused."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    scopes = validation.scopes(body.scopes or [])

    def require_authority(connection: Connection, context: TenantContext) -> Record:
        binding = get_binding_or_404(connection, context, binding_id)
        if binding.scopes != scopes:
            author = author_check.author_of(connection, platform, context)
            author_check.require_authority_over(connection, author, [("workload_identity", binding_id)])
            require_scopes(author, scopes)
            if not scopes:
                require_policies_within(connection, author, binding_id)
        return binding

    # Checked twice; see `create_binding`.
    with platform.database.read() as connection:
        require_authority(connection, context)
    with change(platform, context) as (connection, context):
        binding = require_authority(connection, context)
        if binding.scopes != scopes:
            granted = attachments.granted_identities(connection, tenant_id, [binding_id])
            queries.change_scopes(connection, tenant_id, binding_id, scopes, now)
            attachments.require_remaining_grants(connection, tenant_id, granted)
            details = {"from": binding.scopes, "to": scopes}
            audit_in_tenant(
                connection,
                context,
                AuditEvent.WORKLOAD_IDENTITY_UPDATE,
                f"workload_identity:{binding_id}",
                now,
                details,
            )
        return JSONResponse(binding_wire(connection, get_binding_or_404(connection, context, binding_id)))


@router.delete(BINDING, operation_id="deleteBinding", status_code=204)
def delete_binding(context: TenantContextDep, platform: PlatformDep, binding_id: str) -> Response:
    """Delete a binding, its memberships and attachments."""
    tenant_id, now = context.tenant_id, platform.clock.now()

    def require_authority(connection: Connection, context: TenantContext) -> Record:
        binding = get_binding_or_404(connection, context, binding_id)
        author = author_check.author_of(connection, platform, context)
        author_check.require_authority_over(connection, author, [("workload_identity", binding_id)])
        return binding

    # Checked twice; see `create_binding`.
    with platform.database.read() as connection:
        require_authority(connection, context)
    with change(platform, context) as (connection, context):
        binding = require_authority(connection, context)
        queries.remove_identity(connection, tenant_id, binding_id)
        details = {"namespace": binding.namespace, "serviceAccount": binding.service_account}
        audit_in_tenant(
            connection, context, AuditEvent.WORKLOAD_IDENTITY_DELETE, f"workload_identity:{binding_id}", now, details
        )
    return no_content()


def get_binding_or_404(connection: Connection, context: TenantContext, binding_id: str) -> Record:
    tenant_id = context.tenant_id
    return or_404(queries.identity(connection, tenant_id, binding_id) if validation.is_id(binding_id) else None)


def binding_wire(connection: Connection, row: Record) -> dict[str, object]:
    granted = queries.granted_policies(connection, row.tenant_id, [row.id])
    return representations.binding(row, row.id in granted)


def require_unbound(connection: Connection, tenant_id: str, subject: dict[str, str]) -> None:
    binding_id = queries.bound(connection, tenant_id, subject)
    if binding_id is not None:
        raise ApiError(
            409,
            "BINDING_EXISTS",
            f"this service account is already bound: {binding_id}",
            details={"bindingId": binding_id},
        )


def require_scopes(author: Author, scopes: list[str]) -> None:
    for scope in scopes:
        author_check.require_scope(author, scope)


def require_policies_within(connection: Connection, author: Author, binding_id: str) -> None:
    """Require that the author could attach the binding's policies, before they become its only grants.

    With scopes, policies only narrow; without, they grant.
    """
    policy_ids = [
        policy.policy_id
        for policy in policies_for_principal(connection, author.tenant_id, "workload_identity", binding_id)
    ]
    for policy_id, (name, text) in policy_documents(connection, author.tenant_id, policy_ids).items():
        author_check.require_within(author, Draft.stored(text), policyId=policy_id, policyName=name)
