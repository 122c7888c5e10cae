"""Authlib's framework-neutral OAuth core, given our client, our request and our answers.

One request is one database transaction: it is opened by the route and committed also when the answer is an OAuth error,
because refusals change state too (a slower poll, a session ended by a stolen token). This module, `device_flow`,
`authorization_code` and `refresh_tokens` import Authlib; the start of the platform does not.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Request
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from sqlalchemy import Connection
from starlette.responses import JSONResponse, Response

from service.oidc_issuer.issuer import GRANT_TYPES, SCOPES, LocalIssuer
from service.principal import Principal
from service.settings import CLIENT_ID

# RFC 8252 section 7.3: a loopback address as a number, never the name `localhost`, which others may answer for.
REDIRECT_URI = re.compile(r"http://(?:127\.0\.0\.1|\[::1\]):([1-9][0-9]{0,4})/callback")
HIGHEST_PORT = 65535


class IssuerRequest(OAuth2Request):
    """One request to the issuer, with the transaction it runs in.

    Args:
        parameters: the form's or the query's, each once.
        connection: the write transaction.
        caller: who is at the other end of the socket.
        at: when the request came, on the platform's clock; all of it happens then.
    """

    def __init__(
        self,
        method: str,
        uri: str,
        parameters: Mapping[str, str],
        *,
        issuer: LocalIssuer,
        connection: Connection,
        caller: Principal,
        at: datetime,
    ) -> None:
        super().__init__(method, uri)
        self.payload = BasicOAuth2Payload(parameters)
        self.issuer = issuer
        self.connection = connection
        self.caller = caller
        self.at = at

    @property
    def form(self) -> Mapping[str, str]:
        parameters: Mapping[str, str] = self.payload.data
        return parameters


class CommandLineClient(ClientMixin):
    """The one client there is: public, on the person's own machine."""

    def get_client_id(self) -> str:
        return CLIENT_ID

    def get_default_redirect_uri(self) -> None:
        return None

    def get_allowed_scope(self, scope: str | None) -> str:
        """The scopes granted: those asked for, each once, in our order; all of them when none is named."""
        asked = set(scope.split()) if scope else SCOPES
        return " ".join(name for name in SCOPES if name in asked)

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        match = REDIRECT_URI.fullmatch(redirect_uri)
        return match is not None and int(match[1]) <= HIGHEST_PORT

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in GRANT_TYPES


CLIENT = CommandLineClient()


class Server(AuthorizationServer):
    """The authorization server: what Authlib leaves to the framework."""

    def query_client(self, client_id: str) -> CommandLineClient | None:
        return CLIENT if client_id == CLIENT_ID else None

    def create_oauth2_request(self, request: IssuerRequest) -> IssuerRequest:
        return request

    def handle_response(self, status: int, body: Any, headers: Sequence[tuple[str, str]]) -> Response:
        """Authlib's answer as ours. Nothing the issuer says may be kept by a cache."""
        kept = {name: value for name, value in headers if name.lower() != "content-type"}
        kept["Cache-Control"] = "no-store"
        return JSONResponse(body, status, kept) if isinstance(body, dict) else Response(body, status, kept)

    def save_token(self, token: dict[str, Any], request: IssuerRequest) -> None:
        """Nothing: `grants` writes the refresh token with the session, before it is known as a token."""

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Nobody listens."""
