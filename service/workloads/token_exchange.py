"""Exchanges a cluster's token for a token of a workload identity (RFC 8693)."""

from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import Scope

from service import errors, validation
from service.api.dependencies import ContextDep, PlatformDep
from service.api.protected_route import protected_router
from service.audit import entries
from service.audit.entries import AuditEvent
from service.authn import machine_credentials, secret_format
from service.authz.context import AuthorizationContext
from service.clock import wire_time
from service.context import Platform
from service.db.revisions import lock_domains
from service.errors import ApiError
from service.http_server.client import address_of
from service.json_bodies import JSONResponse
from service.principal import Principal
from service.principals import live_credentials
from service.workloads import cluster_issuers

router = protected_router("workload identities")
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:token-exchange"
TOKEN_TYPES = ("urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:id_token")
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105


@router.post("/api/v1/auth/workload-token", operation_id="exchangeToken")
async def exchange_token(request: Request, platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """Exchange a cluster's token for a workload token. The body is a form (RFC 8693)."""
    subject_token = await read_subject_token(request)
    return await run_in_threadpool(exchange_subject_token, platform, context.principal, subject_token, request.scope)


async def read_subject_token(request: Request) -> str:
    """Return the cluster's token in the form. Raises ApiError: 415, 400 INVALID_INPUT."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise ApiError(415, "UNSUPPORTED_MEDIA_TYPE", "the request body must be application/x-www-form-urlencoded")
    try:
        fields = parse_qs((await request.body()).decode("ascii"), strict_parsing=True, max_num_fields=10)
    except ValueError:
        raise errors.invalid_input("invalid request body: not a form", reason="form") from None
    if any(len(values) > 1 for values in fields.values()):
        raise errors.invalid_input("invalid request body: a field is repeated", reason="form")
    for name, choices in (("grant_type", (GRANT_TYPE,)), ("subject_token_type", TOKEN_TYPES)):
        validation.require_choice(name, fields.get(name, [""])[0], choices)
    token = fields.get("subject_token", [""])[0]
    if not token:
        raise errors.invalid_input('"subject_token" is required', member="subject_token", reason="missing")
    return token


def exchange_subject_token(platform: Platform, anonymous: Principal, subject_token: str, scope: Scope) -> JSONResponse:
    """Return the response with a token. Sets the principal in `scope` to audit refusals.

    Raises:
        ApiError: 401, identical for every invalid token; 403 for a binding without grants.
    """
    address = address_of(scope, platform.settings.proxies)
    platform.login_throttle.check(address, secret_format.cache_digest(subject_token))
    now = platform.clock.now()
    with platform.database.read() as connection:
        verified = cluster_issuers.verify_cluster_token(connection, subject_token, now)
    if verified is None:
        platform.login_throttle.record_failure(address)
        raise errors.authentication_required()
    with platform.database.write() as connection:
        # The binding or the cluster may have changed before the lock.
        lock_domains(connection, [verified[0].organization_id], shared=True)
        verified = cluster_issuers.verify_cluster_token(connection, subject_token, now)
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
        if not live_credentials.workload_has_grant(connection, identity.tenant_id, identity.id, identity.scopes):
            raise ApiError(403, "WORKLOAD_HAS_NO_GRANT", "this workload identity has neither scopes nor a policy")
        expires_at = min(now + machine_credentials.WORKLOAD_TOKEN_LIFETIME, token_expiry)
        token = machine_credentials.issue_workload_token(
            connection, platform.secret, identity.id, at=now, until=expires_at
        )
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
