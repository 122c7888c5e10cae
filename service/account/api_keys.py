"""API keys over HTTP. contract: API key; checklist K

A person reads and manages their own keys. The list of a tenant names everybody's, because policies and groups are
made of keys; another person's key by its id is not found (checklist K40).
"""

from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.responses import JSONResponse, Response

from service import errors, validation
from service.account import api_key_queries, api_key_validation
from service.api.changes import change
from service.api.dependencies import ContextDep, IdempotencyKey, PlatformDep, TenantContextDep
from service.api.idempotency import resolve_idempotency_key
from service.api.protected_route import protected_router
from service.api.responses import CHANGED, audit_in_tenant, no_content
from service.authz.context import TenantContext
from service.authz.decisions import CatalogueSnapshot
from service.authz.entitlement import may_enter
from service.authz.scopes import holding, verbs
from service.catalogue.operations import scopes
from service.clock import wire_time
from service.context import Platform
from service.db.engine import Record
from service.errors import ApiError
from service.principals.grants import role_in

router = protected_router("API keys")
KEYS = "/api/v1/tenants/{tenant_id}/api-keys"
CREATE = "api_key.create"


class NewKey(BaseModel):
    """The body that makes a key."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(description="2 to 100 characters once invisible ones are removed")
    description: str = ""
    scopes: list[str] = Field(default_factory=list, description="at least one `<service>:<action>`")
    expires_at: str | None = Field(None, alias="expiresAt", description="RFC 3339; default 365 days, at most 2 years")
    rate_limit: int | None = Field(None, alias="rateLimit", description="requests a minute; default 600")


class KeyChange(BaseModel):
    """The body that changes a key; a member left out stays. The expiry never changes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str | None = None
    description: str | None = None
    scopes: list[str] | None = None
    rate_limit: int | None = Field(None, alias="rateLimit")


class Rotation(BaseModel):
    """The body that replaces a key: the new one's expiry, and when the old one retires by itself."""

    model_config = ConfigDict(extra="forbid", strict=True)

    expires_at: str | None = Field(None, alias="expiresAt")
    retire_at: str | None = Field(None, alias="retireAt", description="earlier than the old key's own expiry")


@router.get(KEYS)
def list_keys(context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """The keys of the tenant, whoever made them, the newest first."""
    now = platform.clock.now()
    with platform.database.read() as connection:
        rows = api_key_queries.of_tenant(connection, context.tenant_id)
    return JSONResponse({"apiKeys": [api_key_queries.wire(row, now) for row in rows]})


@router.get("/api/v1/me/api-keys")
def list_my_keys(context: ContextDep, platform: PlatformDep) -> JSONResponse:
    """The keys the caller made, in every tenant they may enter."""
    now = platform.clock.now()
    with platform.database.read() as connection:
        rows = api_key_queries.of_person(connection, context.principal.user_id, may_enter(context.principal))
    return JSONResponse({"apiKeys": [api_key_queries.wire(row, now) for row in rows]})


@router.get("/api/v1/tenants/{tenant_id}/scopes")
def list_grantable_scopes(context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """What a key of the caller in this tenant could be given, and what of it the caller's role lacks."""
    with platform.database.read() as connection:
        known = platform.decisions.catalogue(connection)
    return JSONResponse(
        {
            "scopes": [
                {
                    "scope": scope.scope,
                    "description": scope.description,
                    "enforced": scope.enforced,
                    "operations": sum(map(len, verbs(scope.scope, known))),
                    "held": (found := holding(context.role, scope.scope, context.tenant_id, known)).held,
                    "lacks": list(found.lacks),
                }
                for scope in scopes()
                if scope.scope != "*"
            ]
        }
    )


@router.post(KEYS, status_code=201)
def create_key(
    context: TenantContextDep, platform: PlatformDep, body: NewKey, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """A new key of the caller in the tenant. Its secret is in this answer and never again.

    The same request again under the same `Idempotency-Key` is refused, naming the key that was made: its secret
    cannot be shown twice.
    """
    now, key_id = platform.clock.now(), str(uuid4())
    with change(platform, context) as (connection, context):
        tenant_id = context.tenant_id
        request = (tenant_id, body.model_dump())
        require_first(
            resolve_idempotency_key(connection, context, idempotency_key, CREATE, request, key_id, now), key_id
        )
        known, expires = platform.decisions.catalogue(connection), api_key_validation.expiry(body.expires_at, now)
        values: dict[str, Any] = {
            "id": key_id,
            "tenant_id": tenant_id,
            "user_id": context.principal.user_id,
            "name": api_key_validation.name(body.name),
            "description": validation.description(body.description),
            "scopes": held_scopes(connection, context, body.scopes, known),
            "rate_limit": api_key_validation.rate_limit(body.rate_limit),
            "created_at": now,
            "expires_at": expires,
        }
        secret = api_key_queries.add(connection, platform.secret, values)
        details = {"name": values["name"], "scopes": values["scopes"], "expiresAt": wire_time(expires)}
        audit_in_tenant(connection, context, CREATE, f"api_key:{key_id}", now, details)
        made = api_key_queries.wire(get_key_or_404(connection, context, key_id), now)
    return JSONResponse({"apiKey": made, "key": secret}, 201)


@router.get(KEYS + "/{key_id}")
def get_key(context: TenantContextDep, platform: PlatformDep, key_id: str) -> JSONResponse:
    """One key of the caller; a key finds itself and no other."""
    with platform.database.read() as connection:
        row = get_key_or_404(connection, context, key_id)
    return JSONResponse(api_key_queries.wire(row, platform.clock.now()))


@router.patch(KEYS + "/{key_id}")
def update_key(context: TenantContextDep, platform: PlatformDep, key_id: str, body: KeyChange) -> JSONResponse:
    """Change the members that are given. Scopes that are added must be held by the caller now."""
    now = platform.clock.now()
    if not body.model_fields_set or all(value is None for value in body.model_dump().values()):
        raise errors.invalid_input("nothing to change: give name, description, scopes or rateLimit", reason="nothing")
    with change(platform, context) as (connection, context):
        before = get_key_or_404(connection, context, key_id)
        wanted: dict[str, Any] = {}
        if body.name is not None:
            wanted["name"] = api_key_validation.name(body.name)
        if body.description is not None:
            wanted["description"] = validation.description(body.description)
        if body.rate_limit is not None:
            wanted["rate_limit"] = api_key_validation.rate_limit(body.rate_limit)
        if body.scopes is not None:
            known = platform.decisions.catalogue(connection)
            wanted["scopes"] = held_scopes(connection, context, body.scopes, known, kept=before.scopes)
        changed = {name: value for name, value in wanted.items() if getattr(before, name) != value}
        if changed:
            api_key_queries.change(connection, context.tenant_id, key_id, changed)
            details = {name: {"from": getattr(before, name), "to": value} for name, value in changed.items()}
            audit_in_tenant(connection, context, "api_key.update", f"api_key:{key_id}", now, details)
        return answer(connection, context, platform, key_id, bool(changed))


@router.post(KEYS + "/{key_id}/revoke")
def revoke_key(context: TenantContextDep, platform: PlatformDep, key_id: str) -> JSONResponse:
    """Refuse the key from the next request on, for good. A second time changes nothing."""
    now = platform.clock.now()
    with change(platform, context) as (connection, context):
        before = get_key_or_404(connection, context, key_id)
        if before.revoked_at is None:
            api_key_queries.change(connection, context.tenant_id, key_id, {"revoked_at": now})
            audit_in_tenant(connection, context, "api_key.revoke", f"api_key:{key_id}", now, {"name": before.name})
        return answer(connection, context, platform, key_id, before.revoked_at is None)


@router.post(KEYS + "/{key_id}/rotate", status_code=201)
def rotate_key(context: TenantContextDep, platform: PlatformDep, key_id: str, body: Rotation) -> JSONResponse:
    """A new key with the name, scopes, rate limit, groups and policies of an active one.

    With `retireAt` the old key expires then, so that both work in between; without, the caller revokes it.
    """
    now, new_id, tenant_id = platform.clock.now(), str(uuid4()), context.tenant_id
    with change(platform, context) as (connection, context):
        old = get_key_or_404(connection, context, key_id)
        if api_key_queries.status(old, now) != "active":
            raise ApiError(409, "API_KEY_NOT_ACTIVE", "only an active key can be rotated", hint="create a new key")
        retires = (
            old.expires_at if body.retire_at is None else api_key_validation.expiry(body.retire_at, now, "retireAt")
        )
        if retires > old.expires_at:
            raise errors.invalid_input(
                "retireAt is later than the key's expiry", member="retireAt", latest=wire_time(old.expires_at)
            )
        known = platform.decisions.catalogue(connection)
        api_key_validation.require_held(
            role_in(connection, tenant_id, context.principal.user_id), tenant_id, old.scopes, known
        )
        kept = ("tenant_id", "user_id", "name", "description", "scopes", "rate_limit")
        values = {name: getattr(old, name) for name in kept}
        values |= {"id": new_id, "created_at": now, "expires_at": api_key_validation.expiry(body.expires_at, now)}
        secret = api_key_queries.add(connection, platform.secret, values)
        grants = api_key_queries.copy_grants(connection, tenant_id, key_id, new_id, context.principal.user_id, now)
        api_key_queries.change(connection, tenant_id, key_id, {"expires_at": retires})
        details = {"from": key_id, "grants": grants, "retireAt": wire_time(retires)}
        audit_in_tenant(connection, context, "api_key.rotate", f"api_key:{new_id}", now, details)
        made = api_key_queries.wire(get_key_or_404(connection, context, new_id), now)
        replaced = api_key_queries.wire(get_key_or_404(connection, context, key_id), now)
    return JSONResponse({"apiKey": made, "key": secret, "replaced": replaced, "grants": grants}, 201)


@router.delete(KEYS + "/{key_id}", status_code=204)
def delete_key(context: TenantContextDep, platform: PlatformDep, key_id: str) -> Response:
    """Remove a key in any state, with its memberships and attachments."""
    now = platform.clock.now()
    with change(platform, context) as (connection, context):
        row = get_key_or_404(connection, context, key_id)
        api_key_queries.remove(connection, context.tenant_id, key_id)
        details = {"name": row.name, "keyPrefix": row.key_prefix}
        audit_in_tenant(connection, context, "api_key.delete", f"api_key:{key_id}", now, details)
    return no_content()


def get_key_or_404(connection: Connection, context: TenantContext, key_id: str) -> Record:
    """The caller's key of the path in the tenant of the path.

    Raises:
        Refusal: flat 404.
    """
    caller = context.principal
    row = api_key_queries.one(connection, context.tenant_id, caller.user_id, key_id)
    if row is None or (caller.kind == "api_key" and row.id != caller.key_id):
        raise errors.not_found()
    return row


def answer(
    connection: Connection, context: TenantContext, platform: Platform, key_id: str, changed: bool
) -> JSONResponse:
    """The key as it is now, and whether there was anything to change."""
    row = get_key_or_404(connection, context, key_id)
    headers = {CHANGED: "true" if changed else "false"}
    return JSONResponse(api_key_queries.wire(row, platform.clock.now()), headers=headers)


def held_scopes(
    connection: Connection,
    context: TenantContext,
    given: list[str],
    known: CatalogueSnapshot,
    kept: list[str] | None = None,
) -> list[str]:
    """The scopes a key is to have; those it has already are not asked for again."""
    wanted = api_key_validation.scopes(given, known)
    tenant_id = context.tenant_id
    added = [scope for scope in wanted if scope not in (kept or ())]
    api_key_validation.require_held(role_in(connection, tenant_id, context.principal.user_id), tenant_id, added, known)
    return wanted


def require_first(claimed_id: str, key_id: str) -> None:
    """Refuse a request whose key was created by an earlier one under the same idempotency key. hostile J05

    Raises:
        Refusal: 409 SECRET_ALREADY_SHOWN with the id of that key.
    """
    if claimed_id == key_id:
        return
    raise ApiError(
        409,
        "SECRET_ALREADY_SHOWN",
        "this key was made by an earlier request, and its secret cannot be shown again",
        details={"apiKeyId": claimed_id},
        hint="use the secret you were given, or rotate the key",
    )
