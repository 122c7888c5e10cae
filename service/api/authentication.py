"""Authenticates a request: extracts its credential and returns the principal."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from sqlalchemy import Connection
from starlette.requests import Request

from service import errors
from service.authn import machine_credentials, secret_format
from service.context import Platform
from service.errors import ApiError
from service.http_server.client_address import address_of, peer_uid
from service.principal import Principal

HEADERS = (b"x-api-key", b"authorization")
_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Credential:
    kind: Literal["api_key", "bearer", "workload"]
    secret: str


def extract_credential(headers: Iterable[tuple[bytes, bytes]]) -> Credential:
    """Return the credential of a request.

    Raises:
        ApiError: 401 without exactly one well-formed credential. A wrong checksum needs no database lookup.
    """
    credentials = [(name, value.decode("latin-1")) for name, value in headers if name in HEADERS]
    if len(credentials) != 1:
        raise errors.authentication_required()
    name, value = credentials[0]
    if name == b"x-api-key":
        if secret_format.is_well_formed(value):
            return Credential("api_key", value)
    elif match := _BEARER.fullmatch(value):
        token = match[1]
        if not token.startswith(secret_format.WORKLOAD_TOKEN_PREFIX):
            return Credential("bearer", token)
        if machine_credentials.is_workload_token(token):
            return Credential("workload", token)
    raise errors.authentication_required()


def credential_of(platform: Platform, request: Request) -> Credential:
    """Return the credential of a request from an address that may try it.

    Raises:
        ApiError: 401; 429 after too many failures from the address.
    """
    address = address_of(request.scope, platform.settings.proxies)
    try:
        credential = extract_credential(request.scope["headers"])
        platform.login_throttle.check(address, credential.secret)
    except ApiError as refusal:
        if refusal.status_code == 401 and any(name in HEADERS for name, _ in request.scope["headers"]):
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
    throttle.record_success(address, credential.secret)
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


def count_request(platform: Platform, principal: Principal, requests: int = 1) -> bool:
    """Apply the rate limit of a credential and note its use, without waiting and without the database.

    Args:
        requests: the weight of the request.

    Returns:
        False if the request is not counted: call `wait_and_count_request` in a thread.

    Raises:
        ApiError: 429 with `Retry-After`.
    """
    if not platform.request_limits.take(*_limit_of(platform, principal), requests):
        return False
    platform.credential_use.record(principal, platform.clock.now())
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
