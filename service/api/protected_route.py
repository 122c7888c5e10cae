"""Applies the route policy of a request before its body is read, and logs refused changes.

Refused changes are written to the audit log here, for all routes. Refusals without a valid credential are not, so that
a stranger cannot fill the database.
"""

import logging
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from service import errors
from service.api.enforcement import enforce, request_context
from service.api.request_body import read_body
from service.audit import entries
from service.audit.events import AuditEvent
from service.authn import api_keys, workload_tokens
from service.authn.credentials import HEADERS, extract_credential
from service.authz.authorize import authorize, belongs_to
from service.authz.context import AuthorizationContext
from service.authz.route_policies import ROUTE_POLICIES, RoutePolicy
from service.context import Platform
from service.errors import ApiError, validation_error
from service.http_server.client_address import address_of, peer_uid
from service.principal import Principal
from service.validation import canonical_id

logger = logging.getLogger(__name__)

# FastAPI loads all of `pydantic.v1` to test whether the type of a route parameter belongs to it. This service has no
# such types. Blocking the import saves 20 ms at start.
sys.modules.setdefault("pydantic.v1", None)  # type: ignore[arg-type]


class ProtectedRoute(APIRoute):
    """A route that applies its entry of `ROUTE_POLICIES`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            rule = ROUTE_POLICIES[request.method, self.path_format]
            platform: Platform = request.app.state.platform
            try:
                context = request.scope["frost.access"] = await self.admit(rule, platform, request)
                # The body is read before the request takes a turn, so that a slow sender delays no other request.
                if self.body_field is not None:
                    await read_body(request, self.body_field)
                elif rule.cpu_intensive:
                    await request.body()
                async with (
                    platform.concurrency.slot(concurrency_key(context.principal))
                    if rule.cpu_intensive
                    else nullcontext()
                ):
                    return await answer(request)
            except (ApiError, RequestValidationError) as error:
                if rule.audit_event and (principal := request.scope.get("frost.caller")):
                    await run_in_threadpool(record_refusal, platform, rule.audit_event, principal, request, error)
                raise

        return guarded

    async def admit(self, rule: RoutePolicy, platform: Platform, request: Request) -> AuthorizationContext:
        if rule.local and peer_uid(request.scope) is None:
            raise errors.not_routed(request.scope["path"])
        if rule.who == "anyone":
            return AuthorizationContext(anonymous_principal(request))
        return await run_in_threadpool(authenticate_and_authorize, rule, platform, request)


def protected_router(tag: str) -> APIRouter:
    """Return the router of one area. Paths are complete (`/api/v1/…`)."""
    return APIRouter(route_class=ProtectedRoute, tags=[tag])


def anonymous_principal(request: Request) -> Principal:
    return Principal(kind="anonymous", request_id=request.scope["frost.request_id"], peer_uid=peer_uid(request.scope))


def authenticate_and_authorize(rule: RoutePolicy, platform: Platform, request: Request) -> AuthorizationContext:
    """Authenticate a request and apply the route policy.

    Raises:
        ApiError: 401 or 403, or 400 for an invalid id in the path.
    """
    uid = peer_uid(request.scope)
    request_id: str = request.scope["frost.request_id"]
    if rule.who == "operator":
        principal = request.scope["frost.caller"] = Principal(kind="staff", request_id=request_id, peer_uid=uid)
        if uid != os.getuid():
            raise errors.permission_denied("platform")
        return AuthorizationContext(principal)
    principal = authenticate(platform, request, request_id, uid)
    request.scope["frost.caller"] = principal
    if rule.home and principal.tenant_id:
        # As if the path named it, so that a refusal is logged in that tenant.
        request.path_params["tenant_id"] = principal.tenant_id
    if rule.needs_database:
        with platform.database.read() as connection:
            context = authorize(rule, principal, connection, request.path_params)
            context = replace(context, facts=request_context(platform, request, context))
            context = enforce(platform, connection, rule, context)
    else:
        context = authorize(rule, principal, None, request.path_params)
    check_tenant_header(request, context)
    return replace(context, rule=rule, path=request.path_params)


def check_tenant_header(request: Request, context: AuthorizationContext) -> None:
    """Refuse a request whose `X-Tenant-Id` differs from the tenant of its path or credential.

    Raises:
        ApiError: 403 TENANT_ACCESS_DENIED.
    """
    meant = context.tenant_id or context.principal.tenant_id
    for name, value in request.scope["headers"]:
        if name == b"x-tenant-id" and meant and value.decode("latin-1").lower() != meant:
            raise errors.tenant_access_denied()


def authenticate(platform: Platform, request: Request, request_id: str, uid: int | None) -> Principal:
    """Return the principal of the credential of a request.

    Raises:
        ApiError: 401 with the same message for every failure, or 429 after too many failures.
    """
    address = address_of(request.scope, platform.settings.proxies)
    throttle, credential = platform.login_throttle, None
    try:
        credential = extract_credential(request.scope["headers"])
        throttle.check(address, credential.secret)
        if credential.kind == "api_key":
            principal = api_keys.authenticate(
                platform.database,
                platform.secret,
                credential.secret,
                at=platform.clock.now(),
                request_id=request_id,
                peer_uid=uid,
            )
        elif credential.kind == "workload":
            principal = workload_tokens.authenticate(
                platform.database,
                platform.secret,
                platform.request_limit,
                credential.secret,
                at=platform.clock.now(),
                request_id=request_id,
                peer_uid=uid,
            )
        else:
            location = address or "this machine"
            principal = platform.bearer_tokens.authenticate(
                credential.secret, request_id=request_id, peer_uid=uid, location=location
            )
    except ApiError as refusal:
        if refusal.status_code == 401 and any(name in HEADERS for name, _ in request.scope["headers"]):
            begins = api_keys.prefix(credential.secret) if credential and credential.kind == "api_key" else None
            looked_up = credential is not None and credential.kind != "bearer"
            throttle.record_failure(address, begins, looked_up=looked_up)
        raise
    throttle.record_success(address, credential.secret)
    return principal


def concurrency_key(principal: Principal) -> str:
    """Return the key that limits concurrent requests: the credential, so that one does not delay another."""
    return principal.credential_id or principal.actor_id


def path_id_or_none(request: Request, name: str) -> str | None:
    """Return a canonical id from the path, None without a valid one."""
    try:
        return canonical_id(request.path_params[f"{name}_id"], name)
    except (KeyError, ApiError):
        return None


def record_refusal(
    platform: Platform,
    event: AuditEvent,
    principal: Principal,
    request: Request,
    error: ApiError | RequestValidationError,
) -> None:
    """Write the audit entry of a refused change, in its own transaction.

    The entry names the tenant or organization only if the principal belongs to it, so that others cannot fill its
    audit log.
    """
    refusal = validation_error(error) if isinstance(error, RequestValidationError) else error
    context: AuthorizationContext | None = request.scope.get("frost.access")
    try:
        with platform.database.write() as connection:
            organization_id, tenant_id = belongs_to(
                connection,
                principal,
                context.organization_id if context else path_id_or_none(request, "organization"),
                context.tenant_id if context else path_id_or_none(request, "tenant"),
            )
            entries.record(
                connection,
                principal,
                event=event,
                target=api_keys.mask_secrets(request.scope["path"]),
                outcome="refused",
                organization_id=organization_id,
                tenant_id=tenant_id,
                details={"status": refusal.status_code, "code": refusal.code},
                at=platform.clock.now(),
            )
    except Exception:
        # The change is refused either way; a full disk must not replace the refusal by another error.
        logger.exception("a refusal could not be written to the audit log")
