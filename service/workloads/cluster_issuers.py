"""Cluster issuers, and the exchange of their tokens (RFC 8693).

A cluster's owners register the public keys of its service-account tokens. A workload exchanges such a token, issued for
this cluster's audience, for a platform token that acts as its binding.
"""

from typing import Annotated, Any
from urllib.parse import parse_qs

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from service import errors, validation
from service.api.changes import change
from service.api.dependencies import ContextDep, PlatformDep, TenantContextDep
from service.api.protected_route import protected_router
from service.api.responses import audit_in_tenant, no_content, or_404
from service.audit import entries
from service.audit.events import AuditEvent
from service.authn import workload_tokens
from service.authz.context import AuthorizationContext
from service.authz.paths import CLUSTER_ISSUER
from service.clock import wire_time
from service.context import Platform
from service.db import statements
from service.db.engine import Record
from service.errors import ApiError
from service.http_server.client_address import address_of
from service.principal import Principal
from service.principals import queries
from service.workloads import token_exchange
from service.workloads.queries import delete_issuer, delete_tokens, find_issuer, save_issuer

router = protected_router("workload identities")
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:token-exchange"
TOKEN_TYPES = ("urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:id_token")
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105


class ClusterIssuer(BaseModel):
    """The body that registers the signing keys of a cluster."""

    model_config = ConfigDict(extra="forbid", strict=True)

    issuer: Annotated[str, StringConstraints(min_length=1, max_length=300)]
    keys: list[dict[str, Any]] = Field(description="public JSON Web Keys, each with a `kid`; one to ten")


@router.put(CLUSTER_ISSUER, operation_id="setIssuer")
def set_issuer(context: TenantContextDep, platform: PlatformDep, cluster_id: str, body: ClusterIssuer) -> JSONResponse:
    """Set the issuer and keys of a cluster.

    Removing a key or changing the issuer also revokes the tokens issued to its workloads; adding a key does not.
    """
    tenant_id, now = context.tenant_id, platform.clock.now()
    issuer, keys = token_exchange.validate_issuer(body.issuer), token_exchange.validate_public_keys(body.keys)
    with change(platform, context) as (connection, context):
        require_cluster(connection, tenant_id, cluster_id)
        before = find_issuer(connection, tenant_id, cluster_id)
        if before and (before.issuer != issuer or any(key not in keys for key in before.keys)):
            delete_tokens(connection, tenant_id, cluster_id)
        values = {"issuer": issuer, "keys": keys, "changed_by": context.principal.user_id, "changed_at": now}
        save_issuer(connection, tenant_id, cluster_id, values)
        details = {"issuer": issuer, "keyIds": [key["kid"] for key in keys]}
        audit_in_tenant(
            connection, context, AuditEvent.WORKLOAD_IDENTITY_ISSUER_SET, f"cluster:{cluster_id}", now, details
        )
        return JSONResponse(wire(or_404(find_issuer(connection, tenant_id, cluster_id))))


@router.get(CLUSTER_ISSUER, operation_id="getIssuer")
def get_issuer(context: TenantContextDep, platform: PlatformDep, cluster_id: str) -> JSONResponse:
    """Return the issuer of a cluster and the audience that its tokens must have."""
    with platform.database.read() as connection:
        return JSONResponse(wire(or_404(find_issuer(connection, context.tenant_id, cluster_id))))


@router.delete(CLUSTER_ISSUER, operation_id="removeIssuer", status_code=204)
def remove_issuer(context: TenantContextDep, platform: PlatformDep, cluster_id: str) -> Response:
    """Delete the issuer of a cluster. Revokes the tokens issued to its workloads."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    with change(platform, context) as (connection, context):
        or_404(find_issuer(connection, tenant_id, cluster_id))
        delete_issuer(connection, tenant_id, cluster_id)
        audit_in_tenant(connection, context, AuditEvent.WORKLOAD_IDENTITY_ISSUER_REMOVE, f"cluster:{cluster_id}", now)
    return no_content()


@router.post("/api/v1/auth/workload-token", operation_id="exchangeToken")
async def exchange_token(request: Request, platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """Exchange a cluster's token for one of a workload's binding. The body is a form (RFC 8693)."""
    subject_token = await read_subject_token(request)
    return await run_in_threadpool(exchange_subject_token, platform, context.principal, subject_token, request.scope)


async def read_subject_token(request: Request) -> str:
    """Return the cluster's token in the form.

    Raises:
        ApiError: 415, 400 INVALID_INPUT.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise ApiError(415, "UNSUPPORTED_MEDIA_TYPE", "the request body must be application/x-www-form-urlencoded")
    try:
        fields = parse_qs((await request.body()).decode("ascii"), strict_parsing=True, max_num_fields=10)
    except ValueError:
        raise errors.invalid_input("invalid request body: not a form", reason="form") from None
    if any(len(values) > 1 for values in fields.values()):
        raise errors.invalid_input("invalid request body: a field given twice", reason="form")
    for name, choices in (("grant_type", (GRANT_TYPE,)), ("subject_token_type", TOKEN_TYPES)):
        validation.require_choice(name, fields.get(name, [""])[0], choices)
    token = fields.get("subject_token", [""])[0]
    if not token:
        raise errors.invalid_input('"subject_token" is required', member="subject_token", reason="missing")
    return token


def exchange_subject_token(platform: Platform, anonymous: Principal, subject_token: str, scope: Scope) -> JSONResponse:
    """Return a token for a cluster's token. Sets the principal in `scope`, so that refusals are audited.

    Raises:
        ApiError: 401 with the same words for every invalid token, 403 for a binding without grants.
    """
    address = address_of(scope, platform.settings.proxies)
    platform.login_throttle.check(address, subject_token)
    now = platform.clock.now()
    with platform.database.read() as connection:
        verified = token_exchange.verify_subject_token(connection, subject_token, now)
    if verified is None:
        platform.login_throttle.record_failure(address)
        raise errors.authentication_required()
    with platform.database.write() as connection:
        # Verified again under the lock: the binding, its scopes or the cluster may have changed.
        statements.lock_tenant(connection, verified[0].tenant_id, shared=True)
        verified = token_exchange.verify_subject_token(connection, subject_token, now)
        if verified is None:
            raise errors.authentication_required()
        identity, token_expiry = verified
        principal = Principal(
            kind="workload", request_id=anonymous.request_id, workload_id=identity.id, tenant_id=identity.tenant_id
        )
        scope["frost.caller"], scope["frost.access"] = (
            principal,
            AuthorizationContext(principal, tenant_id=identity.tenant_id),
        )
        if not workload_tokens.has_grant(connection, identity.tenant_id, identity.id, identity.scopes):
            raise ApiError(403, "WORKLOAD_HAS_NO_GRANT", "this workload identity has neither scopes nor a policy")
        expires_at = min(now + workload_tokens.LIFETIME, token_expiry)
        token = workload_tokens.issue(connection, platform.secret, identity.id, at=now, until=expires_at)
        entries.record(
            connection,
            principal,
            event=AuditEvent.WORKLOAD_IDENTITY_EXCHANGE,
            target=f"workload_identity:{identity.id}",
            tenant_id=identity.tenant_id,
            details={"until": wire_time(expires_at)},
            at=now,
        )
    return JSONResponse(
        {
            "access_token": token,
            "issued_token_type": ACCESS_TOKEN,
            "token_type": "Bearer",
            "expires_in": int((expires_at - now).total_seconds()),
        }
    )


def require_cluster(connection: Connection, tenant_id: str, cluster_id: str) -> None:
    """Require the id of a cluster of the tenant; flat 404 otherwise."""
    if not validation.is_id(cluster_id) or not queries.cluster_exists(connection, tenant_id, cluster_id):
        raise errors.not_found()


def wire(row: Record) -> dict[str, Any]:
    return {
        "clusterId": row.cluster_id,
        "issuer": row.issuer,
        "audience": token_exchange.audience(row.cluster_id),
        "keyIds": [key["kid"] for key in row.keys],
        "changedAt": wire_time(row.changed_at),
    }
