"""Handles requests to the issuer: parameters, transaction and OAuth endpoint."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Literal
from urllib.parse import parse_qsl

from authlib.oauth2.rfc6749.errors import InvalidRequestError, OAuth2Error
from starlette.responses import Response

from service.oidc_issuer import grant_types, tokens
from service.oidc_issuer.issuer import SCOPES, LocalIssuer
from service.oidc_issuer.server import IssuerRequest, Server
from service.principal import Principal

Endpoint = Literal["device_authorization", "approve", "authorize", "token", "revoke"]

MAX_PARAMETERS = 40
# Other parameters have only the characters of `error_description` (RFC 6749 5.2).
FREE_TEXT = frozenset({"device", "email", "login_hint", "nonce", "state"})
_PLAIN = re.compile(r"[\x20\x21\x23-\x5b\x5d-\x7e]*")


@cache
def authorization_server() -> Server:
    server = Server(scopes_supported=list(SCOPES))
    server.register_grant(grant_types.CodeGrant, [grant_types.S256Required(required=True)])
    server.register_grant(grant_types.DeviceGrant)
    server.register_grant(tokens.RefreshGrant)
    server.register_endpoint(grant_types.DeviceAuthorization)
    server.register_endpoint(tokens.Revocation)
    return server


def handle(issuer: LocalIssuer, principal: Principal, endpoint: Endpoint, method: str, encoded: bytes) -> Response:
    """Handle a request; `encoded` is its form or query. The transaction is committed also for errors."""
    # Before the transaction, because the first request creates the key.
    issuer.load_key()
    server = authorization_server()
    try:
        parameters = parse_parameters(encoded)
    except InvalidRequestError as error:
        return error_response(server, None, error)
    with issuer.database.write() as connection:
        request = IssuerRequest(
            method,
            f"{issuer.issuer}/{endpoint}",
            parameters,
            issuer=issuer,
            connection=connection,
            principal=principal,
            at=issuer.clock.now(),
        )
        response: Response = ENDPOINTS[endpoint](server, request)
        return response


def parse_parameters(encoded: bytes) -> dict[str, str]:
    """Return the parameters that have a value (RFC 6749 3.1).

    Raises:
        InvalidRequestError: an invalid form, repeated parameter or invalid character.
    """
    try:
        pairs = parse_qsl(
            encoded.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS
        )
    except ValueError:
        raise InvalidRequestError("The request is not a readable form.") from None
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if name in parameters:
            raise InvalidRequestError("A parameter is repeated.")
        if name not in FREE_TEXT and not _PLAIN.fullmatch(value):
            raise InvalidRequestError("A parameter has characters that are not allowed.")
        parameters[name] = value
    return {name: value for name, value in parameters.items() if value}


def error_response(server: Server, request: IssuerRequest | None, error: OAuth2Error) -> Response:
    response: Response = server.handle_error_response(request, error)
    return response


def _approve(server: Server, request: IssuerRequest) -> Response:
    try:
        return server.handle_response(200, grant_types.approve(request), [])
    except OAuth2Error as error:
        grant_types.record_refused_approval(request, error)
        return error_response(server, request, error)


def _token(server: Server, request: IssuerRequest) -> Response:
    response: Response = server.create_token_response(request)
    return response


def _registered(name: str) -> Callable[[Server, IssuerRequest], Any]:
    return lambda server, request: server.create_endpoint_response(name, request)


ENDPOINTS: dict[Endpoint, Callable[[Server, IssuerRequest], Any]] = {
    "device_authorization": _registered("device_authorization"),
    "approve": _approve,
    "authorize": grant_types.authorize,
    "token": _token,
    "revoke": _registered("revocation"),
}
