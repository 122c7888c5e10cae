"""The identity provider of a platform: finding it, asking its endpoints, reading the tokens it gives.

Nothing of an answer is believed that leads away from the issuer: every endpoint must be on the issuer's own host, and
https unless it is this machine (hostile H06). Error bodies are never shown (facts 1.5).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from client import clock
from client.credentials import Credential
from client.endpoint import Endpoint, issuer_route
from client.errors import Exit, FrostError
from client.text import safe

if TYPE_CHECKING:
    from client.connection import Connection
    from client.core import Reply

_SCOPES = ("openid", "profile", "email", "offline_access")
_PROMPTS = ("login", "consent")
_LONGEST_LIFE = 366 * 24 * 3600


class Provider(NamedTuple):
    """What a sign-in needs to know of the identity provider; endpoints are URLs, empty when it has none.

    `resource` is what its tokens are asked for (RFC 8707), empty when the platform names none. `prompt` is what its
    page is to ask: the password, since after `revoke-all` the platform takes no older sign-in, and the person's
    consent, without which `offline_access` is not given (OpenID Connect Core 11).
    """

    issuer: str
    client_id: str
    token: str
    authorization: str
    device_authorization: str
    revocation: str
    resource: str = ""
    scope: str = " ".join(_SCOPES)
    prompt: str = " ".join(_PROMPTS)

    @property
    def asked(self) -> dict[str, str]:
        """What goes with every request for tokens: who asks, and for which resource."""
        return {"client_id": self.client_id, **({"resource": self.resource} if self.resource else {})}


class Refused(Exception):
    """The provider said no: `code` is its OAuth error code, empty when its answer had none; `status` is HTTP's."""

    def __init__(self, code: str, status: int) -> None:
        super().__init__(code or f"HTTP {status}")
        self.code = code
        self.status = status


def discover(connection: Connection) -> Provider:
    """Asks the platform for its identity provider, and that one for its endpoints.

    Raises:
        FrostError: One of them does not answer (exit 7) or says something that is not believed (exit 1).
    """
    from client.api.auth import cli_config
    from client.oneshot import OneShot

    told = OneShot(connection).call(cli_config())
    issuer, client_id, resource = told.get("issuer"), told.get("clientId"), told.get("resource", "")
    if not isinstance(issuer, str) or not issuer:
        raise _unfit("the platform names no identity provider")
    if not isinstance(client_id, str) or not client_id:
        raise _unfit("the platform has no client for command lines configured")
    if not isinstance(resource, str):
        raise _unfit("the platform names a resource that is none")
    route, target = issuer_route(issuer, connection.endpoint)
    if "?" in target:
        raise _unfit("the issuer's URL has a query")
    url = issuer.rstrip("/") + "/.well-known/openid-configuration"
    document = _object(_fetched(connection, "GET", url))
    if document is None:
        raise _unfit(f"{safe(issuer, 200)} does not describe itself (no discovery document)")
    if document.get("issuer") != issuer:
        raise _unfit(f"the discovery document of {safe(issuer, 200)} is another issuer's")

    def endpoint(name: str) -> str:
        found = document.get(name, "")
        if not isinstance(found, str):
            raise _unfit(f"{name} of the identity provider is not a URL")
        if found:
            _check_host(connection, name, found, route)
        return found

    token = endpoint("token_endpoint")
    if not token:
        raise _unfit("the identity provider names no token endpoint")
    scopes = _known(_SCOPES, document.get("scopes_supported"))
    prompts = _PROMPTS if "offline_access" in scopes else _PROMPTS[:1]
    return Provider(
        issuer,
        client_id,
        token,
        endpoint("authorization_endpoint"),
        endpoint("device_authorization_endpoint"),
        endpoint("revocation_endpoint"),
        resource,
        " ".join(scopes),
        " ".join(_known(prompts, document.get("prompt_values_supported"))),
    )


def _known(wanted: Sequence[str], supported: object) -> list[str]:
    """Those of ours that a provider knows; all of them when it does not say what it knows."""
    return [one for one in wanted if not isinstance(supported, list) or one in supported]


def is_platforms_own(connection: Connection, provider: Provider) -> bool:
    """Whether the issuer is the local platform itself, which knows its socket's owner and asks nobody."""
    if connection.endpoint.kind != "unix":
        return False
    return issuer_route(provider.issuer, connection.endpoint)[0] == connection.endpoint


def post(connection: Connection, url: str, form: Mapping[str, str]) -> dict[str, Any]:
    """Posts a form to an endpoint of the provider; the answer's JSON object.

    Raises:
        Refused: Any status but 200.
        FrostError: There was no answer (exit 7), or none that can be read (exit 1).
    """
    reply = _fetched(
        connection,
        "POST",
        url,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        body=urlencode(form).encode("ascii"),
    )
    document = _object(reply)
    if reply.status != 200:
        code = (document or {}).get("error")
        raise Refused(code if isinstance(code, str) else "", reply.status)
    if document is None:
        raise _unfit("the identity provider's answer is not a JSON object")
    return document


def redirect_of(connection: Connection, url: str) -> str:
    """Where the local platform's authorization page sends the person, who is known by the socket.

    Raises:
        FrostError: It does not redirect (exit 3).
    """
    reply = _fetched(connection, "GET", url)
    location = reply.headers.get("location", "")
    if reply.status not in (302, 303) or not location:
        raise explained(Refused(str((_object(reply) or {}).get("error", "")), reply.status))
    return location


def session_from(tokens: Mapping[str, Any], before: Credential | None = None) -> Credential:
    """The session that a token answer stands for; what it leaves out stays as it was `before` (facts 1.5)."""
    access = _token(tokens, "access_token")
    if not access:
        raise _unfit("the identity provider's answer has no access token")
    refresh = _token(tokens, "refresh_token") or (before.refresh_token if before else "")
    life = tokens.get("expires_in")
    expires = before.expires_at if before else 0
    if isinstance(life, (int, float)) and not isinstance(life, bool) and 0 < life < _LONGEST_LIFE:
        expires = int(clock.now().timestamp() + life)
    return Credential("session", access, refresh, expires, before.source if before else "")


def explained(error: Refused) -> FrostError:
    """A refusal of the provider as a command's failure; only its code is repeated."""
    known = {
        "access_denied": "the sign-in was refused at the identity provider",
        "expired_token": "the code has expired before it was confirmed",
        "invalid_client": "the identity provider does not know this client",
        "invalid_grant": "the identity provider refused the sign-in",
        "invalid_scope": "the identity provider does not give this client what a sign-in needs (invalid_scope)",
        "invalid_target": "the identity provider gives no tokens for this platform (invalid_target)",
        "unauthorized_client": "the identity provider does not let this client sign in this way (unauthorized_client)",
    }
    what = known.get(error.code) or f"the identity provider refused ({safe(error.code, 60) or f'HTTP {error.status}'})"
    return FrostError(what, code="SIGN_IN_REFUSED", hint="try again: frost login", exit_code=Exit.NOT_SIGNED_IN)


def _fetched(connection: Connection, method: str, url: str, **more: Any) -> Reply:
    from client.oneshot import fetch

    route, target = issuer_route(url, connection.endpoint)
    return fetch(route, connection.environ, method, target, **more)


def _check_host(connection: Connection, name: str, url: str, issuer: Endpoint) -> None:
    """Refuses an endpoint on another host than the issuer's; tokens and codes go there (hostile H06)."""
    route, _ = issuer_route(url, connection.endpoint)
    if (route.kind, route.host, route.port) != (issuer.kind, issuer.host, issuer.port):
        raise _unfit(
            f"{name} of the identity provider is on another host, {safe(urlsplit(url).netloc, 100)}; nothing was sent"
        )


def _object(reply: Reply) -> dict[str, Any] | None:
    try:
        found = json.loads(reply.body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _token(tokens: Mapping[str, Any], name: str) -> str:
    found = tokens.get(name, "")
    if (
        not isinstance(found, str)
        or not found.isascii()
        or not found.isprintable()
        or " " in found
        or len(found) > 16384
    ):
        raise _unfit(f"the identity provider's {name} is not a token")
    return found


def _unfit(message: str) -> FrostError:
    return FrostError(message, code="SIGN_IN_REFUSED", hint="check api_endpoint: frost config show")
