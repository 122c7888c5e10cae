"""Authenticates and authorizes a request, from the cache unless the database has a newer revision.

`authorize_from_memory` reads only revisions and runs on the event loop. `authenticate_and_authorize` reads what is
missing, in a thread.
"""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Literal, NamedTuple

from sqlalchemy import Connection
from starlette.requests import Request

from service import errors
from service.api.enforcement import enforce, request_context
from service.authn import machine_credentials, secret_format
from service.authz.context import AuthorizationContext, authorize
from service.authz.entitlements import Entitlements, NotLoaded
from service.authz.grant_caches import Authority
from service.authz.route_policies import RoutePolicy
from service.context import Platform
from service.db.revisions import Revisions
from service.errors import ApiError
from service.http_server.callers import CREDENTIAL_HEADERS
from service.http_server.client import address_of, peer_uid
from service.principal import Principal

_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE | re.ASCII)

CredentialKind = Literal["api_key", "bearer", "workload"]
BEFORE_REVISIONS = "frost.before_revisions"
"""The key in the scope of a function that reads more in the statement of the revisions (`Reader.keep`).

Args:
    connection: of the revisions.
    authority: the cached one, not compared yet.
"""


class Credential(NamedTuple):
    kind: CredentialKind
    secret: str
    digest: bytes
    """The key of the credential in caches."""

    @classmethod
    def of(cls, kind: CredentialKind, secret: str) -> "Credential":
        return cls(kind, secret, secret_format.cache_digest(secret))


def extract_credential(headers: Iterable[tuple[bytes, bytes]]) -> Credential:
    """Return the credential of a request.

    Raises:
        ApiError: 401 without exactly one well-formed credential. A wrong checksum needs no database lookup.
    """
    credentials = [(name, value.decode("latin-1")) for name, value in headers if name in CREDENTIAL_HEADERS]
    if len(credentials) != 1:
        raise errors.authentication_required()
    name, value = credentials[0]
    if name == b"x-api-key":
        if secret_format.is_well_formed(value):
            return Credential.of("api_key", value)
    elif match := _BEARER.fullmatch(value):
        token = match[1]
        if not token.startswith(secret_format.WORKLOAD_TOKEN_PREFIX):
            return Credential.of("bearer", token)
        if machine_credentials.is_workload_token(token):
            return Credential.of("workload", token)
    raise errors.authentication_required()


def credential_of(platform: Platform, request: Request) -> Credential:
    """Return the credential of a request from an address that may try it.

    Raises:
        ApiError: 401; 429 after too many failures from the address.
    """
    address = address_of(request.scope, platform.settings.proxies)
    try:
        credential = extract_credential(request.scope["headers"])
        platform.login_throttle.check(address, credential.digest)
    except ApiError as refusal:
        if refusal.status_code == 401 and any(name in CREDENTIAL_HEADERS for name, _ in request.scope["headers"]):
            platform.login_throttle.record_failure(address)
        raise
    return credential


def authenticate(platform: Platform, request: Request, credential: Credential) -> Principal:
    """Look up the principal of a credential, and count the request.

    Raises:
        ApiError: 401; 429 for too many requests or failures; 503 without keys of the identity provider.
    """
    address, uid = address_of(request.scope, platform.settings.proxies), peer_uid(request.scope)
    request_id: str = request.scope["frost.request_id"]
    throttle = platform.login_throttle
    try:
        if credential.kind == "bearer":
            location = address or "this machine"
            principal = platform.bearer_tokens.authenticate(
                credential.secret, request_id=request_id, peer_uid=uid, location=location
            )
        else:
            principal = replace(look_up(platform, credential), request_id=request_id, peer_uid=uid)
    except ApiError as refusal:
        if refusal.status_code == 401:
            prefix = secret_format.lookup_prefix(credential.secret) if credential.kind == "api_key" else None
            throttle.record_failure(address, prefix, looked_up=credential.kind != "bearer")
        raise
    wait_and_count_request(platform, principal)
    throttle.record_success(address, credential.digest)
    return principal


def look_up(platform: Platform, credential: Credential) -> Principal:
    """Return the principal of an API key or a workload token, without a request.

    Raises:
        ApiError: 401, identical for every invalid credential.
    """
    with platform.database.read_committed() as connection:
        principal = find_principal(platform, connection, credential)
    if principal is None:
        raise errors.authentication_required()
    return principal


def find_principal(platform: Platform, connection: Connection, credential: Credential) -> Principal | None:
    """Return the principal that a credential has in a snapshot, without a request; None if it is not valid."""
    now = platform.clock.now()
    if credential.kind == "api_key":
        return machine_credentials.find_api_key(connection, platform.secret, credential.secret, now)
    if credential.kind == "workload":
        return machine_credentials.find_workload_token(connection, platform.secret, credential.secret, now)
    return platform.bearer_tokens.find(connection, credential.secret)


def count_request(platform: Platform, principal: Principal, at: datetime, requests: int = 1) -> bool:
    """Apply the rate limit of a credential and note its use, without waiting and without the database.

    Args:
        at: the time of the request.
        requests: the weight of the request.

    Returns:
        False if the request is not counted: call `wait_and_count_request` in a thread.

    Raises:
        ApiError: 429 with `Retry-After`.
    """
    if not platform.request_limits.take(*_limit_of(platform, principal), requests):
        return False
    platform.credential_use.record(principal, at)
    return True


def wait_and_count_request(platform: Platform, principal: Principal, requests: int = 1) -> None:
    """Do the same as `count_request`, and wait for the database if necessary.

    Raises:
        ApiError: 429 with `Retry-After`.
    """
    platform.request_limits.renew(*_limit_of(platform, principal), requests)
    platform.credential_use.record(principal, platform.clock.now())


def _limit_of(platform: Platform, principal: Principal) -> tuple[str, int]:
    """Return the key of a rate limit, and the requests a minute."""
    per_minute = principal.rate_limit if principal.kind == "api_key" else None
    return str(principal.credential_id), per_minute or platform.settings.requests_per_minute


def authorize_from_memory(rule: RoutePolicy, platform: Platform, request: Request) -> AuthorizationContext:
    """Apply the route policy with cached entitlements whose revisions are the stored ones.

    Raises:
        ApiError: as `authenticate_and_authorize`.
        NotLoaded: an entitlement is not in memory; the request is not counted.
    """
    if rule.who == "operator":
        return _authorize_operator(request)
    credential, now = credential_of(platform, request), platform.clock.now()
    authority = request.scope["frost.authority"] = _current_authority(platform, request, credential, now)
    if authority is None:
        raise NotLoaded
    principal = _identify(rule, request, authority.principal)
    try:
        entitlements = Entitlements(principal, platform.decisions, None, authority.entitlements)
        context = _authorize(rule, platform, request, entitlements, authority.revisions, now)
    except ApiError:
        _count(platform, request, credential, principal, now)
        raise
    _count(platform, request, credential, principal, now)
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
    if "frost.authority" in request.scope:
        # `authorize_from_memory` has compared its revisions.
        authority: Authority | None = request.scope["frost.authority"]
    else:
        authority = _current_authority(platform, request, credential, platform.clock.now())
    if authority is None:
        authority = Authority(authenticate(platform, request, credential))
    else:
        wait_and_count_request(platform, authority.principal)
        _record_success(platform, request, credential)
    principal = _identify(rule, request, authority.principal)
    try:
        entitlements = Entitlements(principal, platform.decisions, None, authority.entitlements)
        context = _authorize(rule, platform, request, entitlements, authority.revisions, platform.clock.now())
    except NotLoaded:
        context = _load_and_authorize(rule, platform, request, credential, authority)
    check_tenant_header(request, context)
    return context


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


def _current_authority(platform: Platform, request: Request, credential: Credential, at: datetime) -> Authority | None:
    """Return the cached authority of a credential if it is current."""
    authority = platform.authorities.get(credential.digest, at)
    if authority is None or (credential.kind == "bearer" and not platform.bearer_tokens.is_known(credential.secret)):
        return None
    before: Callable[[Connection, Authority], None] | None = request.scope.get(BEFORE_REVISIONS)
    with platform.database.read_committed() as connection:
        if before is not None:
            before(connection, authority)
        return authority.refreshed(connection, platform.cache_guard.compare)


def _count(platform: Platform, request: Request, credential: Credential, principal: Principal, at: datetime) -> None:
    """Count the request of a credential that was not looked up.

    Raises:
        ApiError: 429 with `Retry-After`.
        NotLoaded: the limit must be read.
    """
    if not count_request(platform, principal, at):
        raise NotLoaded
    _record_success(platform, request, credential)


def _record_success(platform: Platform, request: Request, credential: Credential) -> None:
    platform.login_throttle.record_success(address_of(request.scope, platform.settings.proxies), credential.digest)


def _load_and_authorize(
    rule: RoutePolicy,
    platform: Platform,
    request: Request,
    credential: Credential,
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
        context = _authorize(rule, platform, request, entitlements, authority.revisions, platform.clock.now())
        loaded = platform.authorities.put(connection, credential.digest, entitlements, authority.revisions)
        return replace(context, revisions=loaded.revisions)


def _authorize(
    rule: RoutePolicy,
    platform: Platform,
    request: Request,
    entitlements: Entitlements,
    revisions: Revisions,
    at: datetime,
) -> AuthorizationContext:
    context, path = authorize(rule, entitlements, request.path_params), request.path_params
    if not rule.needs_database:
        return replace(context, rule=rule, path=path, revisions=revisions)
    facts = request_context(platform, request, context, at)
    grants = enforce(rule, entitlements, context, facts)
    catalogue = entitlements.catalogue() if rule.tenancy == "tenant" else None
    return context.with_decision(facts, grants, catalogue, revisions, rule, path)


def check_tenant_header(request: Request, context: AuthorizationContext) -> None:
    """Raise 403 TENANT_ACCESS_DENIED if `X-Tenant-Id` is not the tenant of the path or credential."""
    tenant_id = context.tenant_id or context.principal.tenant_id
    for name, value in request.scope["headers"]:
        if name == b"x-tenant-id" and tenant_id and value.decode("latin-1").lower() != tenant_id:
            raise errors.tenant_access_denied()
