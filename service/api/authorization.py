"""Authenticates and authorizes a request, from the cache unless the database has a newer revision.

`authorize_from_memory` reads only revisions and runs on the event loop. `authenticate_and_authorize` reads what is
missing, in a thread.
"""

import os
from dataclasses import replace
from hashlib import sha256

from starlette.requests import Request

from service import errors
from service.api.authentication import (
    Credential,
    authenticate,
    count_request,
    credential_of,
    find_principal,
    wait_and_count_request,
)
from service.api.enforcement import enforce, request_context
from service.authz.context import AuthorizationContext, authorize
from service.authz.entitlements import Entitlements, NotLoaded
from service.authz.grant_caches import Authority
from service.authz.route_policies import RoutePolicy
from service.context import Platform
from service.db.revisions import Revisions
from service.errors import ApiError
from service.http_server.client_address import address_of, peer_uid
from service.principal import Principal


def authorize_from_memory(rule: RoutePolicy, platform: Platform, request: Request) -> AuthorizationContext:
    """Apply the route policy with cached entitlements whose revisions are the stored ones.

    Raises:
        ApiError: as `authenticate_and_authorize`.
        NotLoaded: an entitlement is not in memory; the request is not counted.
    """
    if rule.who == "operator":
        return _authorize_operator(request)
    credential = credential_of(platform, request)
    authority = request.scope["frost.authority"] = _current_authority(platform, credential, digest_of(credential))
    if authority is None:
        raise NotLoaded
    principal = _identify(rule, request, authority.principal)
    try:
        entitlements = Entitlements(principal, platform.decisions, None, authority.entitlements)
        context = _authorize(rule, platform, request, entitlements, authority.revisions)
    except ApiError:
        _count(platform, request, credential, principal)
        raise
    _count(platform, request, credential, principal)
    check_tenant_header(request, context)
    return context


def authenticate_and_authorize(rule: RoutePolicy, platform: Platform, request: Request) -> AuthorizationContext:
    """Authenticate a request and apply the route policy, after `authorize_from_memory` lacked something.

    Raises:
        ApiError: 401 or 403; 400 or 404 for an invalid path.
    """
    if rule.who == "operator":
        return _authorize_operator(request)
    credential = credential_of(platform, request)
    digest = digest_of(credential)
    if "frost.authority" in request.scope:
        # `authorize_from_memory` has compared its revisions.
        authority: Authority | None = request.scope["frost.authority"]
    else:
        authority = _current_authority(platform, credential, digest)
    if authority is None:
        authority = Authority(authenticate(platform, request, credential))
    else:
        wait_and_count_request(platform, authority.principal)
        _record_success(platform, request, credential)
    principal = _identify(rule, request, authority.principal)
    try:
        entitlements = Entitlements(principal, platform.decisions, None, authority.entitlements)
        context = _authorize(rule, platform, request, entitlements, authority.revisions)
    except NotLoaded:
        context = _load_and_authorize(rule, platform, request, credential, digest, authority)
    check_tenant_header(request, context)
    return context


def digest_of(credential: Credential) -> bytes:
    """Return the key of a credential in the cache."""
    return sha256(credential.secret.encode()).digest()


def _identify(rule: RoutePolicy, request: Request, principal: Principal) -> Principal:
    """Add the request to the principal, and store it for the log and the audit entry of a refusal."""
    principal = request.scope["frost.caller"] = principal.in_request(
        request.scope["frost.request_id"], peer_uid(request.scope)
    )
    if rule.home and principal.tenant_id:
        request.path_params["tenant_id"] = principal.tenant_id
    return principal


def _authorize_operator(request: Request) -> AuthorizationContext:
    uid = peer_uid(request.scope)
    principal = request.scope["frost.caller"] = Principal(
        kind="staff", request_id=request.scope["frost.request_id"], peer_uid=uid
    )
    if uid != os.getuid():
        raise errors.permission_denied("platform")
    return AuthorizationContext(principal)


def _current_authority(platform: Platform, credential: Credential, digest: bytes) -> Authority | None:
    """Return the cached authority of a credential if it is current."""
    authority = platform.authorities.get(digest, platform.clock.now())
    if authority is None or (credential.kind == "bearer" and not platform.bearer_tokens.is_known(credential.secret)):
        return None
    with platform.database.read_committed() as connection:
        return authority.refreshed(connection)


def _count(platform: Platform, request: Request, credential: Credential, principal: Principal) -> None:
    """Count the request of a credential that was not looked up.

    Raises:
        ApiError: 429 with `Retry-After`.
        NotLoaded: the limit must be read.
    """
    if not count_request(platform, principal):
        raise NotLoaded
    _record_success(platform, request, credential)


def _record_success(platform: Platform, request: Request, credential: Credential) -> None:
    platform.login_throttle.record_success(address_of(request.scope, platform.settings.proxies), credential.secret)


def _load_and_authorize(
    rule: RoutePolicy,
    platform: Platform,
    request: Request,
    credential: Credential,
    digest: bytes,
    authority: Authority,
) -> AuthorizationContext:
    """Authorize with entitlements of one snapshot besides those of the authority, and keep them."""
    principal: Principal = request.scope["frost.caller"]
    with platform.database.read() as connection:
        if not authority.revisions:
            # The credential was looked up before the snapshot: it may have been revoked since.
            current = find_principal(platform, connection, credential)
            if current is None:
                raise errors.authentication_required()
            principal = request.scope["frost.caller"] = replace(
                current, request_id=principal.request_id, peer_uid=principal.peer_uid
            )
        entitlements = Entitlements(principal, platform.decisions, connection, authority.entitlements)
        context = _authorize(rule, platform, request, entitlements, authority.revisions)
        loaded = platform.authorities.put(connection, digest, entitlements, authority.revisions)
        return replace(context, revisions=loaded.revisions)


def _authorize(
    rule: RoutePolicy, platform: Platform, request: Request, entitlements: Entitlements, revisions: Revisions
) -> AuthorizationContext:
    context, path = authorize(rule, entitlements, request.path_params), request.path_params
    if not rule.needs_database:
        return replace(context, rule=rule, path=path, revisions=revisions)
    facts = request_context(platform, request, context)
    grants = enforce(rule, entitlements, context, facts)
    catalogue = entitlements.catalogue() if rule.tenancy == "tenant" else None
    return context.with_decision(facts, grants, catalogue, revisions, rule, path)


def check_tenant_header(request: Request, context: AuthorizationContext) -> None:
    """Raise 403 TENANT_ACCESS_DENIED if `X-Tenant-Id` is not the tenant of the path or credential."""
    tenant_id = context.tenant_id or context.principal.tenant_id
    for name, value in request.scope["headers"]:
        if name == b"x-tenant-id" and tenant_id and value.decode("latin-1").lower() != tenant_id:
            raise errors.tenant_access_denied()
