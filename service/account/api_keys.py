"""Routes of API keys.

People manage their own keys. The list of a tenant has the keys of all people, because policies and groups refer to
them.
"""

from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.responses import Response

from service import errors, validation
from service.account import api_key_validation, queries
from service.api.changes import change, resolve_idempotency_key
from service.api.dependencies import ContextDep, IdempotencyKey, PlatformDep, TenantContextDep
from service.api.protected_route import protected_router
from service.api.responses import CHANGED, audit_in_tenant, created, no_content
from service.audit.entries import AuditEvent
from service.authz.context import TenantContext
from service.authz.decisions import CatalogueSnapshot, holding, verbs
from service.authz.endpoints import API_KEY, API_KEYS, TENANT
from service.catalogue.operations import scopes
from service.clock import wire_time
from service.context import Platform
from service.db.engine import Record
from service.errors import ApiError
from service.json_bodies import JSONResponse, ListResponse
from service.principals.grants import may_enter, role_in

router = protected_router("API keys")


class NewKey(BaseModel):
    """An API key to create."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(description="2 to 100 characters once invisible ones are removed")
    description: str = ""
    scopes: list[str] = Field(default_factory=list, description="at least one `<service>:<action>`")
    expires_at: str | None = Field(None, alias="expiresAt", description="RFC 3339; default 365 days, at most 2 years")
    rate_limit: int | None = Field(None, alias="rateLimit", description="requests per minute; default 600")


class KeyChange(BaseModel):
    """Changes of an API key. Missing members keep their value."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str | None = None
    description: str | None = None
    scopes: list[str] | None = None
    rate_limit: int | None = Field(None, alias="rateLimit")


class Rotation(BaseModel):
    """The expiry of the new key and of the old key."""

    model_config = ConfigDict(extra="forbid", strict=True)

    expires_at: str | None = Field(None, alias="expiresAt")
    retire_at: str | None = Field(None, alias="retireAt", description="earlier than the old key's own expiry")


@router.get(API_KEYS, operation_id="listKeys")
def list_keys(context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """List the keys of the tenant, newest first."""
    now = platform.clock.now()
    with platform.database.read() as connection:
        rows = queries.keys_of_tenant(connection, context.tenant_id)
        return ListResponse("apiKeys", (queries.key_wire(row, now) for row in rows))


@router.get("/api/v1/me/api-keys", operation_id="listMyKeys")
def list_my_keys(context: ContextDep, platform: PlatformDep) -> JSONResponse:
    """List the principal's keys in all tenants that they may enter, newest first."""
    now = platform.clock.now()
    with platform.database.read() as connection:
        rows = queries.keys_of_person(connection, context.principal.user_id, may_enter(context.principal))
        return ListResponse("apiKeys", (queries.key_wire(row, now) for row in rows))


@router.get(f"{TENANT}/scopes", operation_id="listGrantableScopes")
def list_grantable_scopes(context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """List the scopes of API keys, with the operations that the principal's role lacks."""
    with platform.database.read() as connection:
        catalogue = platform.decisions.catalogue(connection)
    return JSONResponse(
        {
            "scopes": [
                {
                    "scope": scope.scope,
                    "description": scope.description,
                    "enforced": scope.enforced,
                    "operations": sum(map(len, verbs(scope.scope, catalogue))),
                    "held": (result := holding(context.role, scope.scope, context.tenant_id, catalogue)).permitted,
                    "lacks": list(result.lacks),
                }
                for scope in scopes()
                if scope.scope != "*"
            ]
        }
    )


@router.post(API_KEYS, operation_id="createKey", status_code=201)
def create_key(
    context: TenantContextDep, platform: PlatformDep, body: NewKey, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Create a key. Only this response has its secret.

    A request with a used `Idempotency-Key` is refused with the id of its key.
    """
    now, key_id = platform.clock.now(), str(uuid4())
    with change(platform, context) as (connection, context):
        tenant_id = context.tenant_id
        request = (tenant_id, body.model_dump())
        require_first(
            resolve_idempotency_key(
                connection, context, idempotency_key, AuditEvent.API_KEY_CREATE, request, key_id, now
            ),
            key_id,
        )
        catalogue, expires = platform.decisions.catalogue(connection), api_key_validation.expiry(body.expires_at, now)
        values: dict[str, Any] = {
            "id": key_id,
            "tenant_id": tenant_id,
            "user_id": context.principal.user_id,
            "name": api_key_validation.name(body.name),
            "description": validation.description(body.description),
            "scopes": check_scopes(connection, context, body.scopes, catalogue),
            "rate_limit": api_key_validation.rate_limit(body.rate_limit),
            "created_at": now,
            "expires_at": expires,
        }
        secret = queries.add_key(connection, platform.secret, values)
        details = {"name": values["name"], "scopes": values["scopes"], "expiresAt": wire_time(expires)}
        audit_in_tenant(connection, context, AuditEvent.API_KEY_CREATE, f"api_key:{key_id}", now, details)
        document = queries.key_wire(get_key_or_404(connection, context, key_id), now)
    return created({"apiKey": document, "key": secret}, API_KEY, tenant_id=context.tenant_id, key_id=key_id)


@router.get(API_KEY, operation_id="getKey")
def get_key(context: TenantContextDep, platform: PlatformDep, key_id: str) -> JSONResponse:
    """Return a key of the principal. API keys can only read their own record."""
    with platform.database.read() as connection:
        row = get_key_or_404(connection, context, key_id)
    return JSONResponse(queries.key_wire(row, platform.clock.now()))


@router.patch(API_KEY, operation_id="updateKey")
def update_key(context: TenantContextDep, platform: PlatformDep, key_id: str, body: KeyChange) -> JSONResponse:
    """Change a key. The principal's role must permit added scopes."""
    now = platform.clock.now()
    if not body.model_fields_set or all(value is None for value in body.model_dump().values()):
        raise errors.invalid_input("nothing to change: give name, description, scopes or rateLimit", reason="nothing")
    with change(platform, context) as (connection, context):
        before = get_key_or_404(connection, context, key_id)
        values: dict[str, Any] = {}
        if body.name is not None:
            values["name"] = api_key_validation.name(body.name)
        if body.description is not None:
            values["description"] = validation.description(body.description)
        if body.rate_limit is not None:
            values["rate_limit"] = api_key_validation.rate_limit(body.rate_limit)
        if body.scopes is not None:
            catalogue = platform.decisions.catalogue(connection)
            values["scopes"] = check_scopes(connection, context, body.scopes, catalogue, before=before.scopes)
        changes = {name: value for name, value in values.items() if getattr(before, name) != value}
        if changes:
            queries.change_key(connection, context.tenant_id, key_id, changes)
            details = {name: {"from": getattr(before, name), "to": value} for name, value in changes.items()}
            audit_in_tenant(connection, context, AuditEvent.API_KEY_UPDATE, f"api_key:{key_id}", now, details)
        return key_response(connection, context, platform, key_id, changed=bool(changes))


@router.post(f"{API_KEY}/revoke", operation_id="revokeKey")
def revoke_key(context: TenantContextDep, platform: PlatformDep, key_id: str) -> JSONResponse:
    """Revoke a key immediately and permanently. Idempotent."""
    now = platform.clock.now()
    with change(platform, context) as (connection, context):
        before = get_key_or_404(connection, context, key_id)
        if before.revoked_at is None:
            queries.change_key(connection, context.tenant_id, key_id, {"revoked_at": now})
            audit_in_tenant(
                connection, context, AuditEvent.API_KEY_REVOKE, f"api_key:{key_id}", now, {"name": before.name}
            )
        return key_response(connection, context, platform, key_id, changed=before.revoked_at is None)


@router.post(f"{API_KEY}/rotate", operation_id="rotateKey", status_code=201)
def rotate_key(context: TenantContextDep, platform: PlatformDep, key_id: str, body: Rotation) -> JSONResponse:
    """Create a key with the name, description, scopes, rate limit, groups and policies of an active key.

    The old key expires at `retireAt`, by default at its own expiry.
    """
    now, new_id, tenant_id = platform.clock.now(), str(uuid4()), context.tenant_id
    with change(platform, context) as (connection, context):
        old = get_key_or_404(connection, context, key_id)
        if queries.key_status(old, now) != "active":
            raise ApiError(409, "API_KEY_NOT_ACTIVE", "only an active key can be rotated", hint="create a new key")
        retires = (
            old.expires_at if body.retire_at is None else api_key_validation.expiry(body.retire_at, now, "retireAt")
        )
        if retires > old.expires_at:
            raise errors.invalid_input(
                "retireAt is later than the key's expiry", member="retireAt", latest=wire_time(old.expires_at)
            )
        catalogue = platform.decisions.catalogue(connection)
        role = role_in(connection, tenant_id, context.principal.user_id)
        api_key_validation.require_permitted_scopes(role, tenant_id, old.scopes, catalogue)
        copied = ("tenant_id", "user_id", "name", "description", "scopes", "rate_limit")
        values = {name: getattr(old, name) for name in copied}
        values |= {"id": new_id, "created_at": now, "expires_at": api_key_validation.expiry(body.expires_at, now)}
        secret = queries.add_key(connection, platform.secret, values)
        grants = queries.copy_grants(connection, tenant_id, key_id, new_id, context.principal.user_id, now)
        queries.change_key(connection, tenant_id, key_id, {"expires_at": retires})
        details = {"from": key_id, "grants": grants, "retireAt": wire_time(retires)}
        audit_in_tenant(connection, context, AuditEvent.API_KEY_ROTATE, f"api_key:{new_id}", now, details)
        document = queries.key_wire(get_key_or_404(connection, context, new_id), now)
        replaced = queries.key_wire(get_key_or_404(connection, context, key_id), now)
    rotated = {"apiKey": document, "key": secret, "replaced": replaced, "grants": grants}
    return created(rotated, API_KEY, tenant_id=context.tenant_id, key_id=new_id)


@router.delete(API_KEY, operation_id="deleteKey", status_code=204)
def delete_key(context: TenantContextDep, platform: PlatformDep, key_id: str) -> Response:
    """Delete a key of any status, with its group memberships and attachments."""
    now = platform.clock.now()
    with change(platform, context) as (connection, context):
        row = get_key_or_404(connection, context, key_id)
        queries.remove_key(connection, context.tenant_id, key_id)
        details = {"name": row.name, "keyPrefix": row.key_prefix}
        audit_in_tenant(connection, context, AuditEvent.API_KEY_DELETE, f"api_key:{key_id}", now, details)
    return no_content()


def get_key_or_404(connection: Connection, context: TenantContext, key_id: str) -> Record:
    """Return a key of the principal, or raise 404."""
    principal = context.principal
    row = queries.find_key(connection, context.tenant_id, principal.user_id, key_id)
    if row is None or (principal.kind == "api_key" and row.id != principal.key_id):
        raise errors.not_found()
    return row


def key_response(
    connection: Connection, context: TenantContext, platform: Platform, key_id: str, *, changed: bool
) -> JSONResponse:
    row = get_key_or_404(connection, context, key_id)
    headers = {CHANGED: "true" if changed else "false"}
    return JSONResponse(queries.key_wire(row, platform.clock.now()), headers=headers)


def check_scopes(
    connection: Connection,
    context: TenantContext,
    values: list[str],
    catalogue: CatalogueSnapshot,
    before: list[str] | None = None,
) -> list[str]:
    """Validate the scopes of a key. The principal's role must permit the scopes that are not in `before`."""
    key_scopes = api_key_validation.scopes(values, catalogue)
    tenant_id = context.tenant_id
    added = [scope for scope in key_scopes if scope not in (before or ())]
    role = role_in(connection, tenant_id, context.principal.user_id)
    api_key_validation.require_permitted_scopes(role, tenant_id, added, catalogue)
    return key_scopes


def require_first(claimed_id: str, key_id: str) -> None:
    """Raise 409 SECRET_ALREADY_SHOWN if an earlier request with the idempotency key created an API key."""
    if claimed_id == key_id:
        return
    raise ApiError(
        409,
        "SECRET_ALREADY_SHOWN",
        "this key was created by an earlier request, and its secret cannot be shown again",
        details={"apiKeyId": claimed_id},
        hint="use the secret of that response, or rotate the key",
    )
