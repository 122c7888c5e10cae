"""The identity provider of a platform: discovery, requests to its endpoints, token responses, device codes (RFC 8628).

All endpoints must be on the issuer's host and use https, except on this machine. Error bodies are never shown.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlencode, urlsplit

from client import times
from client.auth.credential_store import Credential
from client.errors import Exit, FrostError
from client.text import safe
from client.transport.call import Call, Model, Request, record
from client.transport.endpoint import Endpoint, issuer_route
from client.transport.secret_mask import mask_body

if TYPE_CHECKING:
    from client.config.reader import Config, Context
    from client.models.account import CliConfig
    from client.transport.call import Credential as Signing
    from client.transport.call import Reply


_SCOPES = ("openid", "profile", "email", "offline_access")
_PROMPTS = ("login", "consent")


class Provider(NamedTuple):
    """Endpoints and parameters of an identity provider. Missing endpoints are empty.

    `resource` is the resource indicator for tokens (RFC 8707), empty if the platform has none. `prompt` requests the
    password, because the platform rejects sign-ins from before `revoke-all`, and consent, which `offline_access`
    requires (OpenID Connect Core 11).
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
    def common_parameters(self) -> dict[str, str]:
        """Return the common parameters of token requests: client and resource."""
        return {"client_id": self.client_id, **({"resource": self.resource} if self.resource else {})}


class Connection(Protocol):
    """A context for sign-in and refresh, implemented in client/connection.py."""

    config: Config
    context: Context
    environ: Mapping[str, str]
    notices: list[str]
    lock: threading.RLock

    @property
    def endpoint(self) -> Endpoint: ...

    def credential(self) -> Credential:
        """Return the credential, loaded on first use."""

    def refresh(self, used: Signing) -> Credential:
        """Return a session newer than `used`."""

    def start(self) -> bool:
        """Start the local platform if it does not run; return False if this connection must not start it."""

    def set_credential(self, credential: Credential | None) -> None:
        """Use this credential for the next requests; None loads the stored one again."""

    def reload(self) -> None:
        """Read the configuration file again."""

    def provider(self) -> Provider:
        """Return the identity provider, discovered once."""


CLI_CONFIG: Model[CliConfig] = Model("account.CliConfig")

_LONGEST_LIFE = 366 * 24 * 3600
_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_INTERVAL = 5.0
_SECRETS = ("refresh_token", "token", "code", "code_verifier", "device_code")
"""Parameters that an error of the provider must not show. A token response may repeat them."""
_LONGEST_CODE = 3600.0


class Refused(Exception):
    """The provider returned an error: `code` is its OAuth error code, empty if missing; `status` is the HTTP status."""

    def __init__(self, code: str, status: int) -> None:
        super().__init__(code or f"HTTP {status}")
        self.code = code
        self.status = status


def discover(connection: Connection) -> Provider:
    """Request the platform's identity provider and discover its endpoints.

    Raises:
        FrostError: The platform or the provider is unreachable (exit 7), or a response is invalid (exit 1 or 2).
    """
    from client.transport.blocking_client import BlockingClient

    config = BlockingClient(connection).ask_json(cli_config())
    issuer, client_id, resource = config.get("issuer"), config.get("clientId"), config.get("resource", "")
    if not isinstance(issuer, str) or not issuer:
        raise _unfit("the platform has no identity provider configured")
    if not isinstance(client_id, str) or not client_id:
        raise _unfit("the platform has no client for command lines configured")
    if not isinstance(resource, str):
        raise _unfit("the resource in the platform's response is invalid")
    route, target = issuer_route(issuer, connection.endpoint)
    if "?" in target:
        raise _unfit("the issuer's URL has a query")
    url = issuer.rstrip("/") + "/.well-known/openid-configuration"
    document = _object(_fetch(connection, "GET", url))
    if document is None:
        raise _unfit(f"{safe(issuer, 200)} has no discovery document")
    if document.get("issuer") != issuer:
        raise _unfit(f"the discovery document of {safe(issuer, 200)} is for another issuer")

    def endpoint(name: str) -> str:
        url = document.get(name, "")
        if not isinstance(url, str):
            raise _unfit(f"{name} of the identity provider is not a URL")
        if url:
            _check_host(connection, name, url, route)
        return url

    token = endpoint("token_endpoint")
    if not token:
        raise _unfit("the identity provider has no token endpoint")
    scopes = _select_supported(_SCOPES, document.get("scopes_supported"))
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
        " ".join(_select_supported(prompts, document.get("prompt_values_supported"))),
    )


def _select_supported(values: Sequence[str], supported: object) -> list[str]:
    """Return the supported values; all of them if the provider does not list them."""
    return [one for one in values if not isinstance(supported, list) or one in supported]


def is_platforms_own(connection: Connection, provider: Provider) -> bool:
    """Return whether the issuer is the local platform, which identifies the user by the socket."""
    if connection.endpoint.kind != "unix":
        return False
    return issuer_route(provider.issuer, connection.endpoint)[0] == connection.endpoint


def post(connection: Connection, url: str, form: Mapping[str, str]) -> dict[str, Any]:
    """Post a form to an endpoint of the provider and return the JSON object of the response.

    Raises:
        Refused: The status is not 200 to 299.
        FrostError: No response (exit 7), or an invalid one (exit 1).
    """
    document = _object(_post(connection, url, form))
    if document is None:
        raise _unfit("the identity provider's response is not a JSON object")
    return document


def revoke(connection: Connection, url: str, form: Mapping[str, str]) -> None:
    """Post a token to the provider's revocation endpoint. The body of its response is ignored (RFC 7009, 2.2).

    Raises:
        Refused: The status is not 200 to 299.
        FrostError: No response (exit 7).
    """
    _post(connection, url, form)


def _post(connection: Connection, url: str, form: Mapping[str, str]) -> Reply:
    reply = _fetch(
        connection,
        "POST",
        url,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        body=urlencode(form).encode("ascii"),
    )
    if not 200 <= reply.status < 300:
        secrets = [form[name] for name in _SECRETS if name in form]
        code = (_object(reply._replace(body=mask_body(reply.body, secrets))) or {}).get("error")
        raise Refused(code if isinstance(code, str) else "", reply.status)
    return reply


def redirect_of(connection: Connection, url: str) -> str:
    """Return the redirect of the local platform's authorization page, which identifies the user by the socket.

    Raises:
        FrostError: The response is not a redirect (exit 3).
    """
    reply = _fetch(connection, "GET", url)
    location = reply.headers.get("location", "")
    if reply.status not in (302, 303) or not location:
        raise explained(Refused(str((_object(reply) or {}).get("error", "")), reply.status))
    return location


def session_from(tokens: Mapping[str, Any], before: Credential | None = None) -> Credential:
    """Return the session of a token response. Missing values are taken from `before`."""
    access = _token(tokens, "access_token")
    if not access:
        raise _unfit("the identity provider's response has no access token")
    refresh = _token(tokens, "refresh_token") or (before.refresh_token if before else "")
    life = tokens.get("expires_in")
    expires = before.expires_at if before else 0
    if isinstance(life, (int, float)) and not isinstance(life, bool) and 0 < life < _LONGEST_LIFE:
        expires = int(times.now().timestamp() + life)
    return Credential("session", access, refresh, expires, before.source if before else "")


def explained(error: Refused) -> FrostError:
    """Return the error for a refusal by the provider; of the response it shows only the code."""
    known = {
        "access_denied": "the sign-in was refused at the identity provider",
        "expired_token": "the code expired before it was confirmed",
        "invalid_client": "the identity provider does not know this client",
        "invalid_grant": "the identity provider refused the sign-in",
        "invalid_scope": "the identity provider refuses the scopes of a sign-in to this client (invalid_scope)",
        "invalid_target": "the identity provider issues no tokens for this platform (invalid_target)",
        "unauthorized_client": "the identity provider refuses this sign-in method to this client (unauthorized_client)",
    }
    what = known.get(error.code) or f"the identity provider refused ({safe(error.code, 60) or f'HTTP {error.status}'})"
    return FrostError(what, code="SIGN_IN_REFUSED", hint="try again: frost login", exit_code=Exit.NOT_SIGNED_IN)


def _fetch(connection: Connection, method: str, url: str, **more: Any) -> Reply:
    from client.transport.blocking_client import fetch

    route, target = issuer_route(url, connection.endpoint)
    hint = "" if route == connection.endpoint else "the platform of api_endpoint names this identity provider"
    return fetch(route, connection.environ, method, target, hint=hint, **more)


def _check_host(connection: Connection, name: str, url: str, issuer: Endpoint) -> None:
    """Refuse an endpoint on another host than the issuer's: it would receive tokens and codes."""
    route, _ = issuer_route(url, connection.endpoint)
    if (route.kind, route.host, route.port) != (issuer.kind, issuer.host, issuer.port):
        raise _unfit(
            f"{name} of the identity provider has another host, {safe(urlsplit(url).netloc, 100)}; nothing was sent"
        )


def _object(reply: Reply) -> dict[str, Any] | None:
    try:
        document = json.loads(reply.body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _token(tokens: Mapping[str, Any], name: str) -> str:
    token = tokens.get(name, "")
    if (
        not isinstance(token, str)
        or not token.isascii()
        or not token.isprintable()
        or " " in token
        or len(token) > 16384
    ):
        raise _unfit(f"the identity provider's {name} is not a token")
    return token


def _unfit(message: str) -> FrostError:
    return FrostError(message, code="SIGN_IN_REFUSED", hint="check api_endpoint: frost config show")


def cli_config() -> Call[CliConfig]:
    """Request the identity provider that the platform trusts, and the client id to use."""
    request = Request("GET", "/v1/auth/cli-config", authenticated=False)
    return record(request, CLI_CONFIG, ("issuer",))


class DeviceCode(NamedTuple):
    """The codes and URLs to show to the user; `expires_in` and `interval` are in seconds."""

    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: float
    interval: float


def device_codes(answer: dict[str, Any], connection: Connection) -> tuple[str, DeviceCode]:
    """Return the device code and the data to show. Raises FrostError if a URL is not allowed for the endpoint."""
    device_code, user_code, page = (answer.get(name) for name in ("device_code", "user_code", "verification_uri"))
    complete = answer.get("verification_uri_complete") or page
    if not all(isinstance(one, str) and one for one in (device_code, user_code, page, complete)):
        raise FrostError("the identity provider's device code is incomplete", code="SIGN_IN_REFUSED")
    for url in (page, complete):
        issuer_route(str(url), connection.endpoint)
    expires = min(_seconds(answer.get("expires_in"), 600.0), _LONGEST_CODE)
    interval = _seconds(answer.get("interval"), _INTERVAL)
    return str(device_code), DeviceCode(safe(user_code, 60), str(page), str(complete), expires, interval)


def poll_for_tokens(
    connection: Connection,
    provider: Provider,
    device_code: str,
    code: DeviceCode,
    stop: threading.Event,
    *,
    at_once: bool,
) -> dict[str, Any]:
    """Poll for tokens until the user confirms. `at_once` omits the first pause, for a code confirmed already.

    Raises:
        Refused: The user declined, or the code has expired.
        FrostError: Cancelled (exit 130), or the provider is unreachable until the code expires (exit 7).
    """
    form = {"grant_type": _GRANT, "device_code": device_code, **provider.common_parameters}
    away: FrostError | None = None
    interval = code.interval
    end = time.monotonic() + code.expires_in
    pause = 0.0 if at_once else interval
    while time.monotonic() < end:
        if stop.wait(pause):
            raise FrostError("the sign-in was cancelled", code="CANCELLED", exit_code=Exit.INTERRUPTED)
        pause = interval
        try:
            return post(connection, provider.token, form)
        except Refused as error:
            away = None
            if error.code == "slow_down":
                interval += 5.0
                pause = interval
            elif time.monotonic() >= end:
                break  # the provider may report an unknown code instead of an expired one
            elif error.code != "authorization_pending":
                raise
        except FrostError as error:
            if error.exit_code != Exit.UNREACHABLE:
                raise
            away = error
            interval *= 2  # RFC 8628, 3.5: back off while the provider is unreachable
    raise away or Refused("expired_token", 400)


def _seconds(value: object, default: float) -> float:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 86400
    return float(value) if known else default  # type: ignore[arg-type]
