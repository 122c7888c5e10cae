"""Sign in with a browser: the authorization request and the loopback listener (RFC 8252, RFC 7636, RFC 9207).

The listener binds to 127.0.0.1, on a free port or `FROST_LOGIN_PORT`, and accepts only that host name. It takes the
first request with the state of the attempt and closes after it or after 5 minutes. Other requests are rejected.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from client.auth import oidc
from client.auth.oidc import Provider
from client.errors import Exit, FrostError

PATH = "/callback"
_POLL = 0.2
_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>frost</title>"
    "<p>{}</p><p>You can close this window and go back to the terminal.</p></html>"
)


class AuthorizationCodeFlow:
    """A sign-in attempt. A context manager, which closes the listener at the end.

    Args:
        provider: The identity provider.
        port: The port of the listener; 0 for a free one.

    Raises:
        FrostError: The port cannot be opened (exit 1).
    """

    def __init__(self, provider: Provider, port: int = 0) -> None:
        self._provider = provider
        self._state = secrets.token_urlsafe(32)
        self._nonce = secrets.token_urlsafe(32)
        self._verifier = secrets.token_urlsafe(48)
        try:
            self._server = _Listener(self, port)
        except OSError as error:
            raise FrostError(
                f"cannot listen for the browser on 127.0.0.1:{port}: {error.strerror}",
                code="SIGN_IN_REFUSED",
                hint="free the port, or set another one: FROST_LOGIN_PORT",
            ) from None
        self._answer: dict[str, str] = {}
        self._answered = threading.Event()
        self._taking = threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(_POLL,), name="sign-in", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def host(self) -> str:
        """Return the only accepted `Host`, as a protection against DNS rebinding."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def redirect_uri(self) -> str:
        return f"http://{self.host}{PATH}"

    def url(self, *, device: str, login_hint: str = "") -> str:
        """Return the authorization URL: code flow with PKCE (S256), state and nonce."""
        digest = hashlib.sha256(self._verifier.encode("ascii")).digest()
        query = {
            "response_type": "code",
            **self._provider.common_parameters,
            "redirect_uri": self.redirect_uri,
            "scope": self._provider.scope,
            "state": self._state,
            "nonce": self._nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii"),
            "code_challenge_method": "S256",
            "device": device,
            **({"prompt": self._provider.prompt} if self._provider.prompt else {}),
            **({"login_hint": login_hint} if login_hint else {}),
        }
        mark = "&" if urlsplit(self._provider.authorization).query else "?"
        return f"{self._provider.authorization}{mark}{urlencode(query)}"

    def accept_redirect(self, location: str) -> None:
        """Send the local platform's redirect to the listener, as a browser would."""
        from http.client import HTTPConnection

        parts = urlsplit(location)
        if f"{parts.scheme}://{parts.netloc}{parts.path}" != self.redirect_uri:
            raise _refusal("the sign-in response was sent to another address")
        carrier = HTTPConnection(self.host, timeout=10)
        try:
            carrier.request("GET", f"{parts.path}?{parts.query}")
            carrier.getresponse().read()
        finally:
            carrier.close()

    def code(self, seconds: float, cancelled: threading.Event) -> str:
        """Wait for the authorization code.

        Raises:
            FrostError: Refused by the provider or the user (exit 3), cancelled (exit 130), timed out (exit 7).
        """
        end = time.monotonic() + seconds
        while not self._answered.wait(_POLL):
            if cancelled.is_set():
                raise FrostError("the sign-in was cancelled", code="CANCELLED", exit_code=Exit.INTERRUPTED)
            if time.monotonic() >= end:
                raise FrostError(
                    f"no sign-in within {seconds / 60:g} minutes",
                    code="SIGN_IN_TIMED_OUT",
                    hint="try again: frost login, or with a code: frost login --device",
                    exit_code=Exit.UNREACHABLE,
                )
        if "error" in self._answer:
            raise oidc.explained(oidc.Refused(self._answer["error"], 302))
        return self._answer["code"]

    def exchange(self, code: str) -> dict[str, str]:
        """Return the form that exchanges the code for tokens."""
        return {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self._verifier,
            **self._provider.common_parameters,
        }

    def check_id_token(self, tokens: Mapping[str, Any]) -> None:
        """Check issuer, audience and nonce of the ID token. Raises FrostError (exit 3).

        The token comes directly from the token endpoint, so its signature need not be checked (OpenID Connect Core
        3.1.3.7, 6).
        """
        claims = _claims(tokens.get("id_token"))
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if (
            claims.get("iss") != self._provider.issuer
            or self._provider.client_id not in audiences
            or not hmac.compare_digest(str(claims.get("nonce", "")).encode(), self._nonce.encode())
        ):
            raise _refusal("the identity provider's response belongs to another sign-in")

    @property
    def outcome(self) -> str:
        """Return the message for the browser. The terminal shows whether the sign-in succeeded."""
        return "The sign-in was refused." if "error" in self._answer else "You are signed in."

    def take(self, host: str, target: str) -> str:
        """Handle a request to the listener. Return the reason of a rejection, empty if the response was accepted."""
        parts = urlsplit(target)
        if not hmac.compare_digest(host.encode(), self.host.encode()) or parts.path != PATH:
            return "This is not the address of a sign-in."
        pairs = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=20)
        answer = dict(pairs)
        if len(answer) != len(pairs) or not hmac.compare_digest(answer.get("state", "").encode(), self._state.encode()):
            return "This response belongs to another sign-in."
        if answer.get("iss", self._provider.issuer) != self._provider.issuer:
            return "This response comes from another identity provider."
        if not answer.get("error") and not answer.get("code"):
            return "This response has no code."
        with self._taking:
            if self._answer:
                return "This sign-in is already complete."
            self._answer = {"error": answer["error"]} if answer.get("error") else {"code": answer["code"]}
        return ""

    def go_on(self) -> None:
        """Let `code` return. Call after the page is sent: after a refusal the process exits immediately."""
        self._answered.set()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, attempt: AuthorizationCodeFlow, port: int) -> None:
        # Otherwise a fixed port is unavailable for a minute after a sign-in. On Windows, the option shares the port.
        self.allow_reuse_address = port != 0 and os.name == "posix"
        super().__init__(("127.0.0.1", port), _Handler)
        self.attempt = attempt

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections."""


class _Handler(BaseHTTPRequestHandler):
    timeout = 5
    server: _Listener
    _HEADERS: ClassVar[Mapping[str, str]] = {
        "Content-Type": "text/html; charset=utf-8",
        "Cache-Control": "no-store",
        "Content-Security-Policy": "default-src 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
    }

    def do_GET(self) -> None:
        try:
            refused = self.server.attempt.take(self.headers.get("Host", ""), self.path)
        except ValueError:
            refused = "This request is invalid."
        try:
            self._show(refused)
        finally:
            if not refused:
                self.server.attempt.go_on()

    def _show(self, refused: str) -> None:
        page = _PAGE.format(refused or self.server.attempt.outcome).encode()
        self.send_response_only(400 if refused else 200)
        for name, value in self._HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:
        """Disable logging: the request line contains the code."""


def _claims(token: object) -> dict[str, Any]:
    try:
        body = str(token).split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _refusal(message: str) -> FrostError:
    return FrostError(message, code="SIGN_IN_REFUSED", hint="try again: frost login", exit_code=Exit.NOT_SIGNED_IN)
