"""Request, client and server for Authlib's OAuth core.

A request is a database transaction. OAuth errors commit it, because they change state, such as a poll interval or a
session that ends. Authlib is imported only by this module, `grant_types`, `tokens` and `endpoints`, to keep the
start fast.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Request
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from sqlalchemy import Connection
from starlette.responses import Response

from service.json_bodies import JSONResponse
from service.oidc_issuer.issuer import GRANT_TYPES, SCOPES, LocalIssuer
from service.principal import Principal
from service.settings import CLIENT_ID

# RFC 8252 7.3. `localhost` may resolve to another host.
LOOPBACK_REDIRECT_URI = re.compile(r"http://(?:127\.0\.0\.1|\[::1\]):([1-9][0-9]{0,4})/callback")
MAX_PORT = 65535


class IssuerRequest(OAuth2Request):
    """A request to the issuer.

    Args:
        parameters: of the form or query.
        connection: the write transaction.
        principal: the peer of the unix socket.
        at: the platform's time.
    """

    def __init__(
        self,
        method: str,
        uri: str,
        parameters: Mapping[str, str],
        *,
        issuer: LocalIssuer,
        connection: Connection,
        principal: Principal,
        at: datetime,
    ) -> None:
        super().__init__(method, uri)
        self.payload = BasicOAuth2Payload(parameters)
        self.issuer = issuer
        self.connection = connection
        self.principal = principal
        self.at = at

    @property
    def form(self) -> Mapping[str, str]:
        parameters: Mapping[str, str] = self.payload.data
        return parameters


class CommandLineClient(ClientMixin):
    def get_client_id(self) -> str:
        return CLIENT_ID

    def get_default_redirect_uri(self) -> None:
        return None

    def get_allowed_scope(self, scope: str | None) -> str:
        """Return the requested scopes, by default all, in canonical order."""
        requested = set(scope.split()) if scope else SCOPES
        return " ".join(name for name in SCOPES if name in requested)

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        match = LOOPBACK_REDIRECT_URI.fullmatch(redirect_uri)
        return match is not None and int(match[1]) <= MAX_PORT

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in GRANT_TYPES


CLIENT = CommandLineClient()


class Server(AuthorizationServer):
    def query_client(self, client_id: str) -> CommandLineClient | None:
        return CLIENT if client_id == CLIENT_ID else None

    def create_oauth2_request(self, request: IssuerRequest) -> IssuerRequest:
        return request

    def handle_response(self, status: int, body: Any, headers: Sequence[tuple[str, str]]) -> Response:
        response_headers = {name: value for name, value in headers if name.lower() != "content-type"}
        response_headers["Cache-Control"] = "no-store"
        response_type = JSONResponse if isinstance(body, dict) else Response
        return response_type(body, status, response_headers)

    def save_token(self, token: dict[str, Any], request: IssuerRequest) -> None:
        """Do nothing: `tokens` has stored the refresh token."""

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Do nothing: signals are not used."""
