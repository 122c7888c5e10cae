"""One sign-in with a browser: the authorization request and the listener that its answer comes back to.

The listener is bound to 127.0.0.1 on a port of the system's choice, answers only under that name, takes the first
request that carries our state, and is gone after it or after 5 minutes. Requests that do not fit are refused and change
nothing. Source: RFC 8252, RFC 7636, RFC 9207; hostile C06.
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

from client import oidc
from client.errors import Exit, FrostError
from client.oidc import Provider

PATH = "/callback"
_POLL = 0.2
_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>frost</title>"
    "<p>{}</p><p>You can close this window and go back to the terminal.</p></html>"
)


class Attempt:
    """A sign-in under way. Used as a context manager; leaving it closes the listener.

    Args:
        provider: Where it is begun.
        port: Where the listener is; 0 takes a free one.

    Raises:
        FrostError: Something else listens on that port (exit 1).
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
                f"the browser cannot be answered on 127.0.0.1:{port}: {error.strerror}",
                code="SIGN_IN_REFUSED",
                hint="free that port, or give another one: FROST_LOGIN_PORT",
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
        """The only `Host` the listener answers for: a name that is rebound to this machine is not it."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def redirect_uri(self) -> str:
        return f"http://{self.host}{PATH}"

    def url(self, *, device: str, login_hint: str = "") -> str:
        """The page to open: code flow, PKCE S256, our state and nonce."""
        digest = hashlib.sha256(self._verifier.encode("ascii")).digest()
        query = {
            "response_type": "code",
            **self._provider.asked,
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

    def deliver(self, location: str) -> None:
        """Takes the redirect that the local platform answered with, as a browser would bring it to the listener."""
        from http.client import HTTPConnection

        parts = urlsplit(location)
        if f"{parts.scheme}://{parts.netloc}{parts.path}" != self.redirect_uri:
            raise _refusal("the sign-in was answered to another place")
        carrier = HTTPConnection(self.host, timeout=10)
        try:
            carrier.request("GET", f"{parts.path}?{parts.query}")
            carrier.getresponse().read()
        finally:
            carrier.close()

    def code(self, seconds: float, cancelled: threading.Event) -> str:
        """Waits for the authorization code.

        Raises:
            FrostError: Refused by the provider or the person (exit 3), cancelled (exit 130), not in time (exit 7).
        """
        end = time.monotonic() + seconds
        while not self._answered.wait(_POLL):
            if cancelled.is_set():
                raise FrostError("the sign-in was cancelled", code="CANCELLED", exit_code=Exit.INTERRUPTED)
            if time.monotonic() >= end:
                raise FrostError(
                    f"nobody signed in within {seconds / 60:g} minutes",
                    code="SIGN_IN_TIMED_OUT",
                    hint="try again: frost login, or with a code: frost login --device",
                    exit_code=Exit.UNREACHABLE,
                )
        if "error" in self._answer:
            raise oidc.explained(oidc.Refused(self._answer["error"], 302))
        return self._answer["code"]

    def exchange(self, code: str) -> dict[str, str]:
        """The form that turns the code into tokens."""
        return {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self._verifier,
            **self._provider.asked,
        }

    def check_id_token(self, tokens: Mapping[str, Any]) -> None:
        """The ID token must answer this very request: issuer, audience and nonce.

        It came straight from the token endpoint, so the channel vouches for it (OpenID Connect Core 3.1.3.7, 6).
        """
        claims = _claims(tokens.get("id_token"))
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if (
            claims.get("iss") != self._provider.issuer
            or self._provider.client_id not in audiences
            or not hmac.compare_digest(str(claims.get("nonce", "")).encode(), self._nonce.encode())
        ):
            raise _refusal("the identity provider's answer belongs to another sign-in")

    @property
    def outcome(self) -> str:
        """What the browser shows when the provider has answered; whether it was a sign-in is seen in the terminal."""
        return "The sign-in was refused." if "error" in self._answer else "You are signed in."

    def take(self, host: str, target: str) -> str:
        """One request of the listener; why it is refused, or empty when it was the answer we wait for."""
        parts = urlsplit(target)
        if not hmac.compare_digest(host.encode(), self.host.encode()) or parts.path != PATH:
            return "This is not the address of a sign-in."
        pairs = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=20)
        answer = dict(pairs)
        if len(answer) != len(pairs) or not hmac.compare_digest(answer.get("state", "").encode(), self._state.encode()):
            return "This answer does not belong to the sign-in that was begun here."
        if answer.get("iss", self._provider.issuer) != self._provider.issuer:
            return "This answer comes from another identity provider."
        if not answer.get("error") and not answer.get("code"):
            return "This answer carries no code."
        with self._taking:
            if self._answer:
                return "This sign-in has been answered already."
            self._answer = {"error": answer["error"]} if answer.get("error") else {"code": answer["code"]}
        return ""

    def go_on(self) -> None:
        """Lets the sign-in end. Only once the browser has its page: with a refusal this process is gone at once."""
        self._answered.set()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, attempt: Attempt, port: int) -> None:
        # A named port stays taken for a minute after each sign-in otherwise; on Windows this would share it.
        self.allow_reuse_address = port != 0 and os.name == "posix"
        super().__init__(("127.0.0.1", port), _Handler)
        self.attempt = attempt

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A torn connection is nobody's news."""


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
            refused = "This request cannot be read."
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
        """Nothing is logged: the request line holds the code."""


def _claims(token: object) -> dict[str, Any]:
    try:
        body = str(token).split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _refusal(message: str) -> FrostError:
    return FrostError(message, code="SIGN_IN_REFUSED", hint="try again: frost login", exit_code=Exit.NOT_SIGNED_IN)
